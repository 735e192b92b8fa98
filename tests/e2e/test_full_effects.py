"""An effects topic takes no more records while the other topics of its data centre do: the duty goes on elsewhere.

Nobody died: the worker that evaluates lives, and so do the masters.  Of the home's topic even the handover cannot be
said there, so the home moves.
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.codec.envelope import EPOCH, INDEX
from tests.support.clusters.cluster import HTTP, PATIENCE_S, Cluster, evaluating, records, until
from tests.support.clusters.duty import (
    DCS,
    Load,
    check,
    during,
    evaluates_at_home,
    evaluating_in,
    goes_on,
    handovers,
    hardly_noticed,
    too_small,
    wait_for,
    workers_in,
)
from tests.support.clusters.ending import in_turn
from tests.support.clusters.second_broker import Topic, leave, replicated
from tests.support.clusters.trouble import reads_served
from tests.support.labs import running_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from tests.support.labs import RunningLab

    Filling = Callable[[Cluster, int], AbstractContextManager[tuple[Callable[[], None], Callable[[], None]]]]
    """Gives what fills a data centre's effects topic, and what has it take records again."""

pytestmark = pytest.mark.alone

FULL = "effects-topic-full"
CIRCLING = 0.6
"""Of a core: more than any process takes under this load, and less than one that tries something without a pause."""
WAITING_S = 0.4
"""Longer than an effect takes until it is shown, and shorter than its worker waits for its topic."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Three data centres of which one's effects topic takes no records for a while."""
    with running_lab(tmp_path_factory.mktemp("full") / "lab", dcs=3, workers=2) as lab:
        yield lab


@pytest.fixture
def filling(lab: RunningLab) -> Iterator[Cluster]:
    """Wherever its home is by now."""
    with in_turn(lab) as cluster:
        yield cluster


@contextmanager
def too_few_in_sync(cluster: Cluster, dc: int) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """Two replicas are needed, and one is gone: the broker has whoever produces try again, for ever."""
    topic, lab = Topic(cluster, dc, "effects"), cluster.lab
    with replicated(
        topic, lab.directory / f"second-{DCS[dc]}", lab.directory / "nodes" / f"broker-{DCS[dc]}"
    ) as broker:
        topic.configure("min.insync.replicas", "2")
        yield lambda: leave(broker, topic), lambda: topic.configure("min.insync.replicas", None)


def cpu_s(pid: int) -> float:
    """What a process took of all cores since it began."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def full_alarms(cluster: Cluster, master: int = 0) -> list[dict[str, Any]]:
    return [alarm for alarm in cluster.status(master)["alarms"] if alarm["name"] == FULL]


def following(home: str) -> str:
    """Which data centre is the home where that one gives it up: the first that is left."""
    return next(dc for dc in DCS if dc != home)


@pytest.mark.long("a second broker, and a topic that takes nothing for seconds")
@pytest.mark.parametrize(
    "full",
    [
        pytest.param(too_few_in_sync, id="too few in sync"),
        pytest.param(too_small, id="too small", marks=pytest.mark.soak),
    ],
)
def test_where_the_homes_effects_are_not_taken_another_one_is_the_home(
    filling: Cluster, full: Filling
) -> None:
    home = evaluates_at_home(filling)
    number, before = DCS.index(home), filling.status()["view"]
    load = Load(filling, DCS)
    pids = [process["pid"] for process in (*filling.lab.masters, *filling.lab.workers)]
    took: dict[str, float] = {}
    told: list[dict[str, Any]] = []
    why = "min.insync.replicas is 2" if full is too_few_in_sync else "MSG_SIZE"

    def see() -> None:
        until(lambda: evaluating_in(filling) and home not in evaluating_in(filling))
        told.extend(
            until(
                lambda: [
                    one for one in full_alarms(filling, number) if one["worker"] and why in one["reason"]
                ],
                6.0,
            )
        )
        goes_on(filling)

    with full(filling, number) as (fill, empty):
        with reads_served(filling):
            processes = [*filling.lab.masters, *filling.lab.workers]
            began, at_first = time.monotonic(), [cpu_s(process["pid"]) for process in processes]
            asyncio.run(during(load, (1.0, fill), (0.0, see), (1.0, empty), (1.0, lambda: None)))
            wall_s = time.monotonic() - began
            for process, had in zip(processes, at_first, strict=True):
                took[process["id"]] = (cpu_s(process["pid"]) - had) / wall_s
        hardly_noticed(load)
        print({name: f"{share:.2f}" for name, share in took.items()})
        assert max(took.values()) < CIRCLING
        until(lambda: evaluating_in(filling) and home not in evaluating_in(filling))
        views = [filling.status(master)["view"] for master in range(3)]
        assert {view["home"] for view in views} == {following(home)}
        assert min(view["epoch"] for view in views) > before["epoch"]
        alarm = told[0]
        print(alarm)
        assert alarm["worker"] in workers_in(home)
        assert f"main.{home}.effects" in alarm["reason"]
        assert "max.message.bytes" in alarm["what_to_do"]
        check(filling, load)
        until(lambda: not full_alarms(filling, number))
        [there] = evaluating_in(filling)
        assert there != home, "it stays where it is; on a slow machine it may have gone on once more"
        assert handovers(filling, home)[-1:] == [there], "also in the topic that was full"
    assert pids == [process["pid"] for process in (*filling.lab.masters, *filling.lab.workers)], "nobody died"


def old_effects(cluster: Cluster, dc: str, epoch: int, behind: int) -> list[int]:
    """Offsets in a topic of effects of a view's behind an index, before anything of a later view."""
    found = []
    for record in records(cluster.lab.dcs[DCS.index(dc)]["kafka"], cluster.lab.topic(dc, "effects")):
        headers = dict(record.headers() or [])
        if int(headers.get(EPOCH) or epoch) > epoch:
            break
        if INDEX in headers and int(headers[INDEX] or 0) > behind:
            found.append(record.offset() or 0)
    return found


def wait_until_effects_wait(cluster: Cluster, master: int, worker: str) -> None:
    """Return when what this master knows as agreed was not shown by a worker that evaluates for `WAITING_S`.

    The worker gives up what its topic did not take for a second: looking at Kafka would take too long.
    """
    shown, since = -1, time.monotonic()
    deadline = since + PATIENCE_S
    while time.monotonic() - since < WAITING_S:
        agreed = cluster.status(master)["agreed_index"]
        applied = HTTP.get(f"{cluster.workers[worker]}/status").json()["applied_index"]
        if applied != shown or applied >= agreed:
            shown, since = applied, time.monotonic()
        assert since < deadline, "its effects are taken"
        time.sleep(0.02)


@pytest.mark.long("a second broker, and a topic that is full for seconds")
def test_what_the_old_evaluator_said_comes_late_and_is_void(filling: Cluster) -> None:
    """It is suspended with effects that its topic did not take; and its master, so that these come before all else."""
    home, old = evaluates_at_home(filling), evaluating(filling)
    number, epoch = DCS.index(home), filling.status()["view"]["epoch"]
    load = Load(filling, DCS)
    with too_few_in_sync(filling, number) as (fill, empty):

        def suspend() -> None:
            with ThreadPoolExecutor(1) as pool:
                filled = pool.submit(fill)
                wait_until_effects_wait(filling, number, old)
                filling.lab.kill(old, "STOP")
                filled.result()

        asyncio.run(during(load, (1.0, suspend), (0.0, lambda: wait_for(filling, following(home)))))
        [other] = [worker for worker in workers_in(home) if worker != old]
        status = f"{filling.workers[other]}/status"
        behind = HTTP.get(status).json()["applied_index"]
        assert not old_effects(filling, home, epoch, behind)
        filling.lab.kill(f"{home}-m1", "STOP")
        empty()
        filling.lab.kill(old, "CONT")
        until(lambda: old_effects(filling, home, epoch, behind))
        until(lambda: HTTP.get(status).json()["void_effects"].get("old epoch"))
        assert HTTP.get(status).json()["applied_index"] == behind, "nothing of it is shown"
        filling.lab.kill(f"{home}-m1", "CONT")
        check(filling, load)
        goes_on(filling)
