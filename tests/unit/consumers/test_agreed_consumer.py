"""Which entries of the agreed topic follow, whoever said them again or half."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.agreed import AgreedConsumer
from quadlog import codec
from quadlog.core.model import START, LogPosition
from quadlog.core.records import LoggedEntry
from tests.support.agreement.topics import cut_behind, entries, forked, topic_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.records import Cut
    from quadlog.ports import Record


def heard(consumer: AgreedConsumer, records: Iterable[Record]) -> list[LoggedEntry | Cut]:
    return [said for record in records if (said := consumer.on_record(record))]


def test_entries_come_each_once_in_order() -> None:
    log = entries(5)
    assert heard(AgreedConsumer(START), topic_of(log)) == log
    # A master that was killed says again what it cannot know to be there; two masters both say it.
    assert heard(AgreedConsumer(START), topic_of([*log[:3], *log[1:4], *log[:1], *log])) == log


def test_a_worker_goes_on_behind_what_it_has() -> None:
    log = entries(5)
    last = LogPosition(log[2].index, log[2].chain)
    assert heard(AgreedConsumer(last), topic_of(log)) == log[3:]


def test_a_large_entry_comes_when_it_is_whole() -> None:
    log = entries(3, size=codec.CHUNK * 2 + 1)
    records = topic_of(log)
    assert len(records) == 9
    consumer = AgreedConsumer(START)
    assert [consumer.on_record(record) is not None for record in records] == [False, False, True] * 3
    torn = [*records[:2], *records]  # it was killed between two chunks
    assert heard(AgreedConsumer(START), torn) == log


def test_what_does_not_follow_is_passed_over_until_what_is_missing_comes() -> None:
    """Who leads follows the topic as everybody does, and says it again."""
    log, other = entries(5), entries(3, branch=b"other")
    consumer = AgreedConsumer(START)
    assert heard(consumer, topic_of([*log[:2], log[3], other[2]])) == log[:2]
    assert consumer.void == {"does not follow": 2}
    assert heard(consumer, topic_of(log)) == log[2:]


def test_behind_a_cut_the_other_log_follows() -> None:
    """Its writer says the fork and what stands behind it; what stood there before is passed over."""
    log, other = forked()
    cut = cut_behind(log[2], 2)
    consumer = AgreedConsumer(START)
    assert heard(consumer, topic_of([*log, cut, *other[3:]])) == [*log, cut, *other[3:]]
    assert (consumer.last, consumer.epoch) == (LogPosition(6, other[5].chain), 2)


@pytest.mark.parametrize("torn", range(4))
def test_two_masters_may_write_one_cut(torn: int) -> None:
    """The one that leads dies anywhere in what it writes, and the next one writes all of it again."""
    log, other = forked()
    cut = cut_behind(log[2], 2)
    said: list[LoggedEntry | Cut] = [cut, *other[3:]]
    again = [replace(entry, epoch=3) if isinstance(entry, LoggedEntry) else entry for entry in said]
    assert heard(AgreedConsumer(START), topic_of([*log, *said[:torn], *said])) == [*log, *said]
    indexes = [said.index for said in heard(AgreedConsumer(START), topic_of([*log, *said[:torn], *again]))]
    assert indexes == [*range(1, 7), 3, *range(4, 7)], "and if it has installed the next view since"


def test_a_writer_that_woke_up_behind_a_cut_is_void() -> None:
    """Whatever it has left to write: what is heard already, what follows the branch, what follows the fork."""
    log, other = forked(8)
    cut = cut_behind(log[2], 2)
    zombie = topic_of([*log[:3], log[3], *log[6:]])
    consumer = AgreedConsumer(START)
    records = [*topic_of([*log[:6], cut]), *zombie, *topic_of(other[3:5]), *zombie, *topic_of(other[5:])]
    assert heard(consumer, records) == [*log[:6], cut, *other[3:]]
    assert (
        heard(AgreedConsumer(LogPosition(5, other[4].chain), cut=2), [*zombie, *topic_of(other)]) == other[5:]
    )


def test_a_smaller_cut_is_void_and_a_greater_one_counts() -> None:
    log, other = forked()
    later = cut_behind(other[3], 4)
    consumer = AgreedConsumer(START)
    assert heard(consumer, topic_of([*log, cut_behind(log[2], 3), cut_behind(log[1], 2)])) == [
        *log,
        cut_behind(log[2], 3),
    ]
    third = [replace(entry, epoch=3) for entry in other[3:]]
    assert heard(consumer, topic_of(third)) == third
    fifth = replace(entries(6, branch=b"third", behind=other[3])[0], epoch=4)
    assert heard(consumer, topic_of([later, third[1], fifth])) == [later, fifth]


def test_a_cut_where_nothing_is_to_be_cut_keeps_smaller_epochs_out() -> None:
    """The side that gave way had nothing that the other one lacks."""
    log, other = forked()
    consumer = AgreedConsumer(START)
    cut = cut_behind(log[2], 2)
    assert heard(consumer, topic_of([*log[:3], cut, log[3]])) == [*log[:3], cut]
    assert (consumer.last, consumer.epoch) == (LogPosition(3, log[2].chain), 2)
    assert heard(consumer, topic_of([log[3], other[3]])) == other[3:4]


def test_a_cut_elsewhere_is_passed_over() -> None:
    log, other = forked()
    consumer = AgreedConsumer(START)
    assert heard(consumer, topic_of(log[:4])) == log[:4]
    assert heard(consumer, topic_of([cut_behind(log[4], 2), cut_behind(other[3], 2)])) == []
    assert consumer.void == {"cuts elsewhere": 2}
    assert heard(consumer, topic_of([cut_behind(log[2], 2), other[3]])) == [cut_behind(log[2], 2), other[3]]


@given(
    cuts=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 5)), max_size=5),
    at=st.data(),
)
def test_a_worker_that_is_started_again_anywhere_hears_what_it_would_have_heard(
    cuts: list[tuple[int, int, int]], at: st.DataObject
) -> None:
    """Cuts, the entries behind them, and before each of them and behind it a late writer of the epoch before."""
    log: list[LoggedEntry] = entries(3)
    said: list[LoggedEntry | Cut] = list(log)
    for epoch, (back, count, late) in enumerate(cuts, 2):
        before, fork = log, max(len(log) - back, 1)
        branch = b"epoch %d" % epoch
        log = [*log[:fork], *entries(fork + count, branch=branch, behind=log[fork - 1], epoch=epoch)]
        new = log[fork:]
        said += [
            cut_behind(log[fork - 1], epoch),
            *before[fork - 1 :][:late],
            *new[:1],
            *before[-late:],
            *new[1:],
        ]
    records = topic_of(said)
    whole, last = AgreedConsumer(START), {0: (START, 1)}
    for number, record in enumerate(records, 1):
        entry = whole.on_record(record)
        if isinstance(entry, LoggedEntry):
            last[number] = whole.last, entry.epoch
    assert whole.last == LogPosition(log[-1].index, log[-1].chain)
    behind = at.draw(st.sampled_from(sorted(last)))
    point, epoch = last[behind]
    again = AgreedConsumer(point, cut=epoch)
    for record in records[behind:]:
        again.on_record(record)
    assert again.last == whole.last
