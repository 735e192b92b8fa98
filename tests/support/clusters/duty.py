"""The duty to evaluate, as it moves: load, moments, and what clients notice."""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.records import Handover
from tests.bench.generator import Connection
from tests.support.clusters.book import Book, one_log
from tests.support.clusters.cluster import (
    HTTP,
    PATIENCE_S,
    Cluster,
    all_equal,
    index_of,
    name,
    objects,
    records,
    until,
)
from tests.support.clusters.second_broker import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


LONGEST_STALL_S = 5.0


PAUSE_S = 0.5
"""Between two writes of a client: how many there are is not the question."""


DCS = ("dc1", "dc2", "dc3")


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
                await asyncio.sleep(PAUSE_S)
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


def evaluates_at_home(cluster: Cluster) -> str:
    """Bring the duty to the home of the view; returns that data centre."""
    home: str = cluster.status()["view"]["home"]
    [there] = until(lambda: evaluating_in(cluster))
    while there != home:
        for worker in workers_in(there):
            cluster.lab.kill(worker)
        # The duty moves when there is something to evaluate; the master here would wait for a worker to show it.
        elsewhere = next(number for number, dc in enumerate(DCS) if dc != there)
        assert cluster.update(f"INSERT DATA {{ {name()} a 1 }}", master=elsewhere).status_code == 204
        before, [there] = there, until(partial(_evaluating_elsewhere, cluster, there))
        for worker in workers_in(before):
            cluster.lab.start(worker)
    cluster.wait_until_equal()
    return home


def _evaluating_elsewhere(cluster: Cluster, dc: str) -> set[str]:
    return evaluating_in(cluster) - {dc}


def handovers(cluster: Cluster, dc: str = "dc1") -> list[str]:
    """Where the duty went, as the effects of a data centre say."""
    said = [
        codec.decode(record.value() or b"")
        for record in records(cluster.lab.dcs[DCS.index(dc)]["kafka"], cluster.lab.topic(dc, "effects"))
        if record.key() == b"handover"
    ]
    terms = {handover.term: handover.dc for handover in said if isinstance(handover, Handover)}
    return list(terms.values())


def goes_on(cluster: Cluster) -> None:
    """Each master takes an update, and shows it to whoever asks it then."""
    for number in range(len(cluster.masters)):
        subject = name()
        began = time.monotonic()
        answer = cluster.update(f"INSERT DATA {{ {subject} <urn:is> 'there' }}", master=number)
        assert answer.status_code == 204, answer.text
        assert objects(cluster.masters[number], subject) == ["there"]
        took = time.monotonic() - began
        print(f"an update and its read at {DCS[number]} took {took:.2f} s")
        status = HTTP.get(f"{cluster.masters[number]}/tx/{answer.headers['Quadlog-Tx']}").json()
        assert (status["state"], status["index"]) == ("applied", index_of(answer))


@contextmanager
def too_small(cluster: Cluster, dc: int) -> Iterator[tuple[Callable[[], None], Callable[[], None]]]:
    """No record fits: each is refused for good."""
    topic = Topic(cluster, dc, "effects")
    limit = "max.message.bytes"
    yield lambda: topic.configure(limit, "100"), lambda: topic.configure(limit, None)
