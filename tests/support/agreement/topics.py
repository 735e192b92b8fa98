"""Topics as lists: entries, effects, fences, handovers and seeds as producers say them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.effects import EffectsConsumer
from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror, EffectsProducer
from quadlog import codec
from quadlog.codec.envelope import EPOCH
from quadlog.core.model import GENESIS, TransactionKind, hash_of
from quadlog.core.records import Cut, Effect, Fence, Handover, LoggedEntry, Outcome, Rewind, Seed
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quadlog.ports import Acked, Headers


class Topic:
    """The port `Outlet`, kept as records: what stands in a topic, offset by offset."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        for value in values:
            self.records.append(Record(topic, len(self.records), key, value, headers))
        if acked is not None:
            acked(len(self.records) - 1)


def entries(
    count: int, *, size: int = 10, branch: bytes = b"", behind: LoggedEntry | None = None, epoch: int = 1
) -> list[LoggedEntry]:
    """A log up to an index, or what of it stands behind an entry."""
    log: list[LoggedEntry] = []
    previous = behind.chain if behind else GENESIS
    for index in range(behind.index + 1 if behind else 1, count + 1):
        chain = hash_of(previous, branch, index.to_bytes(8, "big"))
        log.append(
            LoggedEntry(
                index=index,
                kind=TransactionKind.TX,
                id=index.to_bytes(16, "big"),
                timestamp=index,
                digest=hash_of(b"digest"),
                options={},
                previous=previous,
                chain=chain,
                epoch=epoch,
                lineage=GENESIS,
                origin="m1",
                created=index,
                media_type="text",
                body=b"x" * size,
            )
        )
        previous = chain
    return log


def topic_of(log: Iterable[LoggedEntry | Cut]) -> list[Record]:
    topic = Topic()
    producer = AgreedProducer(topic, "agreed", "m1")
    for said in log:
        if isinstance(said, Cut):
            topic.produce("agreed", key=b"cut", values=[codec.encode(said)], headers=[])
        else:
            producer.publish(said, lambda _: None)
    return topic.records


def cut_behind(entry: LoggedEntry, epoch: int) -> Cut:
    return Cut(epoch=epoch, lineage=hash_of(b"view"), index=entry.index, chain=entry.chain)


def forked(count: int = 6, *, at: int = 3, epoch: int = 2) -> tuple[list[LoggedEntry], list[LoggedEntry]]:
    """A log, and another one that has its first entries in common with it."""
    log = entries(count)
    return log, [*log[:at], *entries(count, branch=b"other", behind=log[at - 1], epoch=epoch)]


TERM = hash_of(b"term")
FIRST = Handover(index=0, term=TERM, dc="dc1")
MOVED = Handover(index=5, term=hash_of(b"the fifth entry"), dc="dc2")


def signature(index: int, branch: str = "") -> bytes:
    return hash_of(branch.encode(), index.to_bytes(8, "big")) if index else bytes(32)


def effect(
    index: int,
    *,
    attempt: int = 1,
    branch: str = "",
    before: str = "",
    lines: int = 1,
    outcome: Outcome = Outcome.APPLIED,
) -> Effect:
    """Entry `index` evaluated: from the state of branch `before` to that of `branch`."""
    return Effect(
        index=index,
        id=index.to_bytes(16, "big"),
        entry_chain=hash_of(index.to_bytes(8, "big")),
        term=TERM,
        attempt=attempt,
        outcome=outcome,
        reason="the shape S failed" if outcome is Outcome.REJECTED else None,
        inserted=tuple(f'<urn:s:{n}> <urn:p> "{"x" * 1000}" .' for n in range(lines)),
        quads=index,
        signature_before=signature(index - 1, before),
        signature_after=signature(index, branch),
        chain=hash_of(b"chain", index.to_bytes(8, "big")),
    )


def fence(attempt: int, worker: str = "w1") -> Fence:
    return Fence(term=TERM, attempt=attempt, worker=worker)


def effects_topic(*said: Effect | Fence) -> list[Record]:
    topic = Topic()
    producer = EffectsProducer(topic, "effects", "w1", "dc1")
    for one in said:
        if isinstance(one, Effect):
            producer.publish(one, at=0)
        else:
            producer.publish_fence(one, at=0)
    return topic.records


def new_consumer() -> EffectsConsumer:
    return EffectsConsumer(index=0, signature=bytes(32), term=GENESIS, attempt=0)


def counting(
    consumer: EffectsConsumer, records: Iterable[Record]
) -> list[Effect | Fence | Handover | Rewind | Seed]:
    return [said for record in records if (said := consumer.on_record(record))]


def handed_over(topic: Topic, *handovers: Handover) -> None:
    mirror = EffectsMirror(topic, "effects", "m1")
    for handover in handovers:
        mirror.publish_handover(handover, at=0)


def moved_topic() -> Topic:
    """Two effects, a handover, the old evaluator's next words, the new one's fence and effects."""
    topic = Topic()
    here, there = (
        EffectsProducer(topic, "effects", "w1", "dc1"),
        EffectsProducer(topic, "effects", "w2", "dc2"),
    )
    here.publish_fence(fence(1), at=0)
    for index in (1, 2):
        here.publish(effect(index), at=0)
    handed_over(topic, MOVED)
    here.publish(effect(3, branch="old"), at=0)
    here.publish_fence(fence(2), at=0)
    here.publish(effect(3, attempt=2, branch="old"), at=0)
    there.publish_fence(replace(fence(2), term=MOVED.term), at=0)
    handed_over(topic, MOVED, FIRST)
    there.publish(replace(effect(3, attempt=2), term=MOVED.term), at=0)
    return topic


def seed(name: str = "seed") -> Seed:
    return Seed(
        signature=hash_of(name.encode()), quads=7, digest=bytes(32), at=0, by="m1", sources=(f"{name}.nq",)
    )


def topic_with(*said: Effect | Fence | Seed) -> list[Record]:
    topic = Topic()
    worker, mirror = EffectsProducer(topic, "effects", "w1", "dc1"), EffectsMirror(topic, "effects", "m1")
    for one in said:
        match one:
            case Effect():
                worker.publish(one, at=0)
            case Fence():
                worker.publish_fence(one, at=0)
            case Seed():
                mirror.publish_seed(one)
    return topic.records


def rewinding(*said: tuple[int, Effect | Fence | Handover | Rewind | Seed]) -> list[Record]:
    """Each with the epoch of its writer."""
    records: list[Record] = []
    for epoch, one in said:
        match one:
            case Effect():
                values = codec.encode_effect(one)
            case _:
                values = [codec.encode(one)]
        headers = [(EPOCH, b"%d" % epoch)]
        records += [Record("effects", len(records) + n, b"", v, headers) for n, v in enumerate(values)]
    return records


def standing(
    consumer: EffectsConsumer, records: Iterable[Record], branch: str = ""
) -> list[Effect | Fence | Handover | Rewind | Seed]:
    """What counts, heard by one who goes back at once where it is told to."""
    found: list[Effect | Fence | Handover | Rewind | Seed] = []
    for record in records:
        said = consumer.on_record(record)
        if isinstance(said, Rewind):
            consumer.set_signature(signature(said.index, branch))
        found += [said] if said else []
    return found
