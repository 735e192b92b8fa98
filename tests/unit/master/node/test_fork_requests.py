"""Which requests workers get around a split, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.model import HardState, LogPosition, Peer, View
from quadlog.master.node.fork_requests import (
    AGAIN_MS,
    AWAY_MS,
    BACKUP,
    LOOK_MS,
    LOST_MS,
    SPLIT,
    TOGETHER,
    ForkRequests,
)
from quadlog.master.workers.worker_registry import Worker, WorkerRegistry
from tests.support.agreement.cluster import Member
from tests.support.masters.beats import beat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.agreement.cluster_view import ClusterView

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
ALL = ("m1", "m2", "m3")
PEERS = tuple(Peer(name, dc) for name, dc in MASTERS.items())


@dataclass
class Scene:
    """A leading master's requests to two workers; time passes by `tick`."""

    recovery: SplitRecovery = SplitRecovery.SIMPLE
    now: float = 10_000.0
    asked: list[tuple[str, str, Mapping[str, object]]] = field(default_factory=list)
    answers: list[Callable[[int], None]] = field(default_factory=list)
    stores: dict[str, str] = field(default_factory=lambda: {"a": "a1", "b": "b1"})
    indexes: dict[str, int] = field(default_factory=lambda: {"a": 7, "b": 7})

    def __post_init__(self) -> None:
        """All are together, and nothing was asked."""
        self.registry = WorkerRegistry(timeout_ms=2000)
        self.requests = ForkRequests(self.registry, self.ask)
        settings = ClusterSettings(split_recovery=self.recovery, max_peer_lag=20)
        self.cluster: ClusterView = Member("m1", MASTERS, settings=settings).core.cluster()

    def ask(self, worker: Worker, path: str, body: Mapping[str, object], done: Callable[[int], None]) -> None:
        self.asked.append((worker.beat.worker, path, body))
        self.answers.append(done)

    def view(self, epoch: int, members: tuple[str, ...] = ALL) -> View:
        """The view of that epoch."""
        return View(epoch=epoch, members=members, parent=bytes([epoch - 1]) * 32, peers=PEERS)

    def is_pending(self) -> bool:
        """Whether the log has to stay."""
        return self.requests.is_pending

    def answer(self, status: int) -> None:
        """The last request has an answer."""
        self.answers[-1](status)

    def tick(
        self, *silent: str, epoch: int = 1, members: tuple[str, ...] = ALL, after: float = LOOK_MS
    ) -> list[tuple[str, str, Mapping[str, object]]]:
        """What is asked now."""
        self.now += after
        for name, store in self.stores.items():
            at = LogPosition(self.indexes[name], bytes(32))
            self.registry.on_heartbeat(replace(beat(name), applied=at, store=store), self.now)
        view = self.view(epoch, members)
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
    scene.tick()
    scene.answer(204)
    body = {"view": scene.view(1).id.hex(), "epoch": 1, "most": 7}
    assert scene.tick("m3") == [("a", BACKUP, body), ("b", BACKUP, body)]
    assert scene.tick("m3") == [], "not so soon again"
    scene.answers[-2](201)
    assert scene.tick("m3", after=AGAIN_MS) == [("b", BACKUP, body)], "it did not answer"
    scene.answer(204)
    assert scene.tick("m3", after=AGAIN_MS) == []
    scene.indexes["a"] = 8
    assert scene.tick("m3", after=AGAIN_MS) == [("a", BACKUP, body)], "it has applied more since"


@pytest.mark.parametrize("recovery", [SplitRecovery.QUORUM, SplitRecovery.NONE])
def test_where_nobody_goes_back_there_are_no_backups(recovery: SplitRecovery) -> None:
    scene = Scene(recovery)
    assert scene.tick("m3") == []
    assert scene.tick(epoch=2, members=("m1", "m2")) == []
    assert scene.tick(epoch=3) == []
    assert not scene.is_pending()


def test_a_view_without_some_peers_makes_the_backups_of_its_parent_those_of_a_split() -> None:
    scene = Scene(SplitRecovery.SMART)
    scene.tick("m3")
    body = {"view": scene.view(2, ("m1", "m2")).parent.hex()}
    assert scene.tick(epoch=2, members=("m1", "m2")) == [("a", SPLIT, body), ("b", SPLIT, body)]
    scene.answer(204)
    assert scene.tick(epoch=2, members=("m1", "m2"), after=AGAIN_MS) == [("a", SPLIT, body)]


def test_a_second_silence_after_a_split_gets_its_backup_and_the_first_one_is_confirmed() -> None:
    scene = Scene(SplitRecovery.SMART)
    two = scene.view(2, ("m1", "m2"))
    split = {"view": two.parent.hex()}
    backup = {"view": two.id.hex(), "epoch": 2, "most": 7}
    expected = [("a", SPLIT, split), ("a", BACKUP, backup), ("b", SPLIT, split), ("b", BACKUP, backup)]
    assert scene.tick("m2", epoch=2, members=("m1", "m2")) == expected


def test_with_simple_one_worker_after_the_other_goes_back_once_all_are_together() -> None:
    scene = Scene()
    scene.tick("m3")
    scene.tick(epoch=2, members=("m1", "m2"))
    body = {"goes_back": True, "epoch": 3}
    assert scene.tick(epoch=3) == [("a", TOGETHER, body)]
    assert scene.tick(epoch=3) == []
    assert scene.is_pending(), "the log stays"
    scene.answer(202)
    assert scene.tick(epoch=3, after=10 * AGAIN_MS) == [], "it has the same store: it did not go back yet"
    scene.stores["a"], scene.indexes["a"] = "a2", 5
    assert scene.tick(epoch=3) == [], "it did not catch up yet"
    assert scene.tick(epoch=4) == [], "whatever the view is"
    scene.indexes["a"] = 7
    assert scene.tick(epoch=4) == [("a", TOGETHER, body | {"epoch": 4})]
    scene.answer(204)
    assert scene.tick(epoch=4) == [("b", TOGETHER, body | {"epoch": 4})]
    scene.answer(204)
    assert scene.tick(epoch=4, after=AGAIN_MS) == []
    assert not scene.is_pending()
    assert scene.tick(epoch=4, after=AGAIN_MS) == []


def test_what_was_agreed_on_a_longer_branch_is_not_waited_for() -> None:
    scene = Scene()
    scene.indexes["a"] = 9
    scene.tick(epoch=3)
    scene.answer(202)
    scene.stores["a"], scene.indexes["a"] = "a2", 7
    assert [name for name, _, _ in scene.tick(epoch=3)] == ["b"]


def test_a_worker_that_does_not_answer_is_asked_again_and_one_that_is_away_holds_up_nobody() -> None:
    scene = Scene()
    assert [name for name, _, _ in scene.tick(epoch=3)] == ["a"]
    assert scene.tick(epoch=3, after=LOST_MS) == [], "perhaps it goes"
    assert [name for name, _, _ in scene.tick(epoch=3)] == ["a"]
    scene.answer(503)
    assert [name for name, _, _ in scene.tick(epoch=3)] == ["b"], "and later this one"
    scene.answer(204)
    assert [name for name, _, _ in scene.tick(epoch=3, after=AGAIN_MS)] == ["a"]
    store = scene.stores.pop("a")
    assert scene.tick(epoch=3, after=3000) == []
    scene.stores["a"] = store
    assert [name for name, _, _ in scene.tick(epoch=3, after=LOST_MS)] == ["a"]


def test_a_worker_that_gets_stuck_on_its_way_is_not_waited_for_without_end() -> None:
    scene = Scene()
    scene.tick(epoch=3)
    scene.answer(202)
    scene.stores["a"] = "a2"
    for index in (1, 2, 3):
        scene.indexes["a"] = index
        assert scene.tick(epoch=3, after=AWAY_MS) == [], "it goes on"
    assert scene.tick(epoch=3, after=AWAY_MS) == []
    assert [name for name, _, _ in scene.tick(epoch=3, after=AWAY_MS)] == ["b"]


@pytest.mark.parametrize("returns", [False, True])
def test_a_worker_that_never_comes_back_is_not_waited_for_without_end(returns: bool) -> None:  # noqa: FBT001
    """It went, or says that it goes and stays."""
    scene = Scene()
    scene.tick(epoch=3)
    scene.answer(202)
    if not returns:
        del scene.stores["a"]
    asked: list[str] = []
    for _ in range(3):
        asked += [name for name, _, _ in scene.tick(epoch=3, after=AWAY_MS / 2)]
    assert asked[0] == "b"
    assert set(asked) == {"b"}


def test_a_worker_that_went_though_its_answer_was_lost_is_waited_for() -> None:
    scene = Scene()
    scene.tick(epoch=3)
    del scene.stores["a"]
    assert scene.tick(epoch=3, after=10_000) == []
    scene.stores["a"], scene.indexes["a"] = "a2", 3
    assert scene.tick(epoch=3) == []
    scene.indexes["a"] = 7
    assert [name for name, _, _ in scene.tick(epoch=3)] == ["a"]
    scene.answer(204)
    assert [name for name, _, _ in scene.tick(epoch=3)] == ["b"]


def test_with_smart_nobody_is_asked_to_go_back() -> None:
    scene = Scene(SplitRecovery.SMART)
    scene.tick(epoch=2, members=("m1", "m2"))
    body = {"goes_back": False, "epoch": 3}
    assert scene.tick(epoch=3) == [("a", TOGETHER, body), ("b", TOGETHER, body)]
    assert not scene.is_pending()
