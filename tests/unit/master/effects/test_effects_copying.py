"""Which effects a data centre copies, from where on, and what it says before."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror
from quadlog import codec
from quadlog.clock import wall
from quadlog.codec.envelope import (
    ATTEMPT,
    CHUNKS,
    EPOCH,
    EVALUATED_IN,
    HANDOVER,
    INDEX,
    MIRRORED,
    MIRRORED_FROM,
    REWIND,
    TERM,
)
from quadlog.core.model import GENESIS, EffectsPosition, View, first_view, hash_of
from quadlog.core.records import Effect, Fence, Handover, Outcome, Rewind, Seed, Term
from quadlog.errors import ForeignRecord
from quadlog.master.effects.duty import Duty
from quadlog.master.effects.effects_copying import (
    CopiedPart,
    CopyingPorts,
    CopyStart,
    CopyStartQuery,
    EffectsCopying,
)
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Acked, Headers

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
VIEW = first_view(MASTERS)
FIRST = Handover(index=0, term=VIEW.id, dc="dc1")
LATER = View(epoch=2, members=("m2", "m3"), parent=VIEW.id, home="dc2")


class Rig:
    """One data centre's copying.  What it copies is in its own topic at once, and heard there."""

    def __init__(self, dc: str, *, index: int = 0) -> None:
        self.dc = dc
        self.asked: list[tuple[str, int | None]] = []
        self.wanted: list[CopyStartQuery] = []
        self.topic: list[Record] = []
        self.ledger = EffectsLedger(duty=FIRST, index=index, attempt=1)
        mirror = EffectsMirror(self, f"main.{dc}.effects", "m")
        self.copying = EffectsCopying(
            dc=dc,
            ledger=self.ledger,
            mirror=mirror,
            reach=CopyingPorts(
                find=self.wanted.append,
                read=lambda dc, offset: self.asked.append((dc, offset)),
                leave=lambda dc: self.asked.append((dc, None)),
                newest_cut=lambda: 4,
                settle=lambda: None,
                keeps_branches=lambda: self.keeps,
            ),
        )
        self.keeps = False
        """Whether workers keep what they applied of a branch."""
        self.duty = Duty(
            dc=dc, view=VIEW, dcs=MASTERS.values(), agreed=FIRST, ledger=self.ledger,
            worker_registry=WorkerRegistry(timeout_ms=1000),
            locate=lambda _: None, hand_over=lambda said: mirror.publish_handover(said, at=0), propose=lambda *_: None,
        )  # fmt: skip
        self.now = 0.0

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """An outlet."""
        del acked
        for value in values:
            record = Record(topic, len(self.topic), key, value, headers)
            self.topic.append(record)
            self.ledger.on_record(record)

    def look(
        self,
        view: View = VIEW,
        *,
        is_held: bool = False,
        fork: int | None = None,
        others: dict[str, list[EffectsPosition]] | None = None,
        ways: dict[str, list[str]] | None = None,
    ) -> bool:
        self.now += 1000
        return self.copying.tick(
            view,
            self.now,
            is_held=is_held,
            heard=len(self.topic),
            fork=fork,
            others=others or {},
            ways=ways or {},
        )

    def found(self, offset: int | None, fork: int | None = None) -> None:
        self.copying.found(CopyStart(source=self.wanted[-1].source, offset=offset, fork=fork))

    def hear(self, dc: str, *records: Record) -> None:
        for record in records:
            self.copying.on_record(dc, record)

    @property
    def copied(self) -> list[int]:
        """Offsets there of what was copied."""
        return [int(record.header(MIRRORED) or -1) for record in self.topic if record.header(MIRRORED)]


def effect(offset: int, index: int, *, dc: str = "dc1", epoch: int = 1, attempt: int = 1) -> Record:
    """As far as headers tell."""
    said = Effect(
        index=index, id=bytes(16), entry_chain=GENESIS, term=VIEW.id, attempt=attempt, outcome=Outcome.APPLIED,
        quads=0, signature_before=bytes(32), signature_after=bytes(32), chain=GENESIS,
    )  # fmt: skip
    [value] = codec.encode_effect(said)
    return Record(
        "effects", offset, b"", value,
        [
            (INDEX, str(index).encode()), (ATTEMPT, str(attempt).encode()), (TERM, VIEW.id.hex().encode()),
            (EVALUATED_IN, dc.encode()), (EPOCH, str(epoch).encode()), (CHUNKS, b"1"),
        ],
    )  # fmt: skip


def handover(offset: int, view: View, *terms: Term) -> Record:
    said = Handover(index=0, term=view.id, dc=view.home, epoch=view.epoch, terms=terms)
    return Record(
        "effects", offset, b"handover", codec.encode(said),
        [(HANDOVER, b"0"), (EPOCH, str(view.epoch).encode())],
    )  # fmt: skip


def test_all_others_copy_the_home_from_where_their_last_copy_ends() -> None:
    rig = Rig("dc2", index=6)
    assert not rig.look()
    [wanted] = rig.wanted
    assert (wanted.source.dc, wanted.source.part, wanted.index) == ("dc1", CopiedPart.HOME, 6)
    rig.found(None)
    rig.hear("dc1", effect(7, 7))
    assert rig.asked == [], "not found yet"
    rig.look()
    rig.found(7)
    assert rig.asked == [("dc1", 7)]
    rig.hear("dc1", effect(9, 9), effect(7, 7), effect(8, 8, dc="dc2"), effect(9, 9), effect(8, 8))
    rig.hear("dc3", effect(10, 10))
    assert rig.copied == [7, 9], "in order, each once, not what was said here"
    assert [record.header(MIRRORED_FROM) for record in rig.topic] == [b"dc1", b"dc1"]


WAYS = {"dc1": ["dc3"]}
FOLLOWS = {"dc3": [EffectsPosition(GENESIS, 9)]}
"""What dc3's masters say of effects."""


def test_while_the_home_is_out_of_reach_who_copies_it_is_copied() -> None:
    rig = Rig("dc2", index=6)
    rig.look()
    rig.found(7)
    rig.hear("dc1", effect(7, 7))
    rig.look(ways=WAYS, others=FOLLOWS)
    wanted = rig.wanted[-1]
    assert (wanted.source.dc, wanted.source.part, wanted.index) == ("dc3", CopiedPart.COPY, 7)
    rig.found(20)
    rig.hear("dc1", effect(8, 8))
    rig.hear("dc3", effect(20, 8), effect(21, 9, dc="dc2"), effect(22, 10, dc="dc3"))
    assert rig.copied == [7, 20, 22], "not what was said here"
    assert [record.header(MIRRORED_FROM) for record in rig.topic] == [b"dc1", b"dc3", b"dc3"]
    rig.look()
    source = rig.wanted[-1].source
    assert (source.dc, source.part) == ("dc1", CopiedPart.HOME)
    assert rig.asked == [("dc1", 7), ("dc1", None), ("dc3", 20), ("dc3", None)]


def test_the_way_of_effects_is_in_the_view_and_has_its_handover() -> None:
    view = View(epoch=4, members=("m1", "m2", "m3"), parent=LATER.id, home="dc1")
    rig = Rig("dc2")
    for others in ({}, FOLLOWS, {"dc4": [EffectsPosition(view.id, 9)]}):
        rig.look(view, ways={"dc1": ["dc3"]}, others=others)
        assert rig.wanted[-1].source.part is CopiedPart.HOME, "nobody else can tell either"
    rig.look(
        view,
        ways={"dc1": ["dc3", "dc4"]},
        others={
            "dc3": [EffectsPosition(GENESIS, 9)],
            "dc4": [EffectsPosition(GENESIS, 9), EffectsPosition(view.id, 9)],
        },
    )
    assert rig.wanted[-1].source.dc == "dc4"


def test_the_home_itself_copies_nobody_that_copies_it() -> None:
    rig = Rig("dc1")
    assert rig.look(ways={"dc1": ["dc3"], "dc2": ["dc3"]}, others=FOLLOWS)


def test_what_came_too_early_from_one_is_not_waited_for_from_another() -> None:
    rig = Rig("dc2")
    rig.look()
    rig.found(0)
    after = View(epoch=2, members=("m1", "m2"), parent=VIEW.id, home="dc1")
    rig.hear("dc1", handover(0, after), effect(1, 1))
    assert rig.copied == []
    rig.look(ways=WAYS, others=FOLLOWS)
    rig.found(5)
    rig.hear("dc3", effect(5, 1))
    assert rig.copied == [5]


def test_the_home_copies_who_has_the_duty_and_nobody_else() -> None:
    rig = Rig("dc1")
    assert rig.look()
    assert (rig.wanted, rig.asked) == ([], []), "the duty is here"
    for number, dc in enumerate(("dc2", "dc3"), start=1):
        rig.ledger.duty = Handover(index=number, term=bytes(32), dc=dc, start=7)
        rig.look()
        source = rig.wanted[-1].source
        assert (source.dc, source.part, source.start) == (dc, CopiedPart.DUTY, 7)
        rig.found(7)
        rig.hear(dc, effect(7, number, dc=dc))
    assert rig.asked == [("dc2", 7), ("dc2", None), ("dc3", 7)]
    mirrored = effect(8, 3, dc="dc1")
    mirrored.headers.append((MIRRORED, b"3"))
    rig.hear("dc3", mirrored, effect(9, 3, dc="dc3"))
    assert rig.copied == [7, 7, 9], "and of that what was said there"
    rig.ledger.duty = Handover(index=3, term=bytes(32), dc="dc1")
    rig.look()
    rig.hear("dc3", effect(10, 4, dc="dc3"))
    assert rig.copied == [7, 7, 9]


def test_from_a_vote_on_nothing_is_added_and_nothing_left_out() -> None:
    rig = Rig("dc2")
    rig.look()
    rig.found(0)
    rig.hear("dc1", effect(0, 1))
    rig.look(is_held=True)
    rig.hear("dc1", effect(1, 2), effect(2, 3))
    assert rig.copied == [0]
    rig.look()
    assert rig.asked == [("dc1", 0), ("dc1", 1)]
    rig.hear("dc1", effect(3, 4), effect(1, 2), effect(2, 3))
    assert rig.copied == [0, 1, 2]


def test_a_handover_of_a_view_that_is_not_installed_here_waits() -> None:
    """It may never be: then this data centre goes on by itself."""
    rig = Rig("dc3")
    rig.look()
    rig.found(0)
    after = View(epoch=2, members=("m1", "m3"), parent=VIEW.id, home="dc1")
    terms = Term(2, after.id, 1)
    records = [effect(0, 1), handover(1, after, terms), effect(2, 2)]
    rig.hear("dc1", *records)
    assert rig.copied == [0]
    rig.look(after)
    assert rig.asked == [("dc1", 0), ("dc1", 1)]
    rig.hear("dc1", *records[1:])
    assert rig.copied == [0, 1, 2]
    assert rig.ledger.duty.terms == (terms,)


def test_a_new_home_first_gets_what_others_have_and_then_hands_over() -> None:
    rig = Rig("dc2", index=5)
    others = {"dc3": [EffectsPosition(GENESIS, 7), EffectsPosition(hash_of(b"of another side"), 99)]}
    rig.look()
    assert not rig.look(LATER, others=others)
    assert (rig.wanted[-1].source.dc, rig.wanted[-1].source.part) == ("dc3", CopiedPart.REST)
    rig.found(40)
    copies = [effect(40, 6), effect(41, 7)]
    for record in copies:
        record.headers.append((MIRRORED, b"3"))
    rig.hear("dc3", *copies)
    assert rig.copied[-2:] == [40, 41]
    assert rig.ledger.index == 7
    rig.duty.install(LATER, ["dc2", "dc3"])
    assert rig.look(LATER, others=others), "all is here"
    rig.duty.tick(0.0, last_index=9, is_whole=False, others={})
    assert rig.ledger.duty is FIRST
    rig.duty.tick(0.0, last_index=9, is_whole=True, others={})
    assert rig.ledger.duty == Handover(
        index=0, term=LATER.id, dc="dc2", epoch=2, terms=(Term(2, LATER.id, 7),)
    )
    assert rig.duty.is_here


def test_who_gives_way_goes_back_before_the_first_copy() -> None:
    """What follows tells of which term and attempt it is."""
    together = View(epoch=5, members=("m1", "m2", "m3"), parent=LATER.id, home="dc2")
    value = codec.encode(Fence(term=LATER.id, attempt=4, worker="w2"))
    fence = Record("effects", 20, b"", value, [(ATTEMPT, b"4"), (TERM, LATER.id.hex().encode())])
    firsts = {
        "effect": (
            effect(20, 4, dc="dc2", epoch=2, attempt=3),
            Rewind(epoch=5, index=3, term=VIEW.id, attempt=3, cut=4),
        ),
        "fence": (fence, Rewind(epoch=5, index=3, term=LATER.id, attempt=3, cut=4)),
        "handover": (handover(20, LATER), Rewind(epoch=5, index=3, term=GENESIS, attempt=0, cut=4)),
    }
    for first, expected in firsts.values():
        rig = Rig("dc1", index=6)
        rig.look(together)
        rig.found(20, fork=3)
        assert rig.topic == []
        rig.hear("dc2", first)
        said, copy = rig.topic
        assert codec.decode(said.value) == expected
        assert (said.header(REWIND), copy.header(MIRRORED), copy.header(EPOCH)) == (b"3", b"20", b"5")
        if first.header(INDEX) is None:
            assert rig.ledger.index == 3


ALONE = View(epoch=3, members=("m2",), parent=VIEW.id, home="dc2")
AGAIN = View(epoch=6, members=("m2",), parent=hash_of(b"of the side that was lost"), home="dc2")


def of_a_branch(*, index: int = 15) -> Rig:
    """dc2 decided alone behind 8, and gave way to a side that is lost since: the logs are the same up to 9."""
    rig = Rig("dc2", index=index)
    terms = (Term(3, ALONE.id, 8), Term(4, hash_of(b"a term of the branch"), 12))
    rig.ledger.duty = Handover(index=0, term=terms[-1].id, dc="dc2", epoch=4, terms=terms)
    rig.ledger.attempt = 5
    return rig


def test_a_home_whose_effects_are_of_a_branch_goes_back_by_itself() -> None:
    """Nobody is left who has the effects of the side that it gave way to."""
    rig = of_a_branch()
    others = {"dc1": [EffectsPosition(GENESIS, 20)]}
    assert not rig.look(AGAIN, fork=9, others=others, is_held=True)
    assert rig.topic == [], "it voted: nothing is added"
    assert not rig.look(AGAIN, fork=9, others=others)
    assert not rig.look(AGAIN, fork=9, others=others), "not heard yet, and not said twice"
    [said] = rig.topic
    assert codec.decode(said.value) == Rewind(epoch=6, index=9, term=GENESIS, attempt=5, cut=4)
    assert rig.wanted == [], "nobody's effects go on behind those of a branch"
    assert rig.ledger.index == 9
    rig.duty.install(AGAIN, ["dc2"])
    assert rig.look(AGAIN)
    rig.duty.tick(0.0, last_index=24, is_whole=True, others={})
    assert rig.ledger.duty.terms == (Term(3, ALONE.id, 8), Term(6, AGAIN.id, 9)), (
        "not the one that is taken back"
    )
    assert rig.duty.is_here


def test_another_data_centre_waits_for_the_homes_effects_to_go_back() -> None:
    rig = of_a_branch()
    rig.look(View(epoch=6, members=("m1", "m2"), parent=LATER.id, home="dc1"), fork=9)
    assert rig.topic == []
    assert [wanted.source.dc for wanted in rig.wanted] == ["dc1"]


def test_a_home_that_goes_back_to_the_beginning_says_its_seed_again() -> None:
    seed = Seed(signature=bytes(range(32)), quads=3, digest=bytes(32), at=7, by="m1", sources=("a.nq",))
    rig = of_a_branch()
    rig.ledger.seed = seed
    rig.look(AGAIN, fork=0)
    assert [codec.decode(record.value) for record in rig.topic][1:] == [seed]
    assert (rig.ledger.seed, rig.ledger.state_after(0)) == (seed, seed.state)


def test_what_a_source_has_taken_back_itself_is_left_out() -> None:
    rig = Rig("dc2")
    rig.look()
    rig.copying.found(CopyStart(source=rig.wanted[-1].source, offset=0, void=((1, 2),)))
    rewind = Record("effects", 2, b"rewind", b"", [(REWIND, b"1")])
    rig.hear("dc1", effect(0, 1), effect(1, 2), rewind, effect(3, 2))
    assert rig.copied == [0, 3]


def test_where_a_source_goes_back_itself_its_place_is_looked_for_anew() -> None:
    rig = Rig("dc2")
    rig.look()
    rig.found(0)
    rewind = Record("effects", 1, b"rewind", b"", [(REWIND, b"0")])
    rig.hear("dc1", effect(0, 1), rewind, effect(2, 1))
    assert rig.copied == [0]
    rig.look()
    assert len(rig.wanted) == 2


@pytest.mark.parametrize(("epoch", "copied"), [(1, [8]), (2, [])], ids=["of this view", "of a later one"])
def test_who_got_the_duty_goes_back_to_the_homes_effects_before_it_decides(
    epoch: int, copied: list[int]
) -> None:
    """The duty was handed on at the end of a topic that was not rewound yet: the place to copy from stays."""
    rig = Rig("dc1", index=19)
    rig.ledger.duty = Handover(index=30, term=bytes(32), dc="dc2", start=7)
    rig.look()
    rig.found(7)
    rewind = Record("effects", 7, b"rewind", b"", [(REWIND, b"19"), (EPOCH, str(epoch).encode())])
    rig.hear("dc2", rewind, effect(8, 20, dc="dc2"))
    assert rig.copied == copied
    rig.look()
    assert len(rig.wanted) == epoch


def foreign(offset: int, *headers: tuple[str, bytes]) -> Record:
    return Record("effects", offset, b"k", b"of another program", list(headers))


@pytest.mark.parametrize("headers", [
    [(HANDOVER, b"soon"), (EPOCH, b"later")], [(REWIND, b"all of it")], [(EVALUATED_IN, b"dc2"), (EPOCH, b"x")],
], ids=["a handover", "a rewind", "an effect"])  # fmt: skip
def test_what_another_program_wrote_does_not_hold_up_the_copy(headers: list[tuple[str, bytes]]) -> None:
    rig = Rig("dc2")
    rig.look()
    rig.found(0)
    for record in (effect(0, 1), foreign(1, *headers), effect(2, 2)):
        with suppress(ForeignRecord):  # the node passes over it
            rig.hear("dc1", record)
    assert rig.copied == [0, 2]


def test_what_another_program_wrote_does_not_tell_what_follows_a_rewind() -> None:
    rig = Rig("dc1", index=6)
    rig.look(View(epoch=5, members=("m1", "m2", "m3"), parent=LATER.id, home="dc2"))
    rig.found(20, fork=3)
    with pytest.raises(ForeignRecord, match="effects at 21: its header term"):
        rig.hear("dc2", foreign(20), foreign(21, (TERM, b"long")))
    rig.hear("dc2", effect(22, 4, dc="dc2", epoch=2, attempt=3))
    assert codec.decode(rig.topic[0].value) == Rewind(epoch=5, index=3, term=VIEW.id, attempt=3, cut=4)
    assert rig.copied == [22]


@pytest.mark.parametrize("home", ["dc1", "dc2"])
def test_a_rewind_says_when_it_was_written_where_branches_are_kept(home: str) -> None:
    """Copied from another home, or written by this one."""
    rig = Rig("dc1", index=6)
    rig.keeps, before = True, wall()
    view = View(epoch=5, members=("m1", "m2", "m3"), parent=LATER.id, home=home)
    rig.look(view, fork=3 if home == "dc1" else None)
    if home == "dc2":
        rig.found(20, fork=3)
        rig.hear("dc2", effect(20, 4, dc="dc2", epoch=2, attempt=3))
    rewind = codec.decode(rig.topic[0].value)
    assert isinstance(rewind, Rewind)
    assert rewind.kept_at is not None
    assert before <= rewind.kept_at <= wall()


def test_in_a_topic_that_was_made_anew_the_place_is_looked_for_again() -> None:
    """Offsets of before mean nothing there; another data centre's topic is nothing to it."""
    rig = Rig("dc2")
    rig.look()
    rig.found(0)
    rig.hear("dc1", effect(0, 1))
    rig.copying.begin_again("dc3")
    rig.hear("dc1", effect(1, 2))
    rig.copying.begin_again("dc1")
    rig.hear("dc1", effect(2, 3))
    assert rig.copied == [0, 1]
    assert rig.asked == [("dc1", 0), ("dc1", None)]
    rig.look()
    assert [wanted.source.dc for wanted in rig.wanted] == ["dc1", "dc1"]
    rig.found(0)
    rig.hear("dc1", effect(0, 3))
    assert rig.copied == [0, 1, 0]
