"""A stronger side's log is read beside the own one: from the fork on, whole, and anew where something does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from structlog.testing import capture_logs

from quadlog.core.model import START, Point, Standing, View, first_view
from quadlog.master.joining import AGAIN_MS, Forked, Joined, Joining, Reach, fork_of
from quadlog.ports import Record
from tests.support.agreement.topics import cut_behind, entries, forked, topic_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.beside import Beside
    from quadlog.core.agreement import Agreement
    from quadlog.core.messages import Followed
    from quadlog.core.records import Cut, LoggedEntry

MASTERS = {"m1": "dc1", "m1b": "dc1", "m2": "dc2", "m3": "dc3"}
STRONGER = View(epoch=3, members=("m2", "m3"), parent=first_view(MASTERS).id, home="dc2")
OWN, THEIRS = forked(6, at=3)
FORK = Point(3, OWN[2].chain)


def point_of(entry: LoggedEntry) -> Point:
    return Point(entry.index, entry.chain)


class Branch:
    """What was read, as the agreement sees it."""

    def __init__(self, fork: Point, own: Point, read: Sequence[LoggedEntry]) -> None:
        self.fork, self.own = fork, own
        self.last = point_of(read[-1]) if read else fork
        self._chains = {entry.index: entry.chain for entry in (*OWN[: fork.index], *read)}

    def chain_at(self, index: int) -> bytes | None:
        return self._chains.get(index)


class Rig:
    """Agreement and store, as far as joining knows them."""

    def __init__(self) -> None:
        self.node, self.last = "m1", Point(6, OWN[5].chain)
        self.standing = Standing(view=first_view(MASTERS), joining=STRONGER)
        self.told: list[Point] = []
        self.began: list[tuple[Point, bytes, Point]] = []
        self._read: list[LoggedEntry] = []
        self.asked: list[tuple[str, int | None]] = []
        self.wanted: list[Joined] = []
        self.joining = Joining(
            cast("Agreement", self),
            cast("Beside", self),
            MASTERS,
            Reach(
                find=self.wanted.append,
                read=lambda dc, offset: self.asked.append((dc, offset)),
                leave=lambda dc: self.asked.append((dc, None)),
            ),
        )

    # As the agreement
    def step(self, given: Followed, now: object) -> None:
        del now
        self.told.append(given.branch.last)

    # As the store
    def begin(self, fork: Point, view: bytes, own: Point) -> None:
        self.began.append((fork, view, own))
        self._read = []

    def add(self, read: Sequence[LoggedEntry]) -> None:
        self._read += read

    def cut(self, last: Point) -> None:
        self._read = [entry for entry in self._read if entry.index <= last.index]

    def branch(self) -> Branch:
        return Branch(self.began[-1][0], self.began[-1][2], self._read)

    @property
    def kept(self) -> list[int]:
        return [entry.index for entry in self._read]

    @property
    def chains(self) -> list[bytes]:
        """Of what is kept."""
        return [entry.chain for entry in self._read]

    def found(self, fork: Point = FORK, offset: int = 3) -> None:
        self.joining.found(Forked(joined=self.wanted[-1], fork=fork, offset=offset))

    def hear(self, *records: Record) -> None:
        for record in records:
            self.joining.hear("dc2", record)
        self.joining.note()


def test_what_stands_behind_the_fork_is_kept_and_told() -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    assert [(joined.view, joined.dc, joined.own.index) for joined in rig.wanted] == [(STRONGER, "dc2", 6)]
    rig.found()
    assert rig.asked == [("dc2", 3)]
    assert rig.began == [(FORK, STRONGER.id, rig.last)]
    assert rig.joining.fork == FORK
    records = topic_of(THEIRS)
    rig.hear(*records[4:], *records[3:5])
    assert (rig.kept, rig.told[-1]) == ([4, 5], point_of(THEIRS[4])), "each in its turn"
    rig.hear(*records)
    assert rig.kept == [4, 5, 6]
    rig.hear()
    assert [point.index for point in rig.told] == [3, 5, 6], "nothing new, nothing told"


def test_who_was_let_in_or_asks_nobody_any_more_reads_no_more() -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    rig.standing = Standing(view=STRONGER)
    rig.joining.tend(1.0)
    assert rig.asked == [("dc2", 3), ("dc2", None)]
    rig.hear(*topic_of(THEIRS)[3:])
    assert (rig.kept, rig.joining.fork) == ([], None)


@pytest.mark.parametrize("what", ["another side", "the own log grew"])
def test_for_another_side_or_another_own_log_it_begins_anew(what: str) -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    if what == "another side":
        other = View(epoch=4, members=("m3",), parent=STRONGER.id, home="dc3")
        rig.standing = Standing(view=first_view(MASTERS), joining=other)
    else:
        rig.last = Point(7, bytes(32))
    rig.joining.tend(1.0)
    assert rig.asked[-1] == ("dc2", None)
    assert len(rig.wanted) == 2
    assert (rig.wanted[1].view, rig.wanted[1].own) == (rig.standing.joining, rig.last)
    assert rig.joining.fork is None


def test_where_no_fork_is_found_another_data_centre_is_asked() -> None:
    rig = Rig()
    for number, dc in enumerate(("dc2", "dc3", "dc2")):
        rig.joining.tend(number * AGAIN_MS)
        rig.joining.tend(number * AGAIN_MS + 1)
        rig.joining.tend((number + 1) * AGAIN_MS - 1)
        assert [joined.dc for joined in rig.wanted][number:] == [dc], "one question at a time"
        rig.joining.found(Forked(joined=rig.wanted[-1], fork=None))
    assert rig.began == []


def test_who_is_out_of_reach_is_not_waited_for() -> None:
    """Its side is heard by way of another data centre, which has the log, too."""
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    rig.joining.tend(1.0, unheard=["dc2"])
    assert rig.asked == [("dc2", 3), ("dc2", None)]
    assert [joined.dc for joined in rig.wanted] == ["dc2", "dc3"]
    rig.found()
    rig.joining.tend(2.0, unheard=["dc2"])
    rig.joining.tend(3.0)
    assert rig.asked[2:] == [("dc3", 3)], "and it stays there"
    rig.joining.tend(4.0, unheard=["dc2", "dc3"])
    assert rig.asked[3:] == [], "nobody else is left"


def test_a_mate_that_stands_apart_is_read_in_the_own_topic() -> None:
    rig = Rig()
    alone = View(epoch=4, members=("m1b",), parent=first_view(MASTERS).id, home="dc1")
    rig.standing = Standing(view=first_view(MASTERS), joining=alone)
    rig.joining.tend(0.0)
    assert [joined.dc for joined in rig.wanted] == ["dc1"]


def test_a_late_answer_for_another_question_is_passed_over() -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    rig.last = Point(7, bytes(32))
    rig.joining.tend(AGAIN_MS)
    rig.joining.found(Forked(joined=rig.wanted[0], fork=START))
    assert rig.began == []


AGAIN = entries(7, branch=b"again", behind=THEIRS[4], epoch=5)
"""What follows a cut behind their fifth entry."""
ONCE_MORE = entries(8, branch=b"once more", behind=THEIRS[3], epoch=6)
FROM_FORK = entries(6, branch=b"from the fork", behind=OWN[2], epoch=5)


@pytest.mark.parametrize("turn", [1, 2, 100])
@pytest.mark.parametrize(
    ("said", "log"),
    [
        pytest.param(
            [*THEIRS, cut_behind(THEIRS[4], 5), *AGAIN], [*THEIRS[3:5], *AGAIN], id="behind an entry"
        ),
        pytest.param([*THEIRS, cut_behind(THEIRS[5], 5)], THEIRS[3:], id="behind the last one"),
        pytest.param([*THEIRS, cut_behind(OWN[2], 5), *FROM_FORK], FROM_FORK, id="behind the fork"),
        pytest.param([*OWN, cut_behind(OWN[2], 2), *THEIRS[3:]], THEIRS[3:], id="before they parted"),
        pytest.param(
            [
                *THEIRS[:5],
                cut_behind(THEIRS[4], 5),
                *AGAIN,
                cut_behind(THEIRS[3], 6),
                AGAIN[-1],  # of a writer that woke up late
                *ONCE_MORE,
            ],
            [THEIRS[3], *ONCE_MORE],
            id="twice",
        ),
    ],
)
def test_a_cut_truncates_what_was_read(
    said: list[LoggedEntry | Cut], log: list[LoggedEntry], turn: int
) -> None:
    """The fork is searched for once: the offset that it gives stands before the cut."""
    rig, records = Rig(), topic_of(said)
    rig.joining.tend(0.0)
    found = fork_of(records, rig.last, lambda index: OWN[index - 1].chain)
    assert found is not None
    rig.found(*found)
    behind = records[found[1] :]
    for number in range(0, len(behind), turn):
        rig.hear(*behind[number : number + turn])
        rig.joining.tend(number + 1.0)
    assert (rig.chains, len(rig.wanted)) == ([entry.chain for entry in log], 1)
    assert rig.told[-1] == point_of(log[-1])


def test_a_cut_is_told_once_its_turn_is_over() -> None:
    """Within a turn the agreement may decide to take what was read: then it is not changed any more."""
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    rig.hear(*topic_of(THEIRS)[3:])
    cut = topic_of([*THEIRS, cut_behind(THEIRS[4], 5)])[-1]
    told = len(rig.told)
    rig.joining.hear("dc2", cut)
    assert len(rig.told) == told
    rig.joining.note()
    assert (rig.kept, rig.told[told:]) == ([4, 5], [point_of(THEIRS[4])])


def test_who_is_let_in_within_a_turn_keeps_what_was_read() -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    rig.hear(*topic_of(THEIRS)[3:])
    rig.standing = Standing(view=STRONGER)
    rig.hear(topic_of([*THEIRS, cut_behind(THEIRS[4], 5)])[-1])
    assert rig.kept == [4, 5, 6]
    again = Rig()
    again.joining.tend(0.0)
    again.standing = Standing(view=STRONGER)
    again.found()
    assert again.began == [], "nor is it forgotten for a fork that is found late"


@pytest.mark.parametrize("cut", [cut_behind(OWN[1], 5), cut_behind(entries(5, branch=b"x")[4], 5)])
def test_a_cut_before_the_fork_or_of_another_log_has_it_begin_anew(cut: Cut) -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    rig.hear(*topic_of([*THEIRS, cut])[3:])
    assert rig.asked[-1] == ("dc2", None)
    rig.joining.tend(1.0)
    assert len(rig.wanted) == 2


def test_the_fork_is_the_last_entry_of_both() -> None:
    own = Point(6, OWN[5].chain)

    def fork(*said: LoggedEntry | Cut) -> tuple[int, int] | None:
        found = fork_of(topic_of(said), own, lambda index: OWN[index - 1].chain)
        return None if found is None else (found[0].index, found[1])

    assert fork(*THEIRS) == (3, 3)
    assert fork(*THEIRS[3:]) is None
    assert fork(*OWN, *entries(9)[6:]) == (6, 6), "they have more, and all of the own log"
    assert fork(*THEIRS[:5], *THEIRS[:5]) == (3, 3), "said again"
    assert fork(*OWN[:5], cut_behind(OWN[2], 2), *THEIRS[3:]) == (3, 3), "they gave way themselves"


def test_the_fork_is_behind_all_chunks_of_an_entry() -> None:
    log = entries(2, size=1_200_000)
    records = topic_of(log)
    found = fork_of(records, Point(1, log[0].chain), lambda _: log[0].chain)
    assert found == (Point(1, log[0].chain), len(records) // 2)


@pytest.mark.parametrize(("key", "value"), [
    (b"", b"x"), (b"order-7", b"x"), (b"3", b"x"), (b"9" * 5000, b"x"), (b"cut", b"x"), (b"\xff", b""),
])  # fmt: skip
def test_what_another_program_wrote_is_passed_over(key: bytes, value: bytes) -> None:
    """And told of once, however much there is of it."""
    strange = Record("agreed", 0, key, value, [])
    records = [strange, *topic_of(THEIRS), strange]
    with capture_logs() as logs:
        found = fork_of(records, Point(6, OWN[5].chain), lambda index: OWN[index - 1].chain)
    assert found == (Point(3, OWN[2].chain), 3)
    assert [line["event"] for line in logs] == ["record_skipped"]


def test_in_a_topic_that_was_made_anew_the_fork_is_looked_for_again() -> None:
    rig = Rig()
    rig.joining.tend(0.0)
    rig.found()
    rig.joining.begin_again("dc3")
    assert rig.asked == [("dc2", 3)], "another one's is nothing to it"
    rig.joining.begin_again("dc2")
    rig.hear(*topic_of(THEIRS)[3:])
    assert (rig.asked[-1], rig.kept) == (("dc2", None), [])
    rig.joining.tend(1.0)
    assert len(rig.wanted) == 2
