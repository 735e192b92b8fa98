"""All workers of the data centre that evaluates are gone: another one goes on, and nothing of the old is seen."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from quadlog.core.records import Handover
from quadlog.failpoints import Failpoint
from tests.bench.generator import Connection
from tests.e2e.book import Book, one_log
from tests.e2e.cluster import PATIENCE_S, Cluster, all_equal, records, until
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.alone

LONGEST_STALL_S = 5.0
DCS = ("dc1", "dc2", "dc3")


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three data centres whose evaluating workers come and go."""
    with running_lab(tmp_path_factory.mktemp("duty") / "lab", dcs=3, workers=2) as lab:
        yield Cluster(lab)


def workers_in(dc: str) -> tuple[str, str]:
    return f"{dc}-w1", f"{dc}-w2"


def evaluating_in(cluster: Cluster) -> set[str]:
    """Data centres whose masters say that a worker evaluates there."""
    found = set()
    for number, dc in enumerate(DCS):
        for worker in cluster.status(number)["workers"]:
            if worker["evaluating"] and worker["state"] == "serving":
                found.add(dc)
    return found


def wait_for(cluster: Cluster, dc: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while evaluating_in(cluster) != {dc}:
        assert time.monotonic() < deadline, f"{evaluating_in(cluster)} evaluates, not {dc}"
        time.sleep(0.05)


NUMBERS = itertools.count()


class Load:
    """Writes at the masters of some data centres, a few at a time, while something happens."""

    def __init__(self, cluster: Cluster, dcs: tuple[str, ...]) -> None:
        self.masters = [m["url"] for dc in cluster.lab.dcs if dc["name"] in dcs for m in dc["masters"]]
        first = next(NUMBERS) * 1_000_000
        texts = {f"duty-{first + n}": f"INSERT DATA {{ <urn:duty:{first + n}> a 1 }}" for n in range(100_000)}
        self.book = Book(texts=texts)
        self.took: list[float] = []
        self._stopping = False

    async def run(self) -> None:
        keys = iter(self.book.texts)

        async def client(number: int) -> None:
            connection = await Connection.to(self.masters[number % len(self.masters)])
            for key in keys:
                if self._stopping:
                    break
                began = time.monotonic()
                answer = await connection.update(self.book.texts[key], key=key)
                self.took.append(time.monotonic() - began)
                self.book.note(key, answer)
            await connection.close()

        await asyncio.gather(*(client(number) for number in range(6)))

    def stop(self) -> None:
        self._stopping = True


async def during(load: Load, *steps: tuple[float, Callable[[], object]]) -> None:
    """Run steps, each after a pause, under load, and 2 s more."""
    running = asyncio.create_task(load.run())
    loop = asyncio.get_running_loop()
    for pause, step in steps:
        await asyncio.sleep(pause)
        await loop.run_in_executor(None, step)
    await asyncio.sleep(2)
    load.stop()
    await asyncio.wait_for(running, 60)


def hardly_noticed(load: Load) -> None:
    print(f"{len(load.took)} writes, the longest took {max(load.took):.1f} s")
    assert max(load.took) < LONGEST_STALL_S


def check(cluster: Cluster, *loads: Load) -> None:
    """All is in the log once, and everybody is equal."""
    cluster.wait_until_equal()
    log = one_log(cluster)
    for load in loads:
        assert not load.book.unanswered
        for key, index in load.book.acknowledged.items():
            assert log[index - 1].text == load.book.texts[key], "where it was said to stand"
    all_equal(cluster)


def test_the_duty_moves_when_its_workers_die_and_clients_elsewhere_hardly_notice(moving: Cluster) -> None:
    wait_for(moving, "dc1")
    load = Load(moving, ("dc2", "dc3"))

    def kill() -> None:
        for worker in workers_in("dc1"):
            moving.lab.kill(worker)

    asyncio.run(during(load, (1.0, kill), (8.0, lambda: None)))
    wait_for(moving, "dc2")
    hardly_noticed(load)
    for worker in workers_in("dc1"):
        moving.lab.start(worker)
    check(moving, load)
    assert evaluating_in(moving) == {"dc2"}, "it stays where it is"


def test_what_an_old_evaluator_says_when_it_wakes_up_is_seen_nowhere(moving: Cluster) -> None:
    """Suspended in the middle of its work, both workers; the duty goes on; then they wake up."""
    wait_for(moving, "dc2")
    load = Load(moving, ("dc1", "dc3"))

    def signal(name: str) -> None:
        for worker in workers_in("dc2"):
            moving.lab.kill(worker, name)

    asyncio.run(
        during(load, (1.0, lambda: signal("STOP")), (8.0, lambda: signal("CONT")), (2.0, lambda: None))
    )
    wait_for(moving, "dc3")
    hardly_noticed(load)
    check(moving, load)


def test_a_master_that_dies_before_a_handover_says_it_when_it_is_back(moving: Cluster) -> None:
    """The move is agreed, the home's master dies by itself, and is started again."""
    wait_for(moving, "dc3")
    moving.lab.kill("dc1-m1")
    moving.lab.start("dc1-m1", QUADLOG_FAILPOINT=Failpoint.BEFORE_HANDOVER)
    load = Load(moving, ("dc2",))

    def kill() -> None:
        for worker in workers_in("dc3"):
            moving.lab.kill(worker)
        until(lambda: moving.lab.exited("dc1-m1"))
        assert handovers(moving)[-1] == "dc3"
        moving.lab.start("dc1-m1")

    asyncio.run(during(load, (1.0, kill), (3.0, lambda: None)))
    wait_for(moving, "dc1")
    assert handovers(moving) == ["dc2", "dc3", "dc1"]
    for worker in workers_in("dc3"):
        moving.lab.start(worker)
    check(moving, load)


def handovers(cluster: Cluster) -> list[str]:
    """Where the duty went, as the home's effects say."""
    said = [
        codec.decode(record.value() or b"")
        for record in records(cluster.lab.dcs[0]["kafka"], "main.dc1.effects")
        if record.key() == b"handover"
    ]
    terms = {handover.term: handover.dc for handover in said if isinstance(handover, Handover)}
    return list(terms.values())
