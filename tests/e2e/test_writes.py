"""Thousands of writes at three masters, with kills in between: nothing lost, doubled or different."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog import codec
from quadlog.core.model import LoggedEntry, Payload, id_of_key
from tests.e2e.cluster import UPDATE, Cluster, records, recount
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from pathlib import Path

WRITES = 3000
CLIENTS = 48


@dataclass
class Book:
    """What the clients know."""

    texts: dict[str, str] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    unanswered: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """Requests that have ended, one way or the other."""
        return len(self.acknowledged) + len(self.unanswered)


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


async def write(book: Book, masters: list[str]) -> None:
    """CLIENTS closed loops over all masters."""
    numbers = iter(range(WRITES))

    async def client(which: int, session: httpx.AsyncClient) -> None:
        for number in numbers:
            key = f"write-{number}"
            try:
                answer = await session.post(
                    f"{masters[(which + number) % len(masters)]}/update",
                    content=book.texts[key],
                    headers=UPDATE | {"Idempotency-Key": key},
                )
            except httpx.HTTPError as error:
                book.unanswered.append(key)
                book.reasons[f"{type(error).__name__} {error}"] += 1
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == httpx.codes.NO_CONTENT:
                book.acknowledged[key] = int(answer.headers["Quadlog-Index"].split(":")[0])
            else:
                assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
                book.unanswered.append(key)
                book.reasons[answer.json()["error"]] += 1

    async with httpx.AsyncClient(timeout=60) as session:
        await asyncio.gather(*(client(which, session) for which in range(CLIENTS)))


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
            await asyncio.gather(write(book, cluster.masters), chaos(book, cluster))

        started = time.monotonic()
        asyncio.run(everything())
        print(f"{WRITES} writes in {time.monotonic() - started:.0f} s, unanswered: {book.reasons}")
        states = resolve(book, cluster)
        cluster.wait_until_equal()
        logs = [agreed_log(dc["kafka"], dc["name"]) for dc in lab.dcs]
        assert logs[0] == logs[1] == logs[2]
        check_exactly_once(book, states, logs[0])
        for dc in lab.dcs:
            check_durable_is_ordered(dc["kafka"], dc["name"], logs[0])
        expected = replay(logs[0])
        for name, url in cluster.workers.items():
            signature, lines = recount(url)
            assert httpx.get(f"{url}/status").json()["signature"] == signature, name
            assert {one for one in lines if one.startswith("<urn:item:")} == expected, name
            assert len(lines) == len(set(lines)), name


def resolve(book: Book, cluster: Cluster) -> dict[str, str]:
    """What became of every write that was not answered: asked at every master, all of one mind."""
    states: dict[str, str] = {}
    for key in book.unanswered:
        deadline = time.monotonic() + 30
        while True:
            told = {httpx.get(f"{master}/tx/{key}", timeout=10).json()["state"] for master in cluster.masters}
            if len(told) == 1 and told <= {"applied", "unknown"}:
                states[key] = told.pop()
                break
            assert time.monotonic() < deadline, f"{key} is {told}"
            time.sleep(0.1)
    print(Counter(states.values()))
    return states


def agreed_log(kafka: str, dc: str) -> list[tuple[int, bytes, str]]:
    """Index, id and text of every entry of a data centre's agreed topic, each index once."""
    log: dict[int, tuple[int, bytes, str]] = {}
    for record in records(kafka, f"main.{dc}.agreed"):
        entry = codec.decode(record.value() or b"")
        assert isinstance(entry, LoggedEntry)
        found = (entry.index, entry.id, entry.body.decode())
        assert log.setdefault(entry.index, found) == found, "one index, two entries"
    assert list(log) == list(range(1, len(log) + 1))
    return list(log.values())


def check_exactly_once(book: Book, states: dict[str, str], log: list[tuple[int, bytes, str]]) -> None:
    """Every acknowledged write stands in the log once, where it was said to stand; of the others, the applied."""
    index_of = {transaction_id: index for index, transaction_id, _ in log}
    assert len(index_of) == len(log), "an id stands in the log twice"
    for key, index in book.acknowledged.items():
        assert index_of.pop(id_of_key("main", key)) == index, key
    for key, state in states.items():
        known = index_of.pop(id_of_key("main", key), None)
        assert (known is not None) == (state == "applied"), f"{key} is {state} and stands at {known}"
    assert not index_of, "somebody else wrote"


def check_durable_is_ordered(kafka: str, dc: str, log: list[tuple[int, bytes, str]]) -> None:
    """What is durable anywhere is ordered, also where its master died before it could say so."""
    ids = {transaction_id for _, transaction_id, _ in log}
    for record in records(kafka, f"main.{dc}.payloads"):
        payload = codec.decode(record.value() or b"")
        assert isinstance(payload, Payload)
        assert payload.transaction.id in ids, (
            f"{record.key()!r} in {dc} at {record.offset()} was never ordered"
        )


def replay(log: list[tuple[int, bytes, str]]) -> set[str]:
    """The items that are there after the log, by this test's own reading of its own updates."""
    there: set[str] = set()
    for _, _, text in log:
        quad = text[text.index("<urn:item:") :].split(" }")[0].split(" . ")[0] + " ."
        if text.startswith("DELETE"):
            there.discard(quad)
        else:
            there.add(quad)
    return there
