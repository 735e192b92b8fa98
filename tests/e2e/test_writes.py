"""Many writes at three masters, with kills in between: nothing lost, doubled or different."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.core.model import Kind
from tests.e2e.book import Book, check_durable_is_ordered, check_exactly_once, one_log, resolve, write
from tests.e2e.cluster import Cluster, recount
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.book import Logged

WRITES = 1500
CLIENTS = 48


def line(number: int) -> str:
    """The quad that write `number` inserts, and that a later one may delete."""
    return f'<urn:item:{number}> <urn:is> "{number}"'


def text_of(number: int, chance: random.Random) -> str:
    """INSERT DATA of a new quad; or, one in four, DELETE DATA of one that may or may not be there yet."""
    if number % 4 == 3:
        return f"DELETE DATA {{ {line(chance.randrange(number))} }}"
    if number % 4 == 2:
        graph = f"GRAPH <urn:graph:{number % 7}> {{ _:b <urn:of> <urn:item:{number}> }}"
        return f"INSERT DATA {{ {line(number)} . {graph} }}"
    return f"INSERT DATA {{ {line(number)} }}"


async def chaos(book: Book, cluster: Cluster) -> None:
    """A worker (the evaluating one), a master and a broker die and come back, while writes go on."""
    loop = asyncio.get_running_loop()
    lab = cluster.lab
    for share, victim, pause in ((0.1, "dc1-w1", 3.0), (0.35, "dc3-m1", 1.5), (0.6, "broker-dc2", 1.5)):
        while book.done < share * WRITES:
            await asyncio.sleep(0.05)
        await loop.run_in_executor(None, lab.kill, victim)
        await asyncio.sleep(pause)
        await loop.run_in_executor(None, lab.start, victim)


@pytest.mark.timeout(600)
def test_writes_survive_kills(tmp_path: Path) -> None:
    chance = random.Random(11)
    book = Book(texts={f"write-{number}": text_of(number, chance) for number in range(WRITES)})
    with running_lab(tmp_path / "lab", dcs=3, workers=2) as lab:
        cluster = Cluster(lab)

        async def everything() -> None:
            await asyncio.gather(write(book, cluster.masters, clients=CLIENTS), chaos(book, cluster))

        started = time.monotonic()
        asyncio.run(everything())
        print(f"{WRITES} writes in {time.monotonic() - started:.0f} s")
        states = resolve(book, cluster)
        cluster.wait_until_equal()
        log = one_log(cluster)
        check_exactly_once(book, states, log)
        check_durable_is_ordered(cluster, log)
        expected = replay(log)
        for name, url in cluster.workers.items():
            signature, lines = recount(url)
            assert httpx.get(f"{url}/status").json()["signature"] == signature, name
            assert {one for one in lines if one.startswith("<urn:item:")} == expected, name
            assert len(lines) == len(set(lines)), name


def replay(log: Sequence[Logged]) -> set[str]:
    """The items that are there after the log, by this test's own reading of its own updates."""
    there: set[str] = set()
    for text in (entry.text for entry in log if entry.kind is Kind.TX):
        quad = text[text.index("<urn:item:") :].split(" }")[0].split(" . ")[0] + " ."
        if text.startswith("DELETE"):
            there.discard(quad)
        else:
            there.add(quad)
    return there
