"""What a master's ledger makes of the effects: how far they are, whose they are, what was rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror
from quadlog.codec.envelope import ATTEMPT, EPOCH, HANDOVER
from quadlog.core.model import hash_of
from quadlog.core.records import Handover, Outcome, Rewind
from quadlog.errors import ForeignRecord
from quadlog.ports import Record
from tests.support.agreement.topics import (
    FIRST,
    MOVED,
    Topic,
    effect,
    effects_topic,
    fence,
    moved_topic,
    new_consumer,
)


def test_the_ledger_follows_a_handover() -> None:
    ledger = EffectsLedger(duty=FIRST)
    records = moved_topic().records
    for record in records[:-1]:
        ledger.on_record(record)
    assert (ledger.index, ledger.duty, ledger.duty_at) == (2, MOVED, 3), "what the old evaluator said is void"
    ledger.on_record(records[-1])
    assert (ledger.index, ledger.attempt, ledger.duty) == (3, 2, MOVED)


def test_the_ledger_follows_by_headers() -> None:
    ledger = EffectsLedger(duty=FIRST)
    assert [ledger.on_record(record) for record in effects_topic(fence(1), effect(1), effect(2))] == [
        None
    ] * 3
    assert (ledger.index, ledger.attempt) == (2, 1)
    for record in effects_topic(effect(2), effect(1)):
        ledger.on_record(record)
    assert ledger.index == 2


def test_the_ledger_passes_over_an_old_attempt() -> None:
    ledger = EffectsLedger(duty=FIRST)
    for record in effects_topic(fence(1), effect(1), fence(2), effect(2, attempt=1), effect(3, attempt=1)):
        ledger.on_record(record)
    assert (ledger.index, ledger.attempt) == (1, 2)


def test_an_attempt_on_another_state_does_not_count_for_the_ledger_either() -> None:
    """Workers void it; if a master took it for the truth, the right workers would seem wrong to it."""
    other = replace(effect(2, attempt=2), signature_before=hash_of(b"other"), signature_after=hash_of(b"x"))
    right = effect(2, attempt=3)
    topic = effects_topic(
        fence(1), effect(1), fence(2), other, effect(3, attempt=2), fence(3), right, effect(3, attempt=3)
    )
    ledger, consumer = EffectsLedger(), new_consumer()
    for record in topic:
        ledger.on_record(record)
        consumer.on_record(record)
        assert ledger.index == consumer.index
    assert ledger.index == 3
    after = ledger.state_after(2)
    assert after
    assert after.signature == right.signature_after


def test_a_master_that_starts_behind_a_fence_believes_no_attempt_on_another_state() -> None:
    other = replace(effect(2, attempt=2), signature_before=hash_of(b"other"), signature_after=hash_of(b"x"))
    begun = effects_topic(fence(1), effect(1), fence(2))
    ledger = EffectsLedger(duty=FIRST)
    for record in begun:
        ledger.on_record(record)
    again = EffectsLedger(duty=FIRST, index=ledger.index, attempt=ledger.attempt)
    again._after = ledger._after
    for record in effects_topic(other, effect(3, attempt=2), fence(3), effect(2, attempt=3)):
        again.on_record(record)
    assert again.index == 2
    after = again.state_after(2)
    assert after is not None
    assert after.signature == effect(2).signature_after


def test_the_ledger_tells_of_rejections_once() -> None:
    rejected = effect(1, outcome=Outcome.REJECTED, lines=0)
    ledger = EffectsLedger(duty=FIRST)
    records = effects_topic(fence(1), rejected, rejected)
    assert [ledger.on_record(record) for record in records] == [None, (1, "the shape S failed"), None]
    assert EffectsLedger(duty=FIRST, index=1, attempt=1).on_record(records[1]) is None


def test_a_large_effect_is_there_with_its_last_chunk() -> None:
    """Until then nobody can apply it, and its evaluator may die."""
    ledger = EffectsLedger(duty=FIRST)
    records = effects_topic(fence(1), effect(1, lines=1200))
    for record in records[:-1]:
        ledger.on_record(record)
        assert ledger.index == 0
    ledger.on_record(records[-1])
    assert ledger.index == 1


def rewind(epoch: int, index: int, attempt: int) -> Record:
    topic = Topic()
    EffectsMirror(topic, "topic", "m1").publish_rewind(
        Rewind(epoch=epoch, index=index, term=FIRST.term, attempt=attempt, cut=epoch), at=0
    )
    return topic.records[0]


def in_epoch(record: Record, epoch: int) -> Record:
    return replace(record, headers=[*record.headers, (EPOCH, str(epoch).encode())])


def test_a_rewind_takes_the_ledger_back_and_what_follows_counts() -> None:
    ledger = EffectsLedger(duty=FIRST)
    branch = effects_topic(fence(4), *(effect(index, attempt=4) for index in (1, 2, 3)))
    for record in (*branch, rewind(5, 1, 2)):
        ledger.on_record(record)
    assert (ledger.index, ledger.attempt, ledger.rewound, ledger.stays) == (1, 2, 5, 1)
    assert ledger.state_after(1) is not None
    assert ledger.state_after(2) is None, "it was of another history"
    late = effects_topic(fence(9), effect(2, attempt=9))
    for record in (*late, *(in_epoch(record, 4) for record in late), rewind(5, 0, 1), rewind(4, 0, 1)):
        ledger.on_record(record)
    assert (ledger.index, ledger.attempt, ledger.rewound) == (1, 2, 5), "void: of a writer that woke up late"
    for record in effects_topic(effect(2, attempt=2), fence(3), effect(3, attempt=3)):
        ledger.on_record(in_epoch(record, 5))
    assert (ledger.index, ledger.attempt) == (3, 3)


def test_behind_a_rewind_handovers_begin_anew() -> None:
    """What follows is copied from a topic that has its own order of them."""
    ledger = EffectsLedger(duty=FIRST)
    own = Handover(index=0, term=hash_of(b"own side"), dc="dc1", epoch=3)
    theirs = Handover(index=0, term=hash_of(b"their side"), dc="dc2", epoch=2)
    topic = Topic()
    mirror = EffectsMirror(topic, "topic", "m1")
    mirror.publish_handover(own, at=0)
    mirror.publish_handover(theirs, at=0)
    first, second = topic.records
    for record in (first, second):
        ledger.on_record(record)
    assert ledger.duty == own
    for record in (rewind(5, 0, 0), in_epoch(second, 5)):
        ledger.on_record(record)
    assert ledger.duty == theirs


def test_what_another_program_wrote_says_nothing() -> None:
    """Its headers may have our names, and be no numbers; the node passes over it."""
    records = effects_topic(fence(1), effect(1), effect(2))
    ledger = EffectsLedger(duty=FIRST)
    for headers in ([(ATTEMPT, b"7")], [(EPOCH, b"x")], [(ATTEMPT, b"x")], [(HANDOVER, b"0")]):
        strange = Record("effects", 9, b"k", b"of another program", headers)
        with pytest.raises(ForeignRecord, match=r"effects at 9: .*another program"):
            ledger.on_record(strange)
        records.append(Record("effects", 9, b"k", records[0].value, [(EPOCH, b"x")]))
    for record in records[:3]:
        ledger.on_record(record)
    assert (ledger.index, ledger.attempt) == (2, 1)
    again = EffectsLedger(duty=FIRST, index=2, attempt=1)
    again.recall(records)
    assert (after := again.state_after(2)) is not None
    assert after.index == 2, "also at a start"
