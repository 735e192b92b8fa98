"""A muted master's copies: one to one, in order, each once, and from where on after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from consumers.agreed import AgreedConsumer
from consumers.effects import epoch_of
from quadlog.clock import now
from quadlog.codec.envelope import EPOCH, MIRRORED, MIRRORED_FROM
from quadlog.core.model import START, LogPosition
from quadlog.core.records import Rewind
from quadlog.errors import SetupError, TopicLost
from quadlog.master.muted.followed_topics import FollowedTopics
from quadlog.master.muted.mirror import Mirror, next_offset
from quadlog.master.muted.muted_state import MutedState
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.master.workers.worker_watch import WorkerActions
from quadlog.topics import Topics
from tests.support.agreement.topics import (
    TERM,
    Topic,
    cut_behind,
    effect,
    effects_topic,
    fence,
    forked,
    new_consumer,
    rewinding,
    standing,
    topic_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from quadlog.ports import Record


def mirror(topic: Topic, at: int = 0) -> Mirror:
    return Mirror(topic, "own", source="dc1", at=at)


def with_a_cut() -> list[Record]:
    """A log that went back once, with big entries in chunks, and a record of another program."""
    before, after = forked()
    topic = Topic()
    topic.produce("agreed", key=b"x", values=[b"of another program"], headers=[("a", b"b")])
    topic.records += topic_of([*before, cut_behind(before[2], 2), *after[3:]])
    return numbered(topic.records)


def numbered(records: Sequence[Record]) -> list[Record]:
    topic = Topic()
    for record in records:
        topic.produce(record.topic, key=record.key, values=[record.value], headers=record.headers)
    return topic.records


def heard(records: Sequence[Record]) -> list[LogPosition]:
    """Where a worker is after each record that counts."""
    consumer, points = AgreedConsumer(START), list[LogPosition]()
    for record in records:
        if record.key != b"x" and consumer.on_record(record) is not None:
            points.append(consumer.last)
    return points


def test_copies_keep_all_and_say_what_they_are_copies_of() -> None:
    theirs, own = with_a_cut(), Topic()
    mirror(own).on_records(theirs)
    assert [(r.key, r.value, r.headers[:-2]) for r in own.records] == [
        (r.key, r.value, r.headers) for r in theirs
    ]
    assert [r.number(MIRRORED) for r in own.records] == list(range(len(theirs)))
    assert {r.header(MIRRORED_FROM) for r in own.records} == {b"dc1"}


def test_copies_of_copies_say_where_they_were_read() -> None:
    """And keep the epoch: who joins a stronger side copies effects, and those are copied here."""
    source = Topic()
    source.produce(
        "e", key=b"1", values=[b"v"], headers=[(EPOCH, b"3"), (MIRRORED, b"77"), (MIRRORED_FROM, b"dc2")]
    )
    own = Topic()
    mirror(own).on_records(source.records)
    (copy,) = own.records
    assert (copy.number(MIRRORED), copy.header(MIRRORED_FROM), epoch_of(copy)) == (0, b"dc1", 3)
    assert next_offset("own", own.records, source="dc1") == 1


@pytest.mark.parametrize("stop", range(1, 12))
def test_whoever_dies_anywhere_goes_on_and_all_is_there_once(stop: int) -> None:
    theirs, own = with_a_cut(), Topic()
    mirror(own).on_records(theirs[:stop])
    mirror(own, next_offset("own", own.records, source="dc1")).on_records(theirs)
    assert [r.value for r in own.records] == [r.value for r in theirs]


@pytest.mark.parametrize("stop", range(1, 12))
@pytest.mark.parametrize("late", range(1, 4))
def test_what_a_killed_one_had_in_flight_may_come_again_behind(stop: int, late: int) -> None:
    """Readers come to the same log, the next start goes on behind the furthest copy, and nothing is missing."""
    theirs, own = with_a_cut(), Topic()
    mirror(own).on_records(theirs[:stop])
    mirror(own, max(0, stop - late)).on_records(theirs[:stop])
    assert next_offset("own", own.records, source="dc1") == stop
    mirror(own, stop).on_records(theirs)
    assert heard(own.records)[-1] == heard(theirs)[-1]


def effects_with_a_rewind() -> list[Record]:
    """Two effects in chunks, back behind the first one, and two of the other side, in chunks, too."""
    return rewinding(
        (1, fence(1)),
        (1, effect(1, lines=1_200)),
        (1, effect(2, lines=1_200)),
        (2, Rewind(epoch=2, index=1, term=TERM, attempt=1, cut=2)),
        (2, fence(2)),
        (2, effect(2, attempt=2, branch="b", lines=1_200)),
        (2, effect(3, attempt=2, branch="b", before="b", lines=1_200)),
    )


THEIRS = effects_with_a_rewind()


@pytest.mark.parametrize("stop", range(1, len(THEIRS) + 1))
@pytest.mark.parametrize("late", range(1, 6))
def test_effects_in_chunks_that_come_again_are_heard_once(stop: int, late: int) -> None:
    """Also those of before a rewind, behind it."""
    own = Topic()
    mirror(own).on_records(THEIRS[:stop])
    mirror(own, max(0, stop - late)).on_records(THEIRS[:stop])
    assert next_offset("own", own.records, source="dc1") == stop
    mirror(own, stop).on_records(THEIRS)
    once, again = new_consumer(), new_consumer()
    assert standing(again, own.records) == standing(once, THEIRS)
    assert (again.index, again.order) == (once.index, once.order)
    assert once.index == 3


def test_the_furthest_copy_tells_not_the_last_one() -> None:
    """What was in flight came behind what its successor wrote."""
    theirs, own = with_a_cut(), Topic()
    mirror(own).on_records(theirs)
    mirror(own).on_records(theirs[:2])
    assert next_offset("own", own.records, source="dc1") == len(theirs)


def test_it_begins_at_the_beginning() -> None:
    assert next_offset("own", [], source="dc1") == 0


def test_another_source_is_refused() -> None:
    own = Topic()
    mirror(own).on_records(with_a_cut())
    with pytest.raises(SetupError, match=r"copied from dc1, and follow is dc2.*dc rebuild"):
        next_offset("own", own.records, source="dc2")


def test_what_is_no_copy_is_refused() -> None:
    with pytest.raises(SetupError, match=r"are no copies.*dc rebuild"):
        next_offset("own", with_a_cut(), source="dc1")


def test_topics_made_anew_are_told(tmp_path: Path) -> None:
    followed = FollowedTopics(tmp_path / "f.json")
    followed.recognise("theirs", "a", is_other=False)
    followed.note({"own": "b"})
    again = FollowedTopics(tmp_path / "f.json")
    again.refuse_others({"own": "b"}, ("own",))
    again.recognise("theirs", "a", is_other=False)
    for there, seen in (({}, "is gone"), ({"own": "c"}, "another topic")):
        with pytest.raises(TopicLost, match=seen):
            again.refuse_others(there, ("own",))
    for identity in ("c", None):
        with pytest.raises(TopicLost, match="theirs, which is followed, is"):
            again.recognise("theirs", identity, is_other=True)


def test_the_keeper_follows_cuts_and_effects() -> None:
    topics = Topics("main", "dc3")
    worker_actions = WorkerActions(knock=lambda _: None, mend=lambda _, __: None, sow=lambda _: None)
    keeper = MutedState(topics, WorkerRegistry(timeout_ms=1), worker_actions, source="dc1", max_lag_ms=1)
    theirs = with_a_cut()
    own, effects = Topic(), Topic()
    Mirror(own, topics.agreed, source="dc1", at=0).on_records(theirs)
    Mirror(effects, topics.effects, source="dc1", at=0).on_records(
        effects_topic(fence(1), *(effect(index) for index in range(1, 5)))
    )
    cut = next(number for number, record in enumerate(own.records) if record.key == b"cut")
    keeper.on_records(own.records[:cut])
    assert keeper.agreed > heard(theirs[: cut + 1])[-1].index
    keeper.on_records(own.records[cut : cut + 1])
    assert keeper.agreed == heard(theirs[: cut + 1])[-1].index
    keeper.on_records(own.records[cut + 1 :])
    keeper.on_records(effects.records)
    assert keeper.agreed == heard(theirs)[-1].index
    assert keeper.ledger.index == 4
    assert keeper.chain_at(4) == effect(4).entry_chain
    assert keeper.chain_at(9) is None


def test_when_the_source_is_lost_nothing_more_is_copied_and_that_is_told() -> None:
    topic = Topic()
    mirror = Mirror(topic, "own", source="dc1", at=0)
    records = with_a_cut()
    mirror.on_records(records[:2])
    mirror.stop()
    mirror.on_records(records[2:])
    assert len(topic.records) == 2
    worker_actions = WorkerActions(knock=lambda _: None, mend=lambda _, __: None, sow=lambda _: None)
    keeper = MutedState(
        Topics("main", "dc3"),
        WorkerRegistry(timeout_ms=1_000),
        worker_actions,
        source="dc1",
        max_lag_ms=1_000,
    )
    keeper.source_says({})
    keeper.source_lost("main.dc1.agreed, which is followed, is gone")
    keeper.source_lost("and more")
    keeper.check(now())
    assert [(alarm.trouble.name, alarm.trouble.reason) for alarm in keeper.alarms()] == [
        ("source-lost", "main.dc1.agreed, which is followed, is gone")
    ]
