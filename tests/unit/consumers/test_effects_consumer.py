"""Which effects count: fences, attempts, gaps, handovers; and what a mirror has copied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from consumers.effects import EffectsConsumer, mirrored_in, newest_copy
from producers.effects import EffectsMirror, EffectsProducer
from quadlog.core.model import hash_of
from quadlog.core.records import Effect, Rewind
from tests.support.agreement.topics import (
    MOVED,
    TERM,
    Topic,
    counting,
    effect,
    effects_topic,
    fence,
    moved_topic,
    new_consumer,
    signature,
)

if TYPE_CHECKING:
    from quadlog.core.records import Fence


def test_effects_behind_their_fence_count() -> None:
    said: list[Effect | Fence] = [fence(1), effect(1), effect(2), effect(3)]
    consumer = new_consumer()
    assert counting(consumer, effects_topic(*said)) == said
    assert not consumer.void
    assert (consumer.index, consumer.signature) == (3, signature(3))


def test_an_older_attempt_is_void_behind_a_newer_fence() -> None:
    """An evaluator that was suspended wakes up and writes on: nobody listens."""
    consumer = new_consumer()
    old, new = effect(2, attempt=1, branch="old"), effect(2, attempt=2)
    said = effects_topic(fence(1), effect(1), fence(2, "w2"), old, new, effect(3, attempt=1, branch="old"))
    assert counting(consumer, said) == [fence(1), effect(1), fence(2, "w2"), new]
    assert consumer.void == {"old attempt": 2}


def test_without_a_fence_nothing_counts() -> None:
    consumer = new_consumer()
    assert counting(consumer, effects_topic(effect(1))) == []
    other_term = replace(effect(1), term=hash_of(b"another term"))
    assert counting(consumer, effects_topic(fence(1), other_term)) == [fence(1)]
    assert consumer.void == {"old attempt": 2}


def test_the_first_of_two_fences_of_one_attempt_counts() -> None:
    """Two workers were asked at once."""
    consumer = new_consumer()
    assert counting(consumer, effects_topic(fence(3, "w1"), fence(3, "w2"), fence(2, "w2"))) == [
        fence(3, "w1")
    ]
    assert consumer.void == {"old fence": 2}
    assert counting(consumer, effects_topic(effect(1, attempt=3))) == [effect(1, attempt=3)]


def test_gaps_copies_and_other_states_are_void() -> None:
    consumer = new_consumer()
    topic = effects_topic(
        fence(1),
        effect(2),  # 1 is missing
        effect(1),
        effect(1),  # a copy
        effect(2, branch="other"),  # the state after 1 is the same: the first complete one wins
        effect(2),
        effect(3),  # stands on the 2 that came second
        effect(3, before="other"),
    )
    expected = [fence(1), effect(1), effect(2, branch="other"), effect(3, before="other")]
    assert counting(consumer, topic) == expected
    assert consumer.void == {"gap": 1, "heard already": 2, "other state": 1}


def test_a_large_effect_counts_when_it_is_whole() -> None:
    large = effect(1, lines=1200)
    records = effects_topic(fence(1), large, effect(2))
    assert len(records) > 4
    consumer = new_consumer()
    assert counting(consumer, records) == [fence(1), large, effect(2)]
    # Its evaluator dies in the middle; another one says it again, as another attempt.
    torn, again = effects_topic(fence(1), large)[:-1], effects_topic(fence(2), replace(large, attempt=2))
    consumer = new_consumer()
    assert counting(consumer, [*torn, *again]) == [fence(1), fence(2), replace(large, attempt=2)]
    # And where the dead one's last chunk comes late, it does not count.
    late = effects_topic(fence(1), large)[-1:]
    consumer = new_consumer()
    assert counting(consumer, [*torn, *again[:1], *late, *again[1:]])[-1] == replace(large, attempt=2)
    assert consumer.void == {"old attempt": 1}


def test_a_restart_goes_on_behind_what_is_applied() -> None:
    consumer = EffectsConsumer(index=2, signature=signature(2), term=TERM, attempt=1)
    assert counting(consumer, effects_topic(effect(1), effect(2), effect(3))) == [effect(3)]
    assert consumer.void == {"heard already": 2}


def test_behind_a_handover_only_its_term_counts() -> None:
    """Said twice it is one; an older one is none."""
    consumer = new_consumer()
    new = replace(effect(3, attempt=2), term=MOVED.term)
    assert counting(consumer, moved_topic().records) == [
        fence(1), effect(1), effect(2), MOVED, replace(fence(2), term=MOVED.term), new,
    ]  # fmt: skip
    assert consumer.void == {"old attempt": 2, "old fence": 1}
    assert consumer.order == (1, 5)


def test_a_restart_hears_the_handover_behind_what_is_applied() -> None:
    consumer = EffectsConsumer(index=2, signature=signature(2), term=TERM, attempt=1)
    assert counting(consumer, moved_topic().records)[0] == MOVED
    consumer = EffectsConsumer(index=3, signature=signature(3), term=MOVED.term, attempt=2, order=(1, 5))
    assert counting(consumer, moved_topic().records) == []


def test_a_fence_of_another_term_is_void_without_a_handover() -> None:
    consumer = new_consumer()
    elsewhere = replace(fence(2), term=MOVED.term)
    assert counting(consumer, effects_topic(fence(1), elsewhere, effect(1))) == [fence(1), effect(1)]


def test_a_mirror_says_what_it_copied() -> None:
    source = effects_topic(fence(1), effect(1), effect(2))
    topic = Topic()
    mirror = EffectsMirror(topic, "copy", "m1")
    for record in source[:2]:
        mirror.copy(record, origin="dc2", epoch=3)
    assert [(r.key, r.value) for r in topic.records] == [(r.key, r.value) for r in source[:2]]
    assert mirrored_in(topic.records, origin="dc2", epoch=3, evaluated_in="dc1") == source[1].offset
    assert mirrored_in(topic.records, origin="dc1", epoch=3, evaluated_in="dc1") == -1
    assert mirrored_in(topic.records, origin="dc2", epoch=4, evaluated_in="dc1") == -1
    assert mirrored_in(topic.records, origin="dc2", epoch=3, evaluated_in="dc2") == -1
    assert mirrored_in([], origin="dc2", epoch=3, evaluated_in="dc1") == -1
    assert counting(new_consumer(), topic.records) == [fence(1), effect(1)]


def test_the_newest_copy_tells_whose_topic_was_copied_last() -> None:
    topic = Topic()
    mirror = EffectsMirror(topic, "copy", "m1")
    source = effects_topic(fence(1), effect(1), effect(2))
    mirror.copy(source[0], origin="dc1", epoch=3)
    first = list(topic.records)
    mirror.copy(first[0], origin="dc3", epoch=3)
    EffectsProducer(topic, "copy", "w1", "dc2").publish(effect(3), at=0)
    assert newest_copy(first, epoch=3) == ("dc1", 0)
    assert newest_copy(topic.records, epoch=3) == ("dc3", 0), "a copy of a copy, and then no copy"
    assert newest_copy(topic.records, epoch=4) is None, "made in another view"
    assert newest_copy(source, epoch=1) is None


def test_where_the_home_was_moved_away_what_the_old_evaluator_says_late_is_void() -> None:
    """Behind what was told, and until a rewind: then epochs tell."""
    consumer = new_consumer()
    first, late = effects_topic(fence(1), effect(1), effect(2)), effects_topic(effect(3), effect(4))
    counting(consumer, first[:2])
    consumer.floor = 2, 2
    assert [said.index for said in counting(consumer, first[2:]) if isinstance(said, Effect)] == [2]
    assert counting(consumer, late) == []
    assert consumer.void == {"old epoch": 2}
    topic = Topic()
    mirror = EffectsMirror(topic, "effects", "m1")
    mirror.publish_rewind(Rewind(epoch=2, index=2, term=TERM, attempt=1, cut=2), at=0)
    for record in late:
        mirror.copy(record, origin="dc2", epoch=2)
    counting(consumer, topic.records[:1])
    consumer.set_signature(signature(2))
    assert [said.index for said in counting(consumer, topic.records[1:]) if isinstance(said, Effect)] == [
        3,
        4,
    ]
