"""Which requests workers get around a split, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.model import HardState, LogPosition
from quadlog.master.node.fork_requests import AGAIN_MS, BACKUP, LOOK_MS, RETURN, ForkRequests
from quadlog.master.workers.worker_registry import Worker, WorkerRegistry
from tests.support.agreement.cluster import Member
from tests.support.masters.beats import beat

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.agreement.cluster_view import ClusterView

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
ALL = ("m1", "m2", "m3")


@dataclass
class Scene:
    """A leading master's requests to two workers; time passes by `tick`."""

    recovery: SplitRecovery = SplitRecovery.SIMPLE
    now: float = 10_000.0
    asked: list[tuple[str, str, dict[str, int]]] = field(default_factory=list)
    answers: list[Callable[[int], None]] = field(default_factory=list)
    stores: dict[str, str] = field(default_factory=lambda: {"a": "a1", "b": "b1"})
    indexes: dict[str, int] = field(default_factory=lambda: {"a": 7, "b": 7})

    def __post_init__(self) -> None:
        """All are together, and nothing was asked."""
        self.registry = WorkerRegistry(timeout_ms=2000)
        self.requests = ForkRequests(self.registry, self.ask)
        settings = ClusterSettings(split_recovery=self.recovery, max_peer_lag=20)
        self.cluster: ClusterView = Member("m1", MASTERS, settings=settings).core.cluster()

    def ask(self, worker: Worker, path: str, body: dict[str, int], done: Callable[[int], None]) -> None:
        self.asked.append((worker.beat.worker, path, body))
        self.answers.append(done)

    def tick(
        self, *silent: str, epoch: int = 1, members: tuple[str, ...] = ALL, after: float = LOOK_MS
    ) -> list[tuple[str, str, dict[str, int]]]:
        """What is asked now."""
        self.now += after
        for name, store in self.stores.items():
            at = LogPosition(self.indexes[name], bytes(32))
            self.registry.on_heartbeat(replace(beat(name), applied=at, store=store), self.now)
        standing = self.cluster.standing
        view = replace(standing.view, epoch=epoch, members=members)
        heard = {name: self.now - (9000 if name in silent else 0) for name in members if name != "m1"}
        cluster = replace(
            self.cluster,
            standing=HardState(view=view),
            last_heard=heard,
            last=LogPosition(7, bytes(32)),
        )
        self.asked.clear()
        self.requests.tick(cluster, self.now)
        return list(self.asked)


def test_while_a_member_is_silent_each_worker_makes_a_backup_of_what_is_applied() -> None:
    scene = Scene(SplitRecovery.SMART)
    assert scene.tick() == []
    body = {"epoch": 1, "most": 7}
    assert scene.tick("m3") == [("a", BACKUP, body), ("b", BACKUP, body)]
    assert scene.tick("m3") == [], "not so soon again"
    scene.answers[0](201)
    assert scene.tick("m3", after=AGAIN_MS) == [("b", BACKUP, body)], "it did not answer"
    scene.answers[-1](204)
    assert scene.tick("m3", after=AGAIN_MS) == []
    scene.indexes["a"] = 8
    assert scene.tick("m3", after=AGAIN_MS) == [("a", BACKUP, body)], "it has applied more since"


@pytest.mark.parametrize("recovery", [SplitRecovery.QUORUM, SplitRecovery.NONE])
def test_where_nobody_goes_back_there_are_no_backups(recovery: SplitRecovery) -> None:
    scene = Scene(recovery)
    assert scene.tick("m3") == []
    assert scene.tick(epoch=2) == []


def test_with_simple_one_worker_after_the_other_goes_back_once_all_are_together() -> None:
    scene = Scene()
    scene.tick("m3")
    assert scene.tick(epoch=2, members=("m1", "m2")) == []
    assert scene.tick(epoch=3) == [("a", RETURN, {"epoch": 3})]
    assert scene.tick(epoch=3) == []
    scene.answers[-1](202)
    assert scene.tick(epoch=3, after=10 * AGAIN_MS) == [], "it has the same store: it did not go back yet"
    scene.stores["a"], scene.indexes["a"] = "a2", 5
    assert scene.tick(epoch=3) == [], "it did not catch up yet"
    scene.indexes["a"] = 7
    assert scene.tick(epoch=3) == [("b", RETURN, {"epoch": 3})]
    scene.answers[-1](204)
    assert scene.tick(epoch=3) == []
    assert scene.tick(epoch=4) == [], "all were together since"


def test_a_worker_that_does_not_answer_is_asked_again_before_the_next_one() -> None:
    scene = Scene()
    assert scene.tick(epoch=3) == [("a", RETURN, {"epoch": 3})]
    assert scene.tick(epoch=3, after=AGAIN_MS) == []
    assert scene.tick(epoch=3) == [("a", RETURN, {"epoch": 3})]
    scene.answers[-1](503)
    assert scene.tick(epoch=3) == []
    assert scene.tick(epoch=3, after=AGAIN_MS) == []
    assert scene.tick(epoch=3) == [("a", RETURN, {"epoch": 3})]


def test_with_smart_nobody_is_asked_to_go_back() -> None:
    scene = Scene(SplitRecovery.SMART)
    scene.tick(epoch=2, members=("m1", "m2"))
    assert scene.tick(epoch=3) == []
