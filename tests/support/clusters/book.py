"""What clients of a cluster in trouble know, and whether the log keeps to it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

import httpx

from quadlog import codec
from quadlog.core.model import Payload, TransactionKind, id_of_key
from quadlog.core.records import Cut, LoggedEntry
from tests.bench.generator import Connection
from tests.support.clusters.cluster import HTTP, PATIENCE_S, records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.bench.generator import Answer
    from tests.support.clusters.cluster import Cluster


@dataclass
class Book:
    """Every write by its Idempotency-Key: what was sent, and what its client was told."""

    texts: Mapping[str, str]
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Key to the index that was told."""
    unanswered: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def done(self) -> int:
        """Requests that have ended, one way or the other."""
        return len(self.acknowledged) + len(self.unanswered)

    def note(self, key: str, answer: Answer) -> None:
        """An answer: 204, or 504 with an outcome that is not known."""
        if answer.status == httpx.codes.NO_CONTENT:
            self.acknowledged[key] = int(answer.headers["quadlog-index"].split(":")[0])
        else:
            assert answer.status == httpx.codes.GATEWAY_TIMEOUT, answer.body
            self.miss(key, "504")

    def miss(self, key: str, reason: str) -> None:
        """No answer, or none that says what became of it."""
        self.unanswered.append(key)
        self.reasons[reason] += 1


async def write(
    book: Book,
    masters: Sequence[str],
    *,
    clients: int,
    pause_s: float = 0.0,
    going_on: Callable[[], bool] = lambda: True,
) -> None:
    """Closed loops.  A write is tried again after a definite no; after silence its client goes on."""
    keys = takewhile(lambda _: going_on(), book.texts)

    async def client(number: int) -> None:
        url = masters[number % len(masters)]
        connection: Connection | None = None
        for key in keys:
            try:
                connection = connection or await _reach(url)
                book.note(key, await _tried(connection, book.texts[key], key))
                await asyncio.sleep(pause_s)
            except (OSError, EOFError, TimeoutError) as error:
                await _hang_up(connection)
                connection = None
                book.miss(key, type(error).__name__)
                await asyncio.sleep(0.1)
        await _hang_up(connection)

    await asyncio.gather(*(client(number) for number in range(clients)))


async def _tried(connection: Connection, text: str, key: str) -> Answer:
    """The answer, once it is none that says that nothing was logged."""
    while True:
        answer = await asyncio.wait_for(connection.update(text, key=key), PATIENCE_S)
        if answer.status != httpx.codes.SERVICE_UNAVAILABLE:
            return answer
        assert json.loads(answer.body)["definite"], answer.body
        await asyncio.sleep(0.1)


async def _reach(url: str) -> Connection:
    """A connection, once somebody is there: until then nothing was sent."""
    while True:
        try:
            return await Connection.to(url)
        except ConnectionRefusedError:
            await asyncio.sleep(0.1)


async def _hang_up(connection: Connection | None) -> None:
    if connection is not None:
        with suppress(OSError):  # the other end may be gone
            await connection.close()


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the agreed topic; `text` is an update if it is a client's."""

    index: int
    id: bytes
    text: str
    kind: TransactionKind = TransactionKind.TX


def agreed_log(kafka: str, topic: str) -> list[Logged]:
    """Every entry of a data centre's agreed topic, each index once; a cut ends those behind it."""
    log: dict[int, Logged] = {}
    for record in records(kafka, topic):
        entry = codec.decode(record.value() or b"")
        if isinstance(entry, Cut):
            log = {index: one for index, one in log.items() if index <= entry.index}
            continue
        assert isinstance(entry, LoggedEntry)
        found = Logged(entry.index, entry.id, entry.body.decode(), entry.kind)
        assert log.setdefault(entry.index, found) == found, "one index, two entries"
    assert list(log) == list(range(1, len(log) + 1))
    return list(log.values())


def one_log(cluster: Cluster) -> list[Logged]:
    """The log that all data centres hold."""
    logs = [agreed_log(dc["kafka"], cluster.lab.topic(dc["name"], "agreed")) for dc in cluster.lab.dcs]
    assert all(log == logs[0] for log in logs), "data centres hold different logs"
    return logs[0]


def resolve(book: Book, cluster: Cluster) -> dict[str, str]:
    """What became of every write that was not answered: asked at every master, all of one mind."""
    states: dict[str, str] = {}
    for key in book.unanswered:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = {HTTP.get(f"{master}/tx/{key}").json()["state"] for master in cluster.masters}
            if len(told) == 1 and told <= {"applied", "unknown"}:
                states[key] = told.pop()
                break
            assert time.monotonic() < deadline, f"{key} is {told}"
            time.sleep(0.1)
    print(f"unanswered: {dict(book.reasons)}, of these {dict(Counter(states.values()))}")
    return states


def check_exactly_once(
    cluster: Cluster, book: Book, states: Mapping[str, str], log: Sequence[Logged]
) -> None:
    """Every acknowledged write stands in the log once, where it was said to stand; of the others, the applied."""
    repository, index_of = cluster.lab.repository, {entry.id: entry.index for entry in log}
    assert len(index_of) == len(log), "an id stands in the log twice"
    index_of = {entry.id: entry.index for entry in log if entry.kind is TransactionKind.TX}
    for key, index in book.acknowledged.items():
        assert index_of.pop(id_of_key(repository, key)) == index, key
    for key, state in states.items():
        known = index_of.pop(id_of_key(repository, key), None)
        assert (known is not None) == (state == "applied"), f"{key} is {state} and stands at {known}"
    assert not index_of, "somebody else wrote"


def check_durable_is_ordered(cluster: Cluster, log: Sequence[Logged]) -> None:
    """What is durable anywhere is ordered, also where its master died before it could say so."""
    ids = {entry.id for entry in log}
    for record in _payload_records(cluster):
        payload = codec.decode(record[1])
        assert isinstance(payload, Payload)
        assert payload.transaction.id in ids, f"{record[0]} was never ordered"


def _payload_records(cluster: Cluster) -> Iterator[tuple[str, bytes]]:
    for dc in cluster.lab.dcs:
        for record in records(dc["kafka"], cluster.lab.topic(dc["name"], "payloads")):
            yield f"{record.key()!r} in {dc['name']} at {record.offset()}", record.value() or b""
