"""Paths and branches of an agreed topic, and where two paths part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from consumers.agreed import AgreedRun
from consumers.recovery import Path, PathReader, common
from quadlog import codec
from quadlog.core.model import START, LogPosition, hash_of
from quadlog.core.records import Cut, LoggedEntry
from quadlog.ports import Record
from tests.support.whole_log import entry, log_of

if TYPE_CHECKING:
    from collections.abc import Iterable

OTHER = hash_of(b"other view")


def records(said: Iterable[LoggedEntry | Cut]) -> list[Record]:
    values = [
        value
        for one in said
        for value in (codec.encode_entry(one) if isinstance(one, LoggedEntry) else [codec.encode(one)])
    ]
    return [Record("agreed", offset, b"", value, []) for offset, value in enumerate(values)]


def read(said: Iterable[LoggedEntry | Cut]) -> PathReader:
    reader = PathReader()
    for record in records(said):
        reader.on_record(record)
    return reader


def at(one: LoggedEntry) -> LogPosition:
    return LogPosition(one.index, one.chain)


def cut_to(one: LoggedEntry, epoch: int) -> Cut:
    return Cut(epoch=epoch, lineage=OTHER, index=one.index, chain=one.chain)


def test_a_path_knows_the_record_of_each_entry() -> None:
    log = log_of(5)
    reader = read(log)
    assert reader.path.last == at(log[-1])
    assert [reader.path.offset_of(index) for index in range(1, 6)] == [0, 1, 2, 3, 4]
    assert len(reader.path.stretches) == 1
    assert (0 in reader.path, 1 in reader.path, 5 in reader.path, 6 in reader.path) == (
        False,
        True,
        True,
        False,
    )


def test_what_two_masters_wrote_twice_is_not_on_the_path_twice() -> None:
    log = log_of(4)
    reader = read([log[0], log[1], log[1], log[3], log[2], log[3]])
    assert reader.path.last == at(log[3])
    assert [reader.path.offset_of(index) for index in range(1, 5)] == [0, 1, 4, 5]


def test_an_entry_in_chunks_is_found_at_its_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadlog.codec.transactions.CHUNK", 10)
    log = [entry(None, "a text of more than ten bytes")]
    log.append(entry(log[0], "short"))
    reader = read(log)
    assert [reader.path.offset_of(1), reader.path.offset_of(2)] == [2, 3]


def test_a_cut_leaves_a_branch_with_all_before_it() -> None:
    log = log_of(3)
    ended = log_of(2, log[-1])
    then = log_of(4, log[-1], text="x", view=OTHER, epoch=2)
    reader = read([*log, *ended, cut_to(log[-1], 2), *then])
    [branch] = reader.branches
    assert (branch.fork, branch.epoch, branch.path.last) == (at(log[-1]), 2, at(ended[-1]))
    assert [branch.path.offset_of(index) for index in range(1, 6)] == [0, 1, 2, 3, 4]
    assert reader.path.last == at(then[-1])
    assert [reader.path.offset_of(index) for index in range(1, 8)] == [0, 1, 2, 6, 7, 8, 9]
    assert reader.path.newest_before(2) == 3


def test_a_cut_that_ends_nothing_leaves_no_branch() -> None:
    log = log_of(3)
    reader = read([*log, cut_to(log[-1], 2), *log_of(1, log[-1], view=OTHER, epoch=2)])
    assert reader.branches == []
    assert reader.path.last.index == 4


def test_a_second_cut_leaves_a_second_branch() -> None:
    log = log_of(2)
    one, two = log_of(2, log[-1]), log_of(3, log[-1], text="b", view=OTHER, epoch=2)
    reader = read([*log, *one, cut_to(log[-1], 2), *two, cut_to(two[0], 3)])
    assert [(found.fork.index, found.path.last.index) for found in reader.branches] == [(2, 4), (3, 5)]
    assert reader.path.last == at(two[0])


def test_a_shortened_topic_begins_with_its_first_entry() -> None:
    log = log_of(6)
    reader = read(log[3:])
    assert reader.path.before == at(log[2])
    assert 3 not in reader.path
    assert reader.path.offset_of(4) == 0


def test_a_run_is_read_as_its_entries_are() -> None:
    log = log_of(8)
    reader = PathReader()
    run = AgreedRun(offset=0, first=1, last=5, epoch=1, previous=START.chain, chain=log[4].chain)
    assert reader.on_run(run)
    for record in records(log)[5:]:
        reader.on_record(record)
    whole = read(log)
    assert reader.path.stretches == whole.path.stretches
    assert reader.path.last == whole.path.last


def test_a_run_of_which_a_part_is_known_is_read_one_by_one() -> None:
    log = log_of(8)
    reader = read(log[:3])
    assert not reader.on_run(
        AgreedRun(offset=3, first=2, last=6, epoch=1, previous=log[0].chain, chain=log[5].chain)
    )


@pytest.mark.parametrize("fork", range(6))
def test_two_paths_have_in_common_what_is_before_their_fork(fork: int) -> None:
    log = log_of(fork)
    last = log[-1] if log else None
    logs = [[*log, *log_of(length, last, text=name)] for length, name in ((7, "a"), (4, "b"))]
    paths = [read(one).path for one in logs]
    asked = list[int]()

    def chain_of(path: Path, index: int) -> bytes:
        asked.append(index)
        return logs[paths.index(path)][index - 1].chain

    assert common(paths[0], paths[1], chain_of) == (at(log[-1]) if log else START)
    assert len(asked) <= 2 * 5


def test_a_path_that_is_a_beginning_of_the_other_has_all_of_it_in_common() -> None:
    log = log_of(9)
    paths = read(log).path, read(log[:4]).path
    assert common(*paths, lambda _, index: log[index - 1].chain) == at(log[3])


def test_of_a_path_that_begins_behind_the_fork_nothing_is_known() -> None:
    log = log_of(2)
    logs = [[*log, *log_of(6, log[-1], text=name)] for name in ("a", "b")]
    whole, short = read(logs[0]).path, read(logs[1][4:]).path

    def chain_of(path: Path, index: int) -> bytes:
        assert index in path, "what is not in the topic cannot be read"
        return logs[path is short][index - 1].chain

    assert common(whole, short, chain_of) is None
    assert common(read(log).path, short, chain_of) is None
