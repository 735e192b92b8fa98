"""Which seed a log begins with: a worker and a master are never of two minds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.effects import EffectsConsumer
from consumers.effects_ledger import EMPTY, EffectsLedger
from producers.effects import EffectsMirror
from quadlog.core.model import GENESIS
from tests.support.agreement.topics import (
    FIRST,
    MOVED,
    Topic,
    counting,
    effect,
    fence,
    handed_over,
    new_consumer,
    seed,
    signature,
    topic_with,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.records import Effect, Fence, Seed
    from quadlog.ports import Record


def first_on(seed: Seed | None) -> Effect:
    return effect(1) if seed is None else replace(effect(1), signature_before=seed.signature)


def both(records: Sequence[Record]) -> tuple[EffectsConsumer, EffectsLedger]:
    """A worker and a master that heard the same; they are never of two minds."""
    consumer, ledger = new_consumer(), EffectsLedger(duty=FIRST)
    for record in records:
        consumer.on_record(record)
        ledger.on_record(record)
        assert consumer.index == ledger.index
    return consumer, ledger


def test_a_log_begins_with_the_seed_that_stands_before_its_effects() -> None:
    said: list[Effect | Fence | Seed] = [fence(1), seed(), first_on(seed()), effect(2)]
    consumer, ledger = both(topic_with(*said))
    assert counting(new_consumer(), topic_with(*said)) == said
    assert (consumer.index, ledger.seed) == (2, seed())
    after = ledger.state_after(0)
    assert after is not None
    assert after.signature == seed().signature


def test_an_update_that_was_evaluated_before_the_seed_came_is_evaluated_again() -> None:
    """An import and an update at once, and the seed was first: the effect of the empty state is void."""
    late, again = effect(1), replace(first_on(seed()), attempt=2)
    records = topic_with(fence(1), seed(), late, fence(2, "w2"), again)
    consumer, ledger = both(records)
    assert counting(new_consumer(), records) == [fence(1), seed(), fence(2, "w2"), again]
    assert consumer.void == {"other state": 1}
    assert (ledger.index, ledger.attempt) == (1, 2)


def test_a_seed_behind_an_effect_is_void() -> None:
    """An import and an update at once, and the effect was first."""
    consumer, ledger = both(topic_with(fence(1), effect(1), seed(), effect(2)))
    assert (consumer.index, consumer.void, ledger.seed) == (2, {"late seed": 1}, None)
    assert ledger.state_after(0) == EMPTY


def test_a_seed_behind_a_handover_is_void() -> None:
    """Others copy the topic of the old home only up to there: they would never hear of it."""
    topic = Topic()
    mirror = EffectsMirror(topic, "effects", "m1")
    handed_over(topic, MOVED, FIRST)
    mirror.publish_seed(seed())
    consumer, ledger = both(topic.records)
    assert (consumer.void, ledger.seed) == ({"late seed": 1}, None)


def test_of_two_seeds_the_first_counts() -> None:
    consumer, ledger = both(topic_with(seed("a"), seed("b"), fence(1), first_on(seed("a"))))
    assert (consumer.index, consumer.void, ledger.seed) == (1, {"late seed": 1}, seed("a"))
    _, ledger = both(topic_with(seed("a"), seed("b"), fence(1), first_on(seed("b"))))
    assert ledger.index == 0


def test_a_worker_that_took_the_seed_up_hears_it_again() -> None:
    consumer = EffectsConsumer(index=0, signature=seed().signature, term=GENESIS, attempt=0)
    said: list[Effect | Fence | Seed] = [seed(), fence(1), first_on(seed())]
    assert counting(consumer, topic_with(*said, seed("b"))) == said


def test_a_master_that_is_started_again_knows_the_seed() -> None:
    records = topic_with(seed(), fence(1), first_on(seed()), effect(2))
    ledger = EffectsLedger(index=1, attempt=1, duty=FIRST, seed=seed())
    ledger.recall(records[2:])
    assert ledger.state_after(0) == seed().state
    after = ledger.state_after(1)
    assert after is not None
    assert after.signature == signature(1)
    ledger.on_record(records[3])
    assert ledger.index == 2


def test_the_last_records_of_a_topic_are_read_without_its_seed() -> None:
    """`quadlog diff` looks back so far, and no farther."""
    ledger = EffectsLedger(is_whole=False)
    for record in topic_with(seed(), fence(1), first_on(seed()), effect(2))[1:]:
        ledger.on_record(record)
    assert ledger.index == 2
