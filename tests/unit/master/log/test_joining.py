"""A stronger side's log is read beside the own one: from the fork on, whole, and anew where something does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from quadlog.core.model import START, HardState, LogPosition, View, first_view
from quadlog.master.log.joining import AGAIN_MS, ForkFound, JoinedSide, Joining, JoiningPorts, fork_of
from quadlog.ports import Record
from tests.support.agreement.topics import cut_behind, entries, forked, topic_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.messages import JoinedLogRead
    from quadlog.core.records import Cut, LoggedEntry
    from quadlog.masterstore.staged_log import StagedLog

MASTERS = {"m1": "dc1", "m1b": "dc1", "m2": "dc2", "m3": "dc3"}
STRONGER = View(epoch=3, members=("m2", "m3"), parent=first_view(MASTERS).id, home="dc2")
OWN, THEIRS = forked(6, at=3)
FORK = LogPosition(3, OWN[2].chain)


class Branch:
    """What was read, as the agreement sees it."""

    def __init__(self, fork: LogPosition, own: LogPosition, read: Sequence[LogPosition]) -> None:
        self.fork, self.own, self.last = fork, own, read[-1] if read else fork
        self._read = read

    def chain_at(self, index: int) -> bytes | None:
        if index <= self.fork.index:
            return OWN[index - 1].chain
        return next((one.chain for one in self._read if one.index == index), None)


class Rig:
    """Agreement and store, as far as joining knows them."""

    def __init__(self) -> None:
        self.node, self.last = "m1", LogPosition(6, OWN[5].chain)
        self.standing = HardState(view=first_view(MASTERS), joining=STRONGER)
        self.told: list[LogPosition] = []
        self.began: list[tuple[LogPosition, bytes, LogPosition]] = []
        self.kept: list[int] = []
        self.read: list[LogPosition] = []
        self.asked: list[tuple[str, int | None]] = []
        self.wanted: list[JoinedSide] = []
        self.joining = Joining(
            cast("Agreement", self),
            cast("StagedLog", self),
            MASTERS,
            JoiningPorts(
                find=self.wanted.append,
                read=lambda dc, offset: self.asked.append((dc, offset)),
                leave=lambda dc: self.asked.append((dc, None)),
            ),
        )

    # As the agreement
    def step(self, given: JoinedLogRead, now: object) -> None:
        del now
        self.told.append(given.joined_log.last)

    # As the store
    def entry(self, index: int) -> tuple[bytes, None] | None:
        return (OWN[index - 1].chain, None) if index <= len(OWN) else None

    def begin(self, fork: LogPosition, view: bytes, own: LogPosition) -> None:
        self.began.append((fork, view, own))
        self.read = list[LogPosition]()

    def add(self, read: Sequence[LoggedEntry]) -> None:
        for entry in read:
            last = self.joined_log().last
            assert (entry.index, entry.previous) == (last.index + 1, last.chain)
            self.kept.append(entry.index)
            self.read.append(LogPosition(entry.index, entry.chain))

    def truncate(self, index: int) -> None:
        self.read = [point for point in self.read if point.index <= index]

    def joined_log(self) -> Branch:
        return Branch(self.began[-1][0], self.began[-1][2], [*self.read])

    def found(self, fork: LogPosition = FORK, offset: int = 3, cut: int = 1) -> None:
        self.joining.found(ForkFound(joined=self.wanted[-1], fork=fork, offset=offset, cut=cut))

    def hear(self, *records: Record) -> None:
        for record in records:
            self.joining.on_record("dc2", record)
        self.joining.note()


def test_what_stands_behind_the_fork_is_kept_and_told() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    assert [(joined.view, joined.dc, joined.own.index) for joined in rig.wanted] == [(STRONGER, "dc2", 6)]
    rig.found()
    assert rig.asked == [("dc2", 3)]
    assert rig.began == [(LogPosition(3, OWN[2].chain), STRONGER.id, rig.last)]
    assert rig.joining.fork == LogPosition(3, OWN[2].chain)
    records = topic_of(THEIRS)
    rig.hear(*records[4:], *records[3:5])
    assert (rig.kept, rig.told[-1]) == ([4, 5], LogPosition(5, THEIRS[4].chain)), "each in its turn"
    rig.hear(*records)
    assert rig.kept == [4, 5, 6]
    rig.hear()
    assert [point.index for point in rig.told] == [3, 5, 6], "nothing new, nothing told"


def test_who_was_let_in_or_asks_nobody_any_more_reads_no_more() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    rig.standing = HardState(view=STRONGER)
    rig.joining.tick(1.0)
    assert rig.asked == [("dc2", 3), ("dc2", None)]
    rig.hear(*topic_of(THEIRS)[3:])
    assert (rig.kept, rig.joining.fork) == ([], None)


@pytest.mark.parametrize("what", ["another side", "the own log grew"])
def test_for_another_side_or_another_own_log_it_begins_anew(what: str) -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    if what == "another side":
        other = View(epoch=4, members=("m3",), parent=STRONGER.id, home="dc3")
        rig.standing = HardState(view=first_view(MASTERS), joining=other)
    else:
        rig.last = LogPosition(7, bytes(32))
    rig.joining.tick(1.0)
    assert rig.asked[-1] == ("dc2", None)
    assert len(rig.wanted) == 2
    assert (rig.wanted[1].view, rig.wanted[1].own) == (rig.standing.joining, rig.last)
    assert rig.joining.fork is None


def test_where_no_fork_is_found_another_data_centre_is_asked() -> None:
    rig = Rig()
    for number, dc in enumerate(("dc2", "dc3", "dc2")):
        rig.joining.tick(number * AGAIN_MS)
        rig.joining.tick(number * AGAIN_MS + 1)
        rig.joining.tick((number + 1) * AGAIN_MS - 1)
        assert [joined.dc for joined in rig.wanted][number:] == [dc], "one question at a time"
        rig.joining.found(ForkFound(joined=rig.wanted[-1], fork=None))
    assert rig.began == []


def test_who_is_out_of_reach_is_not_waited_for() -> None:
    """Its side is heard by way of another data centre, which has the log, too."""
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    rig.joining.tick(1.0, unheard=["dc2"])
    assert rig.asked == [("dc2", 3), ("dc2", None)]
    assert [joined.dc for joined in rig.wanted] == ["dc2", "dc3"]
    rig.found()
    rig.joining.tick(2.0, unheard=["dc2"])
    rig.joining.tick(3.0)
    assert rig.asked[2:] == [("dc3", 3)], "and it stays there"
    rig.joining.tick(4.0, unheard=["dc2", "dc3"])
    assert rig.asked[3:] == [], "nobody else is left"


def test_a_mate_that_stands_apart_is_read_in_the_own_topic() -> None:
    rig = Rig()
    alone = View(epoch=4, members=("m1b",), parent=first_view(MASTERS).id, home="dc1")
    rig.standing = HardState(view=first_view(MASTERS), joining=alone)
    rig.joining.tick(0.0)
    assert [joined.dc for joined in rig.wanted] == ["dc1"]


def test_a_late_answer_for_another_question_is_passed_over() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.last = LogPosition(7, bytes(32))
    rig.joining.tick(AGAIN_MS)
    rig.joining.found(ForkFound(joined=rig.wanted[0], fork=START))
    assert rig.began == []


@pytest.mark.parametrize("behind", [2, 3, 4])
@pytest.mark.parametrize("turn", [1, 2, 3, 100])
def test_a_side_that_gave_way_behind_the_fork_is_read_without_another_search(behind: int, turn: int) -> None:
    """A search would find the same fork, and the same cut, without end."""
    after = entries(8, branch=b"after", behind=THEIRS[behind], epoch=5)
    records = topic_of([*THEIRS, cut_behind(THEIRS[behind], 5), *after, cut_behind(after[0], 7), *after[1:]])
    later = topic_of([cut_behind(after[0], 7), *entries(9, branch=b"later", behind=after[0], epoch=7)])
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    for number in range(3, len(records), turn):
        rig.hear(*records[number : number + turn])
        rig.joining.tick(number + 1.0)
    rig.hear(*(replace(record, offset=len(records) + at) for at, record in enumerate(later[1:])))
    assert (len(rig.wanted), len(rig.asked)) == (1, 1)
    theirs = [*THEIRS[3 : behind + 1], after[0], *entries(9, branch=b"later", behind=after[0], epoch=7)]
    assert rig.read == [LogPosition(entry.index, entry.chain) for entry in theirs]
    assert rig.told[-1] == rig.read[-1]
    assert rig.joining.fork == FORK


@pytest.mark.parametrize("stored", ["stored", "read in the same turn"])
@pytest.mark.parametrize("entry", [OWN[1], THEIRS[1], entries(4, branch=b"x")[3], entries(5, branch=b"x")[4]])
def test_behind_a_cut_that_does_not_fit_the_fork_is_looked_for_again(entry: LoggedEntry, stored: str) -> None:
    """Before the fork, or of a log that is not the one which was read."""
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    records = topic_of([*THEIRS[:6], cut_behind(entry, 5)])
    if stored == "stored":
        rig.hear(*records[3:6])
    rig.hear(*records[6 if stored == "stored" else 3 :])
    assert rig.asked[-1] == ("dc2", None)
    rig.joining.tick(1.0)
    assert len(rig.wanted) == 2


def test_a_cut_is_told_although_nothing_follows_it() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    records = topic_of([*THEIRS, cut_behind(THEIRS[3], 5)])
    rig.hear(*records[3:6])
    rig.hear(records[6])
    assert [point.index for point in rig.told] == [3, 6, 4]


def test_a_cut_at_the_fork_that_was_found_in_this_turn_is_no_reason_to_search() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    more = entries(7, branch=b"more", behind=OWN[4], epoch=5)
    rig.hear(*topic_of([*OWN[:5], cut_behind(OWN[4], 5), *more])[3:])
    assert (rig.joining.fork, len(rig.wanted)) == (LogPosition(5, OWN[4].chain), 1)
    assert rig.kept == [6, 7]


def test_what_is_the_own_log_behind_a_cut_at_the_fork_moves_the_fork() -> None:
    """They gave way to a side that has more of the own log."""
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    own = [replace(entry, epoch=5) for entry in OWN[3:5]]
    rig.hear(*topic_of([*THEIRS, cut_behind(OWN[2], 5), *own])[3:])
    assert (rig.joining.fork, rig.read, len(rig.wanted)) == (LogPosition(5, OWN[4].chain), [], 1)


@pytest.mark.parametrize("turn", [1, 100])
def test_a_side_that_gave_way_at_the_fork_is_read_without_another_search(turn: int) -> None:
    """What a writer says late, that stood on what was cut there, is void."""
    late = entries(4, branch=b"late", behind=OWN[2])
    after = entries(6, branch=b"after", behind=OWN[2], epoch=5)
    records = topic_of([*THEIRS, cut_behind(OWN[2], 5), *late[-1:], *after])
    rig = Rig()
    rig.joining.tick(0.0)
    found = fork_of(records, rig.last, lambda index: OWN[index - 1].chain)
    assert found is not None
    rig.found(*found)
    for number in range(found[1], len(records), turn):
        rig.hear(*records[number : number + turn])
        rig.joining.tick(number + 1.0)
    assert (rig.kept, len(rig.wanted)) == ([4, 5, 6], 1)
    assert rig.told[-1] == LogPosition(6, after[-1].chain)


@pytest.mark.parametrize("turn", [1, 2, 100])
def test_the_fork_moves_forward_where_their_topic_lags_behind_both_logs(turn: int) -> None:
    """Else own entries that they have, too, would give way, and their payloads are not kept any more."""
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    more = entries(8, branch=b"more", behind=OWN[4], epoch=2)
    records = topic_of([*OWN[:5], *more])
    for number in range(3, len(records), turn):
        rig.hear(*records[number : number + turn])
    assert rig.began[-1] == (LogPosition(5, OWN[4].chain), STRONGER.id, rig.last)
    assert rig.joining.fork == LogPosition(5, OWN[4].chain)
    assert rig.kept == [6, 7, 8]
    assert rig.told[-1] == LogPosition(8, more[-1].chain)


def test_who_is_let_in_within_a_turn_keeps_what_was_read() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    rig.standing = HardState(view=STRONGER)
    rig.hear(*topic_of(OWN)[3:])
    assert [point.index for point, _, _ in rig.began] == [3]


def test_the_fork_is_the_last_entry_of_both() -> None:
    own = LogPosition(6, OWN[5].chain)

    def fork(*said: LoggedEntry | Cut) -> tuple[int, int, int] | None:
        found = fork_of(topic_of(said), own, lambda index: OWN[index - 1].chain)
        return None if found is None else (found[0].index, *found[1:])

    assert fork(*THEIRS) == (3, 3, 1)
    assert fork(*THEIRS[3:]) is None
    assert fork(*OWN, *entries(9)[6:]) == (6, 6, 1), "they have more, and all of the own log"
    assert fork(*THEIRS[:5], *THEIRS[:5]) == (3, 3, 1), "said again"
    assert fork(*OWN[:5], cut_behind(OWN[2], 2), *THEIRS[3:]) == (3, 6, 2), "they gave way themselves"
    assert fork(*OWN[:5], cut_behind(OWN[2], 2), *OWN[3:]) == (6, 9, 2), "and came back"
    assert fork(*THEIRS, cut_behind(THEIRS[3], 4)) == (3, 3, 1), (
        "that cut is heard, as the entry that it leaves"
    )
    other = cut_behind(entries(3, branch=b"x")[2], 4)
    assert fork(*OWN[:3], other) == (3, 3, 1), "a cut of another log"


def test_the_fork_is_behind_all_chunks_of_an_entry() -> None:
    log = entries(2, size=1_200_000)
    records = topic_of(log)
    found = fork_of(records, LogPosition(1, log[0].chain), lambda _: log[0].chain)
    assert found == (LogPosition(1, log[0].chain), len(records) // 2, 1)


@pytest.mark.parametrize(("key", "value"), [
    (b"", b"x"), (b"order-7", b"x"), (b"3", b"x"), (b"9" * 5000, b"x"), (b"cut", b"x"), (b"\xff", b""),
])  # fmt: skip
def test_what_another_program_wrote_is_passed_over(key: bytes, value: bytes) -> None:
    """And told of once, however much there is of it."""
    strange = Record("agreed", 0, key, value, [])
    records = [strange, *topic_of(THEIRS), strange]
    with capture_logs() as logs:
        found = fork_of(records, LogPosition(6, OWN[5].chain), lambda index: OWN[index - 1].chain)
    assert found == (FORK, 3, 1)
    assert [line["event"] for line in logs] == ["record_skipped"]


def test_in_a_topic_that_was_made_anew_the_fork_is_looked_for_again() -> None:
    rig = Rig()
    rig.joining.tick(0.0)
    rig.found()
    rig.joining.begin_again("dc3")
    assert rig.asked == [("dc2", 3)], "another one's is nothing to it"
    rig.joining.begin_again("dc2")
    rig.hear(*topic_of(THEIRS)[3:])
    assert (rig.asked[-1], rig.kept) == (("dc2", None), [])
    rig.joining.tick(1.0)
    assert len(rig.wanted) == 2
