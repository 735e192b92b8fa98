"""What a worker and a master make of a topic: which entries follow, which effects count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from consumers.agreed import AgreedConsumer, held_with
from consumers.effects import EMPTY, EffectsConsumer, EffectsLedger, mirrored_in
from consumers.payloads import PayloadsConsumer
from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror, EffectsProducer
from producers.payloads import PayloadsProducer
from quadlog import codec
from quadlog.core.model import (
    GENESIS,
    START,
    Effect,
    Fence,
    Handover,
    Kind,
    LoggedEntry,
    Outcome,
    Payload,
    Point,
    Seed,
    Transaction,
    hash_of,
)
from quadlog.errors import StateError
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


# --- the agreed topic -------------------------------------------------------------------------------


def entries(count: int, *, size: int = 10, branch: bytes = b"") -> list[LoggedEntry]:
    """A log."""
    log: list[LoggedEntry] = []
    previous = GENESIS
    for index in range(1, count + 1):
        chain = hash_of(previous, branch, index.to_bytes(8, "big"))
        log.append(
            LoggedEntry(
                index=index,
                kind=Kind.TX,
                id=index.to_bytes(16, "big"),
                timestamp=index,
                digest=hash_of(b"digest"),
                options={},
                previous=previous,
                chain=chain,
                epoch=1,
                lineage=GENESIS,
                origin="m1",
                created=index,
                media_type="text",
                body=b"x" * size,
            )
        )
        previous = chain
    return log


def topic_of(log: Iterable[LoggedEntry]) -> list[Record]:
    topic = Topic()
    producer = AgreedProducer(topic, "agreed", "m1")
    for entry in log:
        producer.say(entry, lambda _: None)
    return topic.records


def heard(consumer: AgreedConsumer, records: Iterable[Record]) -> list[LoggedEntry]:
    return [entry for record in records if (entry := consumer.hear(record))]


def test_entries_come_each_once_in_order() -> None:
    log = entries(5)
    assert heard(AgreedConsumer(START), topic_of(log)) == log
    # A master that was killed says again what it cannot know to be there; two masters both say it.
    assert heard(AgreedConsumer(START), topic_of([*log[:3], *log[1:4], *log[:1], *log])) == log


def test_a_worker_goes_on_behind_what_it_has() -> None:
    log = entries(5)
    last = Point(log[2].index, log[2].chain)
    assert heard(AgreedConsumer(last), topic_of(log)) == log[3:]


def test_a_large_entry_comes_when_it_is_whole() -> None:
    log = entries(3, size=codec.CHUNK * 2 + 1)
    records = topic_of(log)
    assert len(records) == 9
    consumer = AgreedConsumer(START)
    assert [consumer.hear(record) is not None for record in records] == [False, False, True] * 3
    torn = [*records[:2], *records]  # it was killed between two chunks
    assert heard(AgreedConsumer(START), torn) == log


def test_how_far_a_topic_is_known_to_be() -> None:
    """A chunk says that all entries before its own are there; late duplicates do not take that back."""
    whole = topic_of(entries(5))
    late = topic_of(entries(3))
    assert max(map(held_with, [*whole, *late])) == 5
    chunks = topic_of(entries(2, size=codec.CHUNK * 2 + 1))
    assert [held_with(record) for record in chunks] == [0, 0, 1, 1, 1, 2]


def test_a_gap_in_the_log_stops_the_worker() -> None:
    log = entries(5)
    consumer = AgreedConsumer(START)
    assert heard(consumer, topic_of(log[:2])) == log[:2]
    with pytest.raises(StateError, match=r"entry 4 .* does not follow entry 2"):
        consumer.hear(topic_of(log[3:4])[0])


def test_another_history_stops_the_worker() -> None:
    log, other = entries(3), entries(3, branch=b"other")
    consumer = AgreedConsumer(START)
    assert heard(consumer, topic_of(log[:2])) == log[:2]
    with pytest.raises(StateError, match="does not follow"):
        consumer.hear(topic_of(other[2:])[0])
    assert heard(consumer, topic_of(log[2:])) == log[2:]


# --- the effects topic --------------------------------------------------------------------------------

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
            producer.say(one, at=0)
        else:
            producer.fence(one, at=0)
    return topic.records


def new_consumer() -> EffectsConsumer:
    return EffectsConsumer(index=0, signature=bytes(32), term=GENESIS, attempt=0)


def counting(consumer: EffectsConsumer, records: Iterable[Record]) -> list[Effect | Fence | Handover | Seed]:
    return [said for record in records if (said := consumer.hear(record))]


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


def handed_over(topic: Topic, *handovers: Handover) -> None:
    mirror = EffectsMirror(topic, "effects", "m1")
    for handover in handovers:
        mirror.hand_over(handover, at=0)


def moved_topic() -> Topic:
    """Two effects, a handover, the old evaluator's next words, the new one's fence and effects."""
    topic = Topic()
    here, there = (
        EffectsProducer(topic, "effects", "w1", "dc1"),
        EffectsProducer(topic, "effects", "w2", "dc2"),
    )
    here.fence(fence(1), at=0)
    for index in (1, 2):
        here.say(effect(index), at=0)
    handed_over(topic, MOVED)
    here.say(effect(3, branch="old"), at=0)
    here.fence(fence(2), at=0)
    here.say(effect(3, attempt=2, branch="old"), at=0)
    there.fence(replace(fence(2), term=MOVED.term), at=0)
    handed_over(topic, MOVED, FIRST)
    there.say(replace(effect(3, attempt=2), term=MOVED.term), at=0)
    return topic


def test_behind_a_handover_only_its_term_counts() -> None:
    """Said twice it is one; an older one is none."""
    consumer = new_consumer()
    new = replace(effect(3, attempt=2), term=MOVED.term)
    assert counting(consumer, moved_topic().records) == [
        fence(1), effect(1), effect(2), MOVED, replace(fence(2), term=MOVED.term), new,
    ]  # fmt: skip
    assert consumer.void == {"old attempt": 2, "old fence": 1}
    assert (consumer.handover_of(TERM), consumer.handover_of(MOVED.term)) == (0, 5)


def test_a_restart_hears_the_handover_behind_what_is_applied() -> None:
    consumer = EffectsConsumer(index=2, signature=signature(2), term=TERM, attempt=1)
    assert counting(consumer, moved_topic().records)[0] == MOVED
    consumer = EffectsConsumer(index=3, signature=signature(3), term=MOVED.term, attempt=2, handover=5)
    assert counting(consumer, moved_topic().records) == []


def test_a_fence_of_another_term_is_void_without_a_handover() -> None:
    consumer = new_consumer()
    elsewhere = replace(fence(2), term=MOVED.term)
    assert counting(consumer, effects_topic(fence(1), elsewhere, effect(1))) == [fence(1), effect(1)]


def test_the_ledger_follows_a_handover() -> None:
    ledger = EffectsLedger(duty=FIRST)
    records = moved_topic().records
    for record in records[:-1]:
        ledger.hear(record)
    assert (ledger.index, ledger.duty, ledger.duty_at) == (2, MOVED, 3), "what the old evaluator said is void"
    ledger.hear(records[-1])
    assert (ledger.index, ledger.attempt, ledger.duty) == (3, 2, MOVED)


# --- seeds ----------------------------------------------------------------------------------------------


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
                worker.say(one, at=0)
            case Fence():
                worker.fence(one, at=0)
            case Seed():
                mirror.sow(one)
    return topic.records


def first_on(seed: Seed | None) -> Effect:
    return effect(1) if seed is None else replace(effect(1), signature_before=seed.signature)


def both(records: Sequence[Record]) -> tuple[EffectsConsumer, EffectsLedger]:
    """A worker and a master that heard the same; they are never of two minds."""
    consumer, ledger = new_consumer(), EffectsLedger(duty=FIRST)
    for record in records:
        consumer.hear(record)
        ledger.hear(record)
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
    mirror.sow(seed())
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
    ledger.hear(records[3])
    assert ledger.index == 2


def test_the_last_records_of_a_topic_are_read_without_its_seed() -> None:
    """`quadlog diff` looks back so far, and no farther."""
    ledger = EffectsLedger(is_whole=False)
    for record in topic_with(seed(), fence(1), first_on(seed()), effect(2))[1:]:
        ledger.hear(record)
    assert ledger.index == 2


# --- a master's ledger ----------------------------------------------------------------------------------


def test_the_ledger_follows_by_headers() -> None:
    ledger = EffectsLedger(duty=FIRST)
    assert [ledger.hear(record) for record in effects_topic(fence(1), effect(1), effect(2))] == [None] * 3
    assert (ledger.index, ledger.attempt) == (2, 1)
    for record in effects_topic(effect(2), effect(1)):
        ledger.hear(record)
    assert ledger.index == 2


def test_the_ledger_passes_over_an_old_attempt() -> None:
    ledger = EffectsLedger(duty=FIRST)
    for record in effects_topic(fence(1), effect(1), fence(2), effect(2, attempt=1), effect(3, attempt=1)):
        ledger.hear(record)
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
        ledger.hear(record)
        consumer.hear(record)
        assert ledger.index == consumer.index
    assert ledger.index == 3
    after = ledger.state_after(2)
    assert after
    assert after.signature == right.signature_after


def test_the_ledger_tells_of_rejections_once() -> None:
    rejected = effect(1, outcome=Outcome.REJECTED, lines=0)
    ledger = EffectsLedger(duty=FIRST)
    records = effects_topic(fence(1), rejected, rejected)
    assert [ledger.hear(record) for record in records] == [None, (1, "the shape S failed"), None]
    assert EffectsLedger(duty=FIRST, index=1, attempt=1).hear(records[1]) is None


def test_a_large_effect_is_there_with_its_last_chunk() -> None:
    """Until then nobody can apply it, and its evaluator may die."""
    ledger = EffectsLedger(duty=FIRST)
    records = effects_topic(fence(1), effect(1, lines=1200))
    for record in records[:-1]:
        ledger.hear(record)
        assert ledger.index == 0
    ledger.hear(records[-1])
    assert ledger.index == 1


def test_a_mirror_says_what_it_copied() -> None:
    source = effects_topic(fence(1), effect(1), effect(2))
    topic = Topic()
    mirror = EffectsMirror(topic, "copy", "m1")
    for record in source[:2]:
        mirror.copy(record)
    assert [(r.key, r.value) for r in topic.records] == [(r.key, r.value) for r in source[:2]]
    assert mirrored_in(topic.records) == source[1].offset
    assert mirrored_in([]) == -1
    assert counting(new_consumer(), topic.records) == [fence(1), effect(1)]


# --- payloads ---------------------------------------------------------------------------------------------


def payload(number: int, *, dc: str = "dc1", size: int = 10) -> Payload:
    return Payload(
        transaction=Transaction(id=number.to_bytes(16, "big"), digest=hash_of(number.to_bytes(8, "big"))),
        origin=f"{dc}-m1",
        origin_dc=dc,
        created=number,
        media_type="text",
        body=b"x" * size,
    )


def payloads_topic(*said: tuple[str, Payload]) -> list[Record]:
    topic = Topic()
    for writer, one in said:
        PayloadsProducer(topic, "payloads", writer).say(one, lambda _: None)
    return topic.records


def test_what_this_master_wrote_itself_it_was_told_already() -> None:
    records = payloads_topic(("m1", payload(1)), ("m1", payload(2)), ("m2", payload(3)))
    consumer = PayloadsConsumer(told=("m1", 1))
    assert [consumer.hear(record) for record in records] == [payload(1), None, payload(3)]


def test_of_a_peers_topic_only_its_own_clients_are_taken() -> None:
    records = payloads_topic(("m2", payload(1, dc="dc2")), ("m2", payload(2, dc="dc3")))
    consumer = PayloadsConsumer(only_origin_dc="dc2")
    assert [consumer.hear(record) for record in records] == [payload(1, dc="dc2"), None]


def test_a_payload_is_half_heard_between_its_chunks() -> None:
    consumer = PayloadsConsumer()
    between = []
    for record in payloads_topic(("m2", payload(1, size=codec.CHUNK * 2 + 1))):
        whole = consumer.hear(record)
        between.append(consumer.between)
    assert between == [False, False, True]
    assert whole == payload(1, size=codec.CHUNK * 2 + 1)
