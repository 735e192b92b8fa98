"""Records that a broker, a mirror or a tool repeats, byte for byte, soon or late: nothing counts twice or otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.agreed import AgreedConsumer
from consumers.effects_ledger import EffectsLedger
from consumers.payloads import PayloadsConsumer
from producers.payloads import PayloadsProducer
from quadlog.core.model import START, Payload, Transaction, hash_of
from quadlog.core.records import Effect, Rewind
from quadlog.master.payloads.intake import Intake
from tests.support.agreement.topics import (
    TERM,
    Topic,
    cut_behind,
    effect,
    entries,
    fence,
    forked,
    moved_topic,
    new_consumer,
    rewinding,
    seed,
    signature,
    standing,
    topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record

PLACES = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), max_size=12)
"""Of each repeated record which one it is, and how many later ones stand before it, modulo what there is."""


def repeated(records: Sequence[Record], places: Sequence[tuple[int, int]]) -> list[Record]:
    """A topic in which some records stand again, behind the first time."""
    found = list(records)
    for which, later in places:
        number = which % len(found)
        at = number + 1 + later % (len(found) - number)
        found.insert(at, found[number])
    return [replace(record, offset=offset) for offset, record in enumerate(found)]


@given(PLACES)
def test_entries(places: Sequence[tuple[int, int]]) -> None:
    log, other = forked(6)
    records = topic_of([*log, cut_behind(log[2], 2), *other[3:]])
    once, again = AgreedConsumer(START), AgreedConsumer(START)
    said = [one for record in records if (one := once.on_record(record))]
    found = [one for record in repeated(records, places) if (one := again.on_record(record))]
    assert found == said
    assert (again.last, again.epoch) == (once.last, once.epoch)


@settings(max_examples=30)
@given(PLACES)
def test_entries_in_chunks(places: Sequence[tuple[int, int]]) -> None:
    records = topic_of(entries(3, size=600_000))
    assert len(records) > 3
    consumer = AgreedConsumer(START)
    heard = [
        said.index
        for r in repeated(records, places)
        if (said := consumer.on_record(r)) and hasattr(said, "index")
    ]
    assert heard == [1, 2, 3]


def histories() -> list[list[Record]]:
    """A seed, attempts, a rejected one and a rewind; and a duty that moves."""
    back = Rewind(epoch=2, index=2, term=TERM, attempt=1, cut=2)
    return [
        rewinding(
            (1, seed()),
            (1, fence(1)),
            *((1, replace(effect(index), signature_before=_before(index))) for index in (1, 2, 3, 4)),
            (1, fence(2)),
            (1, effect(5, attempt=2)),
            (2, back),
            (2, fence(3)),
            *((2, effect(index, attempt=3, branch="b", before="b" if index > 3 else "")) for index in (3, 4)),
        ),
        moved_topic().records,
    ]


def _before(index: int) -> bytes:
    return hash_of(b"seed") if index == 1 else signature(index - 1)


@given(st.sampled_from(histories()), PLACES)
def test_effects(records: list[Record], places: Sequence[tuple[int, int]]) -> None:
    once, again = new_consumer(), new_consumer()
    said = standing(once, records)
    assert sum(isinstance(one, Effect) for one in said) >= 3
    assert standing(again, repeated(records, places)) == said
    assert (again.index, again.signature, again.term, again.attempt) == (
        once.index,
        once.signature,
        once.term,
        once.attempt,
    )
    one, other = EffectsLedger(), EffectsLedger()
    for record in records:
        one.on_record(record)
    for record in repeated(records, places):
        other.on_record(record)
    assert (other.index, other.attempt, other.duty, other.rewound, other.seed) == (
        one.index,
        one.attempt,
        one.duty,
        one.rewound,
        one.seed,
    )
    assert [other.state_after(index) for index in range(6)] == [one.state_after(index) for index in range(6)]


@settings(max_examples=30)
@given(PLACES)
def test_payloads(places: Sequence[tuple[int, int]]) -> None:
    """Each comes whole, also where one of before is repeated between its chunks; given again, its id is known."""
    topic = Topic()
    for number, size in enumerate((10, 600_000, 10, 600_000, 10)):
        digest = hash_of(bytes([number]))
        payload = Payload(
            transaction=Transaction(id=digest[:16], digest=digest),
            origin="m1",
            origin_dc="dc1",
            created=number,
            media_type="text",
            body=b"x" * size,
        )
        PayloadsProducer(topic, "payloads", "m1").publish(payload, lambda _: None)
    intake = Intake(PayloadsConsumer(), 0)
    heard = {
        found.created for record in repeated(topic.records, places) if (found := intake.on_record(record))
    }
    assert heard == set(range(5))
