"""Random agreed topics: a log that grows, and all that may stand between its entries and does not count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.agreed import AgreedConsumer
from quadlog import codec
from quadlog.core.effects.control import ControlKind, options_of
from quadlog.core.model import START, LogPosition, TransactionKind, hash_of
from quadlog.core.records import Cut, LoggedEntry
from quadlog.errors import ForeignRecord
from quadlog.ports import Record

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

ASK = b"ASK {}"


def heard(consumer: AgreedConsumer, record: Record) -> LoggedEntry | Cut | None:
    try:
        return consumer.on_record(record)
    except ForeignRecord:
        return None


def entry(
    last: LogPosition,
    epoch: int,
    *,
    kind: TransactionKind = TransactionKind.TX,
    name: str = "",
    body: bytes = b"INSERT DATA {}",
    chain: bytes | None = None,
) -> LoggedEntry:
    """The one behind `last`; a CONFIG entry sets the control of that name."""
    index = last.index + 1
    return LoggedEntry(
        index=index,
        kind=kind,
        id=index.to_bytes(16, "big"),
        timestamp=index,
        digest=bytes(32),
        options=options_of(name, ControlKind.ASK) if name else {},
        previous=last.chain,
        chain=chain or hash_of(last.chain, b"%d of %d" % (index, epoch)),
        epoch=epoch,
        lineage=bytes(32),
        origin="m1",
        created=0,
        media_type="application/sparql-update",
        body=body,
    )


class RandomAgreed:
    """Writes a topic, and knows what a worker hears there."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.records = rng, list[Record]()
        self.consumer = AgreedConsumer(START)
        self.log: list[LoggedEntry] = []
        self.epoch = 1
        self._stale: list[tuple[LogPosition, int]] = []

    def put(self, value: bytes, key: bytes = b"1") -> None:
        record = Record("agreed", len(self.records), key, value, [])
        self.records.append(record)
        match heard(self.consumer, record):
            case LoggedEntry() as one:
                self.log.append(one)
            case Cut(index=index):
                del self.log[index:]
            case None:
                pass

    def say(self, said: LoggedEntry) -> None:
        for value in codec.encode_entry(said):
            self.put(value, str(said.index).encode())

    def next(self, *, chain: bytes | None = None) -> None:
        rng, last = self.rng, self.consumer.last
        is_configuring = rng.random() < 0.05
        self.say(
            entry(
                last,
                self.epoch,
                kind=TransactionKind.CONFIG if is_configuring else TransactionKind.TX,
                name=f"control{rng.randrange(5)}" if is_configuring else "",
                body=ASK if is_configuring else rng.randbytes(rng.choice((5, 50) * 20 + (2000,))),
                chain=chain,
            )
        )

    def step(self) -> None:  # noqa: C901 - a table of what may happen
        rng = self.rng
        match rng.randrange(12):
            case 0:  # who was killed writes again what it cannot know to be there
                first = rng.randrange(len(self.records) + 1)
                for record in self.records[first : first + rng.randrange(1, 30)]:
                    self.put(record.value, record.key)
            case 1 if self.log:
                self._stale.append((self.consumer.last, self.epoch))
                self.epoch += 1
                back = max(0, len(self.log) - rng.choice((0, 1, 3, 10, 40)))
                chain = self.log[back - 1].chain if back else START.chain
                cut = codec.encode(Cut(epoch=self.epoch, index=back, chain=chain, lineage=bytes(32)))
                for _ in range(rng.choice((1, 2))):
                    self.put(cut, b"cut")
            case 2 if self._stale:  # one that woke up late goes on behind the branch that was cut
                last, epoch = rng.choice(self._stale)
                for _ in range(rng.randrange(1, 20)):
                    said = entry(last, epoch)
                    self.say(said)
                    last = LogPosition(said.index, said.chain)
            case 3:
                self.put(rng.randbytes(rng.randrange(40)))
            case 4:  # another master of the data centre leads, for a moment, and is elsewhere
                other = entry(self.consumer.last, self.epoch)
                self.say(replace(other, index=other.index + 1))
                self.say(replace(other, previous=bytes(32)))
            case 5 if self.log:  # the same branch again
                last, epoch = self.consumer.last, self.epoch
                self.next(chain=hash_of(last.chain, b"%d of %d" % (last.index + 1, epoch)))
            case _:
                for _ in range(rng.choice((1, 3, 20, 60))):
                    self.next()


def random_agreed(rng: random.Random, *, steps: int) -> RandomAgreed:
    topic = RandomAgreed(rng)
    while len(topic.log) < 2:
        topic.next()
    for _ in range(steps):
        topic.step()
    return topic


def heard_from(records: Sequence[Record], last: LogPosition, epoch: int) -> list[LoggedEntry]:
    """The log behind a place, as a worker hears it."""
    consumer, log = AgreedConsumer(last, cut=epoch), list[LoggedEntry]()
    for record in records:
        match heard(consumer, record):
            case LoggedEntry() as one:
                log.append(one)
            case Cut(index=index):
                log = [one for one in log if one.index <= index]
            case None:
                pass
    return log
