"""Which effects of a topic count, looked at in runs: always those that count record by record."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from consumers.effects import Run, epoch_of
from quadlog import codec
from quadlog.core.effects.signature import as_bytes
from quadlog.core.records import Effect, Rewind
from quadlog.errors import ForeignRecord, StateError
from quadlog.quadstore.applied import Applied
from quadlog.replay.lineage import Lineage, Span
from tests.support.masters.random_effects import (
    RandomTopic,
    counting_effects,
    random_topic,
    with_small_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from consumers.effects import EffectsConsumer
    from quadlog.ports import Record

TOPICS = 40


def runs_of(records: Sequence[Record], size: int) -> Iterator[Run]:
    """As Spark finds them: in each `size` offsets, whole effects of one writer, with nothing between them."""
    for place in range(0, len(records), size):
        heads = [head for record in records[place : place + size] if (head := _head(record))]
        offsets = [offset for offset, _, _ in heads]
        effects = [effect for _, _, effect in heads]
        writers = {(epoch, effect.term, effect.attempt) for _, epoch, effect in heads}
        is_whole = bool(heads) and offsets == list(range(offsets[0], offsets[-1] + 1)) and len(writers) == 1
        if is_whole and all(
            (one.index + 1, one.signature_after) == (next_.index, next_.signature_before)
            for one, next_ in pairwise(effects)
        ):
            yield Run(
                offset=offsets[0],
                first=effects[0].index,
                last=effects[-1].index,
                epoch=heads[0][1],
                term=effects[0].term,
                attempt=effects[0].attempt,
                before=effects[0].signature_before,
                after=effects[-1].signature_after,
            )


def _head(record: Record) -> tuple[int, int, Effect] | None:
    try:
        said, _, chunks = codec.decode_chunk(record.value)
        return (record.offset, epoch_of(record), said) if isinstance(said, Effect) and chunks == 1 else None
    except ForeignRecord:
        return None


def followed(records: Sequence[Record], applied: Applied, size: int) -> Lineage:
    """Run by run where there are runs; epochs only behind a rewind, as the job asks for them."""
    lineage = Lineage("effects", applied, lambda start, end: records[start:end])
    is_whole = False
    while not is_whole:
        knows = lineage.is_rewound
        rest = runs_of(records, size) if size else iter(())
        runs = [run for run in rest if run.offset >= lineage.offset]
        is_whole = lineage.follow(runs, len(records), knows_epochs=knows)
    return lineage


def _unless_it_goes_back(records: Sequence[Record], applied: Applied) -> Lineage | None:
    with suppress(StateError):
        return followed(records, applied, 8)
    return None


def effects_in(records: Sequence[Record], spans: Sequence[Span]) -> list[Effect]:
    chunks = codec.ChunkJoiner()
    said = [chunks.join(record.value) for span in spans for record in records[span.start : span.end]]
    return [effect for effect in said if isinstance(effect, Effect)]


@cache
def counted_topic(seed: int) -> tuple[RandomTopic, EffectsConsumer, dict[int, Effect]]:
    """With what counts of it record by record: the same for all sizes, and most of their time."""
    topic = random_topic(random.Random(seed), steps=25)
    return topic, *counting_effects(topic.records, Applied())


@pytest.mark.parametrize("size", [1, 2, 5, 16, 0])
@pytest.mark.parametrize("topics", [8, pytest.param(TOPICS, marks=pytest.mark.soak)])
def test_the_effects_that_count_are_those_of_the_consumer(
    size: int, topics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands between them, in whatever runs it is looked at."""
    with_small_chunks(monkeypatch)
    counted, restarts = Counter[str](), 0
    for seed in range(topics):
        topic, consumer, effects = counted_topic(seed)
        lineage = followed(topic.records, Applied(), size)
        assert lineage.index == consumer.index, seed
        spans = lineage.spans(0, lineage.index)
        found = effects_in(topic.records, spans)
        assert sorted(found, key=lambda effect: effect.index) == list(effects.values()), seed
        if effects:
            state = lineage.newest()
            assert as_bytes(state.signature) == consumer.signature
            if state.effects_offset == len(topic.records):
                assert (state.term, state.attempt) == (consumer.term, consumer.attempt)
                assert (state.in_effects.order, state.rewound, state.cut) == (
                    consumer.order, consumer.rewound, consumer.cut,
                )  # fmt: skip
                restarts += 1
        counted += Counter(
            effects=len(effects),
            void=sum(consumer.void.values()),
            rewound=consumer.rewound > 1,
            in_groups=any(span.group >= 0 for span in spans),
            seen_alone=lineage.looked_at,
            records=len(topic.records),
        )
    assert restarts > topics / 5
    assert counted["effects"] > 50 * topics
    assert counted["void"] > 20 * topics
    assert counted["rewound"] > topics / 5
    assert counted["in_groups"] > topics / 5
    if size == 16:
        assert counted["seen_alone"] < counted["records"], "no run ever counted as one"


@pytest.mark.parametrize("topics", [20, pytest.param(TOPICS, marks=pytest.mark.soak)])
def test_from_any_state_on_the_rest_is_the_same(topics: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `state_at` says is what a worker needs to hear on; a topic that goes back behind it is refused."""
    with_small_chunks(monkeypatch)
    refused = 0
    for seed in range(topics):
        rng = random.Random(seed)
        topic = random_topic(rng, steps=15)
        whole = followed(topic.records, Applied(), 8)
        half = rng.randrange(len(topic.records))
        before = followed(topic.records[:half], Applied(), 8)
        for state in (before.newest(), whole.state_at(rng.randrange(whole.index + 1))):
            rest = _unless_it_goes_back(topic.records, state)
            if rest is None:
                refused += 1
                continue
            assert rest.index == whole.index, seed
            spans = whole.spans(state.index, whole.index)
            assert effects_in(topic.records, rest.spans(state.index, whole.index)) == effects_in(
                topic.records, spans
            )
    assert 0 < refused < topics


@pytest.mark.parametrize("topics", [12, pytest.param(TOPICS, marks=pytest.mark.soak)])
def test_a_part_of_the_range_is_just_that(topics: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with_small_chunks(monkeypatch)
    for seed in range(topics):
        rng = random.Random(seed)
        topic = random_topic(rng, steps=10)
        lineage = followed(topic.records, Applied(), 8)
        after = rng.randrange(lineage.index + 1)
        until = rng.randrange(after, lineage.index + 1)
        found = effects_in(topic.records, lineage.spans(after, until))
        assert sorted(effect.index for effect in found) == list(range(after + 1, until + 1)), seed


def test_what_goes_back_behind_the_state_is_refused() -> None:
    topic = RandomTopic(random.Random(1))
    for _ in range(5):
        topic.say()
    state = followed(topic.records, Applied(), 4).state_at(4)
    topic.append(Rewind(epoch=2, index=3, term=topic.consumer.term, attempt=1, cut=2))
    with pytest.raises(StateError, match=r"the log goes back to effect 3, .* begins after 4"):
        followed(topic.records, state, 4)
