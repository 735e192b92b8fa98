"""What a master copied comes to its topic late: behind the beginning of what it, or another one, copied after that.

Within a process an outlet sees to it that nothing does (`RenewableOutlet`).  But a master may die with its words on
their way, and two may lead a data centre for a moment.  Each of them says one stream, in order, and the topic has a
beginning of it; each begins where the topic has the other's words by then, or before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror, EffectsProducer
from quadlog.core.model import GENESIS, hash_of
from quadlog.core.records import Fence, Handover, Rewind, Term
from quadlog.quadstore.applied import Applied
from quadlog.replay.lineage import Lineage
from tests.support.agreement.topics import FIRST, Topic, effect, fence, new_consumer, signature, standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from consumers.effects import EffectsConsumer
    from quadlog.ports import Record

VIEW: Final = hash_of(b"the second view")


def old_topic() -> list[Record]:
    """What the own evaluator said while this was the home; the last ones come late."""
    topic = Topic()
    own = EffectsProducer(topic, "effects", "w1", "dc1")
    own.publish_fence(fence(1), at=0)
    for index in range(1, 10):
        own.publish(effect(index), at=0)
    return topic.records


def stream() -> list[Record]:
    """What is copied of the next home: with what was void there, and an effect in pieces."""
    topic = Topic()
    mirror, there = EffectsMirror(topic, "effects", "m1"), EffectsProducer(topic, "effects", "w2", "dc2")
    mirror.publish_rewind(Rewind(epoch=2, index=4, term=GENESIS, attempt=0, cut=0), at=0)
    terms = (Term(2, VIEW, 4),)
    mirror.publish_handover(Handover(index=0, term=VIEW, dc="dc2", epoch=2, terms=terms), at=0)

    def say(index: int, attempt: int, *, lines: int = 1, before: str = "new", branch: str = "new") -> None:
        said = effect(index, attempt=attempt, lines=lines, before=before, branch=branch)
        there.publish(replace(said, term=VIEW), at=0, epoch=2)

    there.publish_fence(Fence(term=VIEW, attempt=2, worker="w2"), at=0, epoch=2)
    say(5, 2, before="")
    say(6, 2)
    there.publish_fence(Fence(term=VIEW, attempt=3, worker="w3"), at=0, epoch=2)
    say(7, 2, branch="void")
    say(7, 3, lines=530)
    say(8, 2, before="void", branch="void")
    say(8, 3)
    there.publish_fence(Fence(term=VIEW, attempt=4, worker="w2"), at=0, epoch=2)
    say(9, 4)
    return topic.records


OLD, STREAM = old_topic(), stream()
KEPT: Final = 5
"""Of the old ones those that stand in any case: a fence and four effects."""


@st.composite
def topics(draw: st.DrawFn) -> list[Record]:
    """All of one copy, a beginning of another one, and old effects, each in order, between each other."""
    there = draw(st.integers(0, len(STREAM)))
    late = STREAM[there : draw(st.integers(there, len(STREAM)))]
    again = STREAM[draw(st.integers(0, there)) :]
    streams = [OLD[KEPT : draw(st.integers(KEPT, len(OLD)))], late, again]
    turns = [number for number, records in enumerate(streams) for _ in records]
    waiting = [iter(records) for records in streams]
    records = [*OLD[:KEPT], *STREAM[:there], *(next(waiting[turn]) for turn in draw(st.permutations(turns)))]
    return [replace(record, offset=offset) for offset, record in enumerate(records)]


def heard(records: Sequence[Record]) -> EffectsConsumer:
    consumer = new_consumer()
    standing(consumer, records)
    return consumer


def followed(records: Sequence[Record]) -> EffectsLedger:
    ledger = EffectsLedger(duty=FIRST)
    for record in records:
        ledger.on_record(record)
    return ledger


@settings(deadline=None)  # an effect in pieces takes its time
@given(topics())
def test_a_worker_comes_to_the_same(records: Sequence[Record]) -> None:
    consumer, alone = heard(records), heard([*OLD[:KEPT], *STREAM])
    assert (consumer.index, consumer.signature) == (9, signature(9, "new"))
    assert (consumer.term, consumer.attempt) == (alone.term, alone.attempt)
    assert (consumer.order, consumer.rewound) == (alone.order, alone.rewound)


@settings(deadline=None)  # an effect in pieces takes its time
@given(topics())
def test_a_master_comes_to_the_same(records: Sequence[Record]) -> None:
    ledger, alone = followed(records), followed([*OLD[:KEPT], *STREAM])
    assert (ledger.index, ledger.attempt, ledger.rewound) == (9, alone.attempt, alone.rewound)
    assert ledger.duty == alone.duty
    assert [ledger.state_after(index) for index in range(10)] == [
        alone.state_after(index) for index in range(10)
    ]


@settings(deadline=None)  # an effect in pieces takes its time
@given(topics())
def test_a_compaction_comes_to_the_same(records: Sequence[Record]) -> None:
    lineage = Lineage("effects", Applied(), lambda start, end: records[start:end])
    assert lineage.follow((), len(records), knows_epochs=True)
    assert lineage.index == 9
    assert [lineage.effect_at(index).signature_after for index in range(5, 10)] == [
        signature(index, "new") for index in range(5, 10)
    ]


@settings(deadline=None)  # an effect in pieces takes its time
@given(topics(), st.data())
def test_at_any_moment_a_master_is_as_far_as_its_workers(
    records: Sequence[Record], data: st.DataObject
) -> None:
    end = data.draw(st.integers(0, len(records)))
    assert followed(records[:end]).index == heard(records[:end]).index
