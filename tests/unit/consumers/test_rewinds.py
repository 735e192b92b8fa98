"""What counts behind a rewind: the other data centre's effects, and nothing that an old writer says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from consumers.effects import FIRST_VIEW, EffectsConsumer
from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror, EffectsProducer
from quadlog.codec.envelope import EPOCH
from quadlog.core.model import GENESIS, hash_of
from quadlog.core.records import Effect, Fence, Handover, Rewind, Seed
from quadlog.errors import StateError
from tests.support.agreement.topics import (
    FIRST,
    MOVED,
    TERM,
    Topic,
    counting,
    effect,
    effects_topic,
    fence,
    new_consumer,
    rewinding,
    seed,
    signature,
    standing,
)

if TYPE_CHECKING:
    from quadlog.ports import Record


def to(index: int, *, epoch: int = 2, term: bytes = TERM, attempt: int = 1) -> Rewind:
    return Rewind(epoch=epoch, index=index, term=term, attempt=attempt, cut=epoch)


B = "b"


def on_b(index: int, *, fork: int = 1, attempt: int = 2) -> Effect:
    """What the other data centre's evaluator said, behind the fork."""
    return effect(index, branch=B, before="" if index == fork + 1 else B, attempt=attempt)


def test_behind_a_rewind_the_other_effects_follow() -> None:
    said: list[tuple[int, Effect | Fence | Handover | Rewind | Seed]] = [
        (1, fence(1)), (1, effect(1)), (1, effect(2)), (1, effect(3)),
        (2, to(1)), (2, fence(2, "w9")), (2, on_b(2)), (2, on_b(3)), (2, on_b(4)),
    ]  # fmt: skip
    consumer = new_consumer()
    assert standing(consumer, rewinding(*said)) == [one for _, one in said]
    assert not consumer.void
    assert (consumer.index, consumer.signature, consumer.rewound) == (4, signature(4, B), 2)


def test_no_effect_counts_before_the_state_has_gone_back() -> None:
    consumer = new_consumer()
    counting(consumer, rewinding((1, fence(1)), (1, effect(1)), (1, effect(2)), (2, to(1, attempt=2))))
    on_ours = replace(on_b(2), signature_before=signature(2))
    assert counting(consumer, rewinding((2, on_b(2)), (2, on_ours))) == []
    assert consumer.void == {"other state": 2}
    consumer.set_signature(signature(1))
    assert counting(consumer, rewinding((2, on_b(2)))) == [on_b(2)]


def test_old_epochs_are_void_behind_a_rewind() -> None:
    """A worker, and a master that copies, wake up: whatever they say, and though it would fit."""
    consumer = new_consumer()
    late: list[tuple[int, Effect | Fence | Handover | Rewind | Seed]] = [
        (1, effect(2)), (1, fence(7)), (1, MOVED), (1, seed()), (1, to(0, epoch=9)),
    ]  # fmt: skip
    said = rewinding(
        (1, fence(1)), (1, effect(1)), (2, to(1)), *late, (2, fence(2, "w9")), *late, (2, on_b(2))
    )
    assert standing(consumer, said)[2:] == [to(1), fence(2, "w9"), on_b(2)]
    assert consumer.void == {"old epoch": 10}


def test_a_record_without_an_epoch_is_of_the_first_view() -> None:
    consumer = new_consumer()
    old = [replace(record, headers=[]) for record in effects_topic(fence(1), effect(1), effect(2))]
    assert counting(consumer, old) == [fence(1), effect(1), effect(2)]
    standing(consumer, rewinding((2, to(1))))
    assert counting(consumer, old) == []
    assert consumer.void == {"old epoch": 3}


def test_a_second_rewind_of_an_epoch_is_passed_over() -> None:
    """Two masters said it, and some of what follows."""
    follows: list[tuple[int, Effect | Fence]] = [(2, fence(2, "w9")), (2, on_b(2)), (2, on_b(3))]
    once = rewinding((1, fence(1)), (1, effect(1)), (1, effect(2)), (2, to(1)), *follows)
    again = rewinding((2, to(1)), *follows, (2, on_b(4)))
    consumer = new_consumer()
    assert standing(consumer, [*once, *again])[-1] == on_b(4)
    assert consumer.index == 4
    assert standing(consumer, rewinding((2, to(0)), (3, to(0, epoch=3)))) == [to(0, epoch=3)]
    assert consumer.index == 0


def test_a_rewind_ahead_of_what_was_heard_says_that_effects_are_missing() -> None:
    consumer = new_consumer()
    counting(consumer, rewinding((1, fence(1)), (1, effect(1))))
    with pytest.raises(StateError, match=r"rewind to effect 2, and 1 is the last .* effects are missing"):
        counting(consumer, rewinding((2, to(2))))


def test_handovers_begin_anew_behind_a_rewind() -> None:
    """Those of the other data centre's topic follow, however old they are; and then that of the new view."""
    ours = Handover(index=0, term=hash_of(b"view 2"), dc="dc1", epoch=2)
    theirs = Handover(index=3, term=hash_of(b"entry 3"), dc="dc3")
    home = Handover(index=0, term=hash_of(b"view 3"), dc="dc2", epoch=3)
    moved = Handover(index=9, term=hash_of(b"entry 9"), dc="dc3", epoch=3)
    consumer = new_consumer()
    said = rewinding(
        (1, fence(1)), (1, effect(1)), (2, ours), (2, MOVED), (3, to(1, epoch=3)),
        (3, theirs), (3, MOVED), (3, theirs), (3, home), (3, ours), (3, moved), (3, home),
    )  # fmt: skip
    assert standing(consumer, said)[2:] == [ours, to(1, epoch=3), theirs, MOVED, home, moved]
    assert (consumer.order, consumer.term) == ((3, 9), moved.term)


def test_what_follows_a_rewind_is_of_its_term_until_it_is_said_otherwise() -> None:
    consumer = new_consumer()
    elsewhere = replace(on_b(2, attempt=5), term=MOVED.term)
    said = rewinding(
        (1, fence(1)), (1, effect(1)), (2, to(1, term=MOVED.term, attempt=5)),
        (2, on_b(2)), (2, fence(6)), (2, elsewhere), (2, replace(fence(6), term=MOVED.term)),
    )  # fmt: skip
    assert standing(consumer, said)[2:] == [
        to(1, term=MOVED.term, attempt=5), elsewhere, replace(fence(6), term=MOVED.term),
    ]  # fmt: skip
    assert consumer.void == {"old attempt": 1, "old fence": 1}


def said_in(*said: tuple[int, Effect | Fence | Handover | Rewind | Seed]) -> list[Record]:
    """As producers write it, each in the view of an epoch."""
    topic = Topic()
    worker, mirror = EffectsProducer(topic, "effects", "w1", "dc1"), EffectsMirror(topic, "effects", "m1")
    for epoch, one in said:
        match one:
            case Effect():
                worker.publish(one, at=0, epoch=epoch)
            case Fence():
                worker.publish_fence(one, at=0, epoch=epoch)
            case Handover():
                mirror.publish_handover(one, at=0)
            case Rewind():
                mirror.publish_rewind(one, at=0)
            case Seed():
                mirror.publish_seed(one, epoch=epoch)
    return topic.records


def test_attempts_of_a_new_term_count_whatever_was_heard_before() -> None:
    """Two data centres copy one topic from different places on: behind a rewind only one has its third attempt."""
    home = Handover(index=0, term=hash_of(b"view 2"), dc="dc2", epoch=2)
    here = (2, home), (2, replace(fence(1), term=home.term)), (2, replace(effect(3), term=home.term))
    begun: list[tuple[int, Effect | Fence | Handover | Rewind | Seed]] = [(1, fence(1)), (1, effect(1))]
    behind_all = [*begun, (1, effect(2)), (2, to(2, term=GENESIS, attempt=0)), *here]
    behind_one = [*begun, (2, to(1, attempt=3)), (2, effect(2, attempt=3)), *here]
    for said in (behind_all, behind_one, [*begun, (1, fence(3)), (1, effect(2, attempt=3)), *here]):
        consumer, ledger = new_consumer(), EffectsLedger(duty=FIRST)
        records = said_in(*said)
        standing(consumer, records)
        for record in records:
            ledger.on_record(record)
        assert (consumer.index, consumer.term, consumer.attempt) == (3, home.term, 1)
        assert (ledger.index, ledger.duty.term, ledger.attempt) == (3, home.term, 1)
        assert consumer.highest == (1 if said is behind_all else 3), "the next fence is above all"


def test_behind_a_rewind_to_the_beginning_effects_of_the_first_view_count_for_a_master_too() -> None:
    begin = to(0, term=GENESIS, attempt=0)
    on_seed = replace(effect(1), signature_before=seed("b").signature)
    said = said_in((1, fence(1)), (1, effect(1)), (2, begin), (2, seed("b")), (2, fence(1)), (2, on_seed))
    ledger = EffectsLedger(duty=FIRST)
    for record in said:
        ledger.on_record(record)
    assert (ledger.index, ledger.seed) == (1, seed("b"))


def test_behind_a_rewind_a_master_counts_no_effect_without_its_fence() -> None:
    """Two masters lead for a moment, and the copies of one come behind the rewind of the other."""
    home = Handover(index=0, term=hash_of(b"view 2"), dc="dc2", epoch=2)
    said = said_in(
        (1, fence(1)), (1, effect(1)), (1, effect(2)), (2, to(1, term=GENESIS, attempt=0)), (2, effect(2, attempt=4)),
        (2, home), (2, replace(fence(1), term=home.term)), (2, replace(effect(2), term=home.term)),
    )  # fmt: skip
    consumer, ledger = new_consumer(), EffectsLedger(duty=FIRST)
    for record in said:
        standing(consumer, [record])
        ledger.on_record(record)
        assert ledger.index == consumer.index


def test_before_the_first_fence_the_next_one_tells_the_term() -> None:
    consumer = new_consumer()
    said = rewinding((2, to(0, term=GENESIS, attempt=0)), (2, fence(4)), (2, effect(1, attempt=4)))
    assert standing(consumer, said)[1:] == [fence(4), effect(1, attempt=4)]


def test_behind_a_rewind_to_the_beginning_the_other_seed_counts() -> None:
    consumer = new_consumer()
    said = rewinding((1, seed("a")), (2, to(0, term=GENESIS, attempt=0)), (2, seed("b")), (2, seed("c")))
    assert standing(consumer, said) == [seed("a"), to(0, term=GENESIS, attempt=0), seed("b")]
    assert consumer.signature == seed("b").signature


def test_a_restart_between_any_two_records_hears_the_same() -> None:
    """From what is kept with the state; of a rewind that is not done yet, from before it."""
    home = Handover(index=0, term=hash_of(b"view 2"), dc="dc2", epoch=2)
    ahead = replace(on_b(3, attempt=3), term=home.term)
    said = rewinding(
        (1, fence(1)), (1, effect(1)), (1, MOVED), (1, replace(fence(2), term=MOVED.term)),
        (1, replace(effect(2, attempt=2), term=MOVED.term)), (2, to(1)), (1, effect(2)), (2, fence(2)),
        (2, on_b(2)), (2, home), (2, fence(3)), (2, replace(fence(3), term=home.term)), (1, MOVED), (2, ahead),
    )  # fmt: skip
    whole = new_consumer()
    standing(whole, said)
    for stop in range(len(said) + 1):
        before = new_consumer()
        standing(before, said[:stop])
        assert before.signature is not None
        again = EffectsConsumer(
            index=before.index,
            signature=before.signature,
            term=before.term,
            attempt=before.attempt,
            order=before.order,
            rewound=before.rewound,
        )
        standing(again, said[stop:])
        assert (again.index, again.signature, again.term) == (3, signature(3, B), home.term)
        assert (again.attempt, again.order, again.rewound) == (3, (2, 0), 2)
    assert (whole.index, whole.order) == (3, (2, 0)) > (3, FIRST_VIEW)


def test_workers_say_the_epoch_of_the_view_that_they_evaluate_in() -> None:
    topic = Topic()
    worker = EffectsProducer(topic, "effects", "w1", "dc1")
    worker.publish_fence(fence(1), at=0, epoch=4)
    worker.publish(effect(1, lines=1200), at=0, epoch=4)
    worker.publish(effect(2), at=0)
    assert [record.header(EPOCH) for record in topic.records] == [*[b"4"] * (len(topic.records) - 1), b"1"]
