"""Many writes at three masters, with kills in between: nothing lost, doubled or different.

Inserts and deletes while a worker, a master and a broker die; and appends to lists while anything dies: the order
itself shows in the lists.  Each append reads the length of its list, sets it one higher and notes the element at that
place.  So a second run, a loss or another order at any worker leaves other quads than a replay of the agreed log.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
import uuid
from typing import TYPE_CHECKING, Final

import pytest

from quadlog.core.model import TransactionKind
from tests.support.clusters.book import (
    Book,
    check_durable_is_ordered,
    check_exactly_once,
    one_log,
    resolve,
    write,
)
from tests.support.clusters.cluster import HTTP, Cluster, recount
from tests.support.labs import NEW_PROCESSES
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from tests.support.clusters.book import Logged

WRITERS = 48
WRITER_PAUSE_S = 0.8
LISTS = 50
APPENDERS = 64
APPENDER_PAUSE_S = 1.5
PLENTY: Final = 20
"""Times as many as are needed: some are left while the last process is started, however long that takes."""
SEED = 4
"""With it the first three kills are of a worker, a broker and a master."""
INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three data centres whose processes die and come back."""
    with BROKERS.lab(
        tmp_path_factory.mktemp("writes") / "lab", dcs=3, workers=2, node_command=NEW_PROCESSES
    ) as lab:
        yield Cluster(lab)


def written(
    cluster: Cluster,
    book: Book,
    least: int,
    kills: Coroutine[None, None, None],
    *,
    clients: int,
    pause_s: float,
) -> list[Logged]:
    """Write while processes are killed, `least` or more; return what the log has of it, checked against the book."""
    before = cluster.wait_until_equal()

    async def everything() -> None:
        killing = asyncio.create_task(kills)

        def going_on() -> bool:
            return book.done < least or not killing.done()

        await write(book, cluster.masters, clients=clients, pause_s=pause_s, going_on=going_on)
        await killing

    started = time.monotonic()
    asyncio.run(everything())
    print(f"{book.done} writes in {time.monotonic() - started:.0f} s")
    states = resolve(book, cluster)
    cluster.wait_until_equal()
    log = one_log(cluster)
    check_exactly_once(cluster, book, states, log[before:])
    check_durable_is_ordered(cluster, log)
    return log[before:]


def lines_at(cluster: Cluster, subject: str) -> Iterator[list[str]]:
    """What each worker serves of subjects that begin so; each has the signature of what it serves."""
    for name, url in cluster.workers.items():
        signature, lines = recount(url)
        assert HTTP.get(f"{url}/status").json()["signature"] == signature, name
        assert len(lines) == len(set(lines)), name
        yield [one for one in lines if one.startswith(subject)]


def line(run: str, number: int) -> str:
    """The quad that write `number` inserts, and that a later one may delete."""
    return f'<urn:item:{run}:{number}> <urn:is> "{number}"'


def text_of(run: str, number: int, chance: random.Random) -> str:
    """INSERT DATA of a new quad; or, one in four, DELETE DATA of one that may or may not be there yet."""
    if number % 4 == 3:
        return f"DELETE DATA {{ {line(run, chance.randrange(number))} }}"
    if number % 4 == 2:
        graph = f"GRAPH <urn:graph:{number % 7}> {{ _:b <urn:of> <urn:item:{run}:{number}> }}"
        return f"INSERT DATA {{ {line(run, number)} . {graph} }}"
    return f"INSERT DATA {{ {line(run, number)} }}"


async def one_of_each(book: Book, cluster: Cluster, writes: int) -> None:
    """A worker (the evaluating one), a master and a broker die and come back, while writes go on."""
    loop = asyncio.get_running_loop()
    lab = cluster.lab
    for share, victim, pause in ((0.1, "dc1-w1", 3.0), (0.35, "dc3-m1", 1.5), (0.6, "broker-dc2", 1.5)):
        while book.done < share * writes:
            await asyncio.sleep(0.05)
        assert book.done < len(book.texts), "while writes go on"
        await loop.run_in_executor(None, lab.kill, victim)
        await asyncio.sleep(pause)
        await loop.run_in_executor(None, lab.start, victim)


@pytest.mark.long("kills and starts of each kind of process")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("writes", [600, pytest.param(1500, marks=pytest.mark.soak)])
def test_writes_survive_kills(cluster: Cluster, writes: int) -> None:
    chance, run = random.Random(11), uuid.uuid4().hex
    book = Book(texts={f"{run}-{n}": text_of(run, n, chance) for n in range(PLENTY * writes)})
    kills = one_of_each(book, cluster, writes)
    expected = items_after(written(cluster, book, writes, kills, clients=WRITERS, pause_s=WRITER_PAUSE_S))
    for found in lines_at(cluster, f"<urn:item:{run}:"):
        assert set(found) == expected


def items_after(log: Sequence[Logged]) -> set[str]:
    """The items that are there after the log, by this test's own reading of its own updates."""
    there: set[str] = set()
    for text in (entry.text for entry in log if entry.kind is TransactionKind.TX):
        quad = text[text.index("<urn:item:") :].split(" }")[0].split(" . ")[0] + " ."
        if text.startswith("DELETE"):
            there.discard(quad)
        else:
            there.add(quad)
    return there


def append(run: str, number: int, chance: random.Random) -> str:
    """The element `number` goes to the end of some list."""
    return (
        "DELETE { ?k <urn:len> ?n } INSERT { ?k <urn:len> ?m . ?e <urn:of> ?k ; <urn:pos> ?m ; <urn:val> 'v' }"
        f" WHERE {{ VALUES (?k ?e) {{ (<urn:{run}:list:{chance.randrange(LISTS)}> <urn:{run}:element:{number}>) }}"
        " ?k <urn:len> ?n . BIND(?n + 1 AS ?m) }"
    )


async def anything(book: Book, cluster: Cluster, kills: int, writes: int) -> None:
    """So many times a process is killed by -9 and started again, spread over so many writes or more."""
    loop, chance = asyncio.get_running_loop(), random.Random(SEED)
    lab = cluster.lab
    nodes = [node["id"] for node in (*lab.masters, *lab.workers)] + [f"broker-{dc['name']}" for dc in lab.dcs]
    for kill in range(kills):
        while book.done < writes * 0.8 * kill / kills + 100:
            await asyncio.sleep(0.02)
        assert book.done < len(book.texts), "while writes go on"
        victim = chance.choice(nodes)
        await loop.run_in_executor(None, lab.kill, victim)
        await asyncio.sleep(chance.random())
        said = await loop.run_in_executor(None, lab.start, victim)
        print(f"{book.done:5} done: {victim} killed, {said.strip()[-16:]}")


@pytest.mark.long("three kills and starts")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("appends", "kills"), [(600, 3), pytest.param(10_000, 20, marks=pytest.mark.soak)])
def test_appends_survive_kills(cluster: Cluster, appends: int, kills: int) -> None:
    chance, run = random.Random(SEED), uuid.uuid4().hex
    lists = " ".join(f"<urn:{run}:list:{number}> <urn:len> 0 ." for number in range(LISTS))
    assert cluster.update(f"INSERT DATA {{ {lists} }}").status_code == 204
    book = Book(texts={f"{run}-{n}": append(run, n, chance) for n in range(PLENTY * appends)})
    killing = anything(book, cluster, kills, appends)
    expected = lists_after(
        run, written(cluster, book, appends, killing, clients=APPENDERS, pause_s=APPENDER_PAUSE_S)
    )
    for found in lines_at(cluster, f"<urn:{run}:"):
        assert sorted(found) == expected


def lists_after(run: str, log: Sequence[Logged]) -> list[str]:
    """The lines of the state after the log, by this test's own reading of its own updates."""
    length = dict.fromkeys(map(str, range(LISTS)), 0)
    lines: list[str] = []
    for entry in log:
        if (
            entry.kind is not TransactionKind.TX
        ):  # both workers of the evaluating data centre were dead: another one went on
            continue
        found = re.search(r":list:(\d+)> <urn:\w+:element:(\d+)>", entry.text)
        assert found is not None
        of, element = found.groups()
        length[of] += 1
        subject = f"<urn:{run}:element:{element}>"
        lines += [
            f"{subject} <urn:of> <urn:{run}:list:{of}> .",
            f'{subject} <urn:pos> "{length[of]}"^^{INTEGER} .',
            f'{subject} <urn:val> "v" .',
        ]
    lines += [f'<urn:{run}:list:{of}> <urn:len> "{count}"^^{INTEGER} .' for of, count in length.items()]
    return sorted(lines)
