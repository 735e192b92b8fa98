"""A log with a hole is never applied: where records are missing that others stand on, that is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from producers.effects import EffectsProducer
from quadlog.broker import Hole
from quadlog.core.model import hash_of
from quadlog.core.records import Rewind
from quadlog.errors import ForeignRecord, StateError
from quadlog.ports import Record
from quadlog.quadstore.applied import Applied
from quadlog.topics import Topics
from quadlog.worker.replica.backlog import CountedRecords
from quadlog.worker.replica.out_of_log import Gaps
from tests.support.agreement.topics import (
    MOVED,
    TERM,
    Topic,
    cut_behind,
    effect,
    effects_topic,
    entries,
    fence,
    forked,
    handed_over,
    rewinding,
    topic_of,
)

TOPICS = Topics("main", "dc1")


def heard(records: list[Record]) -> list[Hole]:
    """What is found missing."""
    hearing, found = CountedRecords.behind(Applied()), list[Hole]()
    gaps = Gaps(hearing, TOPICS, Applied(), found.append)
    for record in records:
        gaps.note(record)
        consumer = hearing.agreed if record.topic == TOPICS.agreed else hearing.effects
        try:
            said: object = consumer.on_record(record)
        except ForeignRecord:
            said = None
        except StateError:
            if not gaps.explains(record.topic):
                raise
            break
        gaps.heard(record, counts=said is not None)
    assert gaps.is_hole == bool(found)
    return found


def in_topic(records: list[Record], name: str) -> list[Record]:
    return [replace(record, topic=name) for record in records]


AGREED = in_topic(topic_of(entries(8)), TOPICS.agreed)
LARGE = in_topic(topic_of(entries(3, size=2_500_000)), TOPICS.agreed)
EFFECTS = in_topic(effects_topic(fence(1), *(effect(index) for index in range(1, 8))), TOPICS.effects)
TAKEN_OVER = in_topic(
    effects_topic(fence(1), effect(1), fence(2), effect(2, attempt=2), effect(3, attempt=2)), TOPICS.effects
)


def without(records: list[Record], *offsets: int) -> list[Record]:
    return [record for record in records if record.offset not in offsets]


@pytest.mark.parametrize("log", [AGREED, LARGE, EFFECTS, TAKEN_OVER])
def test_a_whole_log_has_no_hole(log: list[Record]) -> None:
    assert heard(log) == []


@pytest.mark.parametrize("log", [AGREED, EFFECTS])
@pytest.mark.parametrize("missing", [(1,), (2, 3), (1, 2, 3, 4, 5, 6)])
def test_what_compaction_removed_is_found(log: list[Record], missing: tuple[int, ...]) -> None:
    [hole] = heard(without(log, *missing))
    assert (hole.topic, hole.first, hole.end) == (log[0].topic, missing[0], missing[-1] + 1)


def test_the_first_record_may_be_the_one_that_is_missing() -> None:
    assert heard(without(AGREED, 0)) == [Hole(topic=TOPICS.agreed, first=0, end=1)]
    assert heard(without(EFFECTS, 0)) == [Hole(topic=TOPICS.effects, first=0, end=1)], "a fence"
    assert heard(without(TAKEN_OVER, 2)) == [Hole(topic=TOPICS.effects, first=2, end=3)], "a later one"


def test_a_fence_that_is_missing_is_found_with_the_first_effect_behind_it() -> None:
    assert heard(without(TAKEN_OVER[:4], 2)) == [Hole(topic=TOPICS.effects, first=2, end=3)]


def test_a_rewind_to_an_effect_that_is_missing() -> None:
    """Without a gap it is an error, for nothing explains it."""
    back = Rewind(epoch=2, index=6, term=TERM, attempt=1, cut=2)
    [rewind] = in_topic(rewinding((2, back)), TOPICS.effects)
    with pytest.raises(StateError, match="effects are missing"):
        heard([*EFFECTS[:5], replace(rewind, offset=5)])
    assert heard([*EFFECTS[:5], replace(rewind, offset=9)]) == [Hole(topic=TOPICS.effects, first=5, end=9)]


def test_what_a_cut_made_void_proves_nothing() -> None:
    """A master that woke up late says it again, behind a gap of another program's."""
    log, _ = forked()
    said = in_topic(topic_of([*log, cut_behind(log[2], 2), log[5]]), TOPICS.agreed)
    assert heard([*said[:-1], replace(said[-1], offset=said[-1].offset + 1)]) == []


def test_a_chunk_that_is_missing_is_found_with_the_next_entry() -> None:
    assert LARGE[0].key == LARGE[1].key
    assert len(heard(without(LARGE, 0))) == 1


def test_what_a_superseded_evaluator_says_late_proves_nothing() -> None:
    """Behind a marker of another program's transaction, which leaves a gap."""
    late = effects_topic(fence(1), effect(1), fence(2), effect(5), effect(2), effect(3))
    assert heard(in_topic(without(late, 3), TOPICS.effects)) == []
    topic = Topic()
    worker = EffectsProducer(topic, TOPICS.effects, "w1", "dc1")
    worker.publish_fence(fence(1), at=0)
    worker.publish(effect(1), at=0)
    handed_over(topic, MOVED)
    for index in (7, 2, 3, 4):
        worker.publish(effect(index), at=0)
    assert heard(in_topic(without(topic.records, 3), TOPICS.effects)) == []
    worker.publish(replace(effect(3), term=hash_of(b"a term of which nothing was heard")), at=0)
    [hole] = heard(in_topic(without(topic.records, 3), TOPICS.effects))
    assert (hole.first, hole.end) == (3, 4)


def test_what_nothing_stands_on_is_no_hole() -> None:
    """The marker of another program's transaction; a record of another program; a repetition; a branch."""
    shifted = [*AGREED[:3], *(replace(record, offset=record.offset + 1) for record in AGREED[3:])]
    assert heard(shifted) == []
    log, other = forked()
    branch = topic_of([*log, *other[3:]])
    assert heard(without(in_topic(branch, TOPICS.agreed), 6)) == [], "of the branch"
    foreign = Record(TOPICS.agreed, 8, b"order-7", b"of another program", [])
    assert heard([*AGREED, foreign, replace(foreign, offset=12), replace(AGREED[0], offset=13)]) == []
    late = replace(EFFECTS[2], offset=20)
    assert heard([*EFFECTS, late]) == []
