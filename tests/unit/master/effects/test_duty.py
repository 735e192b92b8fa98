"""Which data centre evaluates: when it proposes to give the duty away, and what moves it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consumers.effects_ledger import EffectsLedger
from quadlog.core.model import (
    GENESIS,
    EffectsPosition,
    Entry,
    LogPosition,
    Pair,
    TransactionKind,
    first_view,
    hash_of,
)
from quadlog.core.records import Handover, Heartbeat, WorkerState
from quadlog.master.effects.duty import AGAIN_MS, LONGEST_MS, UNHEARD_MS, Duty, move_of
from quadlog.master.workers.worker_registry import WorkerRegistry

DCS = ["dc1", "dc2", "dc3"]
VIEW = first_view({"m1": "dc1", "m2": "dc2", "m3": "dc3"})
FIRST = Handover(index=0, term=VIEW.id, dc="dc1")
TIMEOUT = 2000.0


class Rig:
    """One data centre's duty, with what it said and proposed."""

    def __init__(self, dc: str = "dc1", *, dcs: list[str] = DCS, witnesses: str = "") -> None:
        self.worker_registry = WorkerRegistry(timeout_ms=TIMEOUT)
        self.ledger = EffectsLedger(duty=FIRST)
        self.said: list[Handover] = []
        self.asked: list[Handover] = []
        self.proposed: list[tuple[Handover, str]] = []
        self.others: dict[str, list[EffectsPosition]] = {}
        self.duty = Duty(
            dc=dc,
            view=VIEW,
            dcs=dcs,
            agreed=FIRST,
            ledger=self.ledger,
            worker_registry=self.worker_registry,
            locate=self.asked.append,
            hand_over=self.said.append,
            propose=lambda duty, to: self.proposed.append((duty, to)),
            witnesses=frozenset(witnesses.split()),
        )

    def beat(self, now: float) -> None:
        """A worker is heard."""
        beat = Heartbeat(
            worker="w1", dc="dc1", url="", state=WorkerState.SERVING, evaluating=True, attempt=1,
            applied=LogPosition(0, GENESIS), signature=bytes(32), quads=0, sent=0,
        )  # fmt: skip
        self.worker_registry.on_heartbeat(beat, now)

    def tend(self, *moments: float, last_index: int = 1) -> int:
        """How many proposals there are after these moments."""
        for moment in moments:
            self.duty.tick(moment, last_index=last_index, is_whole=True, others=self.others)
        return len(self.proposed)


def move(index: int, dc: str, duty: Handover) -> Entry:
    """The entry of a proposal that was agreed."""
    transaction = move_of(duty, dc, node="m1", node_dc="dc1", new_id=bytes(16)).transaction
    return Entry(
        index=index,
        pair=Pair(index, *transaction.key),
        kind=transaction.kind,
        options=transaction.options,
        previous=GENESIS,
        chain=hash_of(str(index).encode()),
        view=first_view({"m1": "dc1"}),
    )


def test_it_is_given_away_when_no_worker_is_left_and_something_waits() -> None:
    rig = Rig()
    rig.beat(0)
    assert rig.tend(1000, 2000) == 0
    assert rig.tend(2001, last_index=0) == 0, "nothing waits"
    assert rig.tend(2002, 2003, 2004) == 1, "once"
    assert rig.proposed == [(FIRST, "dc2")]


def test_a_worker_that_comes_back_keeps_it() -> None:
    rig = Rig()
    rig.beat(0)
    rig.beat(2500)
    assert rig.tend(2600, 4000) == 0


def test_nobody_heard_yet_is_nobody_lost() -> None:
    rig = Rig()
    assert rig.tend(0, UNHEARD_MS - 1) == 0
    assert rig.tend(UNHEARD_MS) == 1


def test_only_who_has_it_gives_it_away() -> None:
    """Somebody else cannot tell a dead evaluator from one that is busy."""
    assert Rig("dc2").tend(0, UNHEARD_MS, LONGEST_MS) == 0
    assert Rig(dcs=["dc1"]).tend(0, UNHEARD_MS, LONGEST_MS) == 0, "and there is somebody to take it"


def test_what_the_home_has_not_copied_is_not_left_behind() -> None:
    """It counts here, is evaluated again elsewhere, and the two may differ: nothing would ever fit here again."""
    rig = Rig("dc2")
    rig.ledger.duty = replace(FIRST, index=4, term=hash_of(b"4"), dc="dc2")
    rig.duty.agreed, rig.ledger.index = rig.ledger.duty, 6
    rig.duty._decided = 6
    for said in ([], [EffectsPosition(GENESIS, 5)], [EffectsPosition(hash_of(b"another view"), 9)]):
        rig.others = {"dc1": said, "dc3": [EffectsPosition(GENESIS, 6)]}
        assert rig.tend(0, UNHEARD_MS, 2 * UNHEARD_MS, last_index=7) == 0
    rig.others = {"dc1": [EffectsPosition(GENESIS, 5), EffectsPosition(GENESIS, 6)]}
    assert rig.tend(3 * UNHEARD_MS, last_index=7) == 1


def test_a_move_counts_if_it_moves_the_newest() -> None:
    rig = Rig()
    rig.duty.note([move(4, "dc2", FIRST), move(5, "dc3", FIRST), move(6, "nowhere", FIRST)])
    assert rig.duty.agreed == Handover(index=4, term=hash_of(b"4"), dc="dc2")
    rig.duty.note([replace(move(7, "dc3", rig.duty.agreed), kind=TransactionKind.TX)])
    assert rig.duty.agreed.dc == "dc2"
    rig.duty.note([move(8, "dc1", rig.duty.agreed)])
    assert (rig.duty.agreed.index, rig.duty.agreed.dc) == (8, "dc1")


def test_the_home_says_a_handover_until_it_is_heard() -> None:
    home, other = Rig("dc1"), Rig("dc2")
    for rig in (home, other):
        rig.duty.note([move(4, "dc2", FIRST)])
        rig.tend(0, AGAIN_MS - 1)
        assert not rig.duty.is_here, "as agreed, but the effects do not say so yet"
    assert (home.asked, other.asked) == ([home.duty.agreed], [])
    home.tend(AGAIN_MS)
    assert len(home.asked) == 2
    assert home.said == [], "not before it is known where its effects begin"
    located = replace(home.duty.agreed, start=17)
    home.duty.located(FIRST)
    home.duty.located(located)
    assert home.said == [located]
    for rig in (home, other):
        rig.ledger.duty = located
        rig.tend(3 * AGAIN_MS)
        rig.duty.located(located)
    assert (len(home.asked), len(home.said)) == (2, 1)
    assert (home.duty.is_here, other.duty.is_here) == (False, True)


def test_where_nobody_evaluates_anywhere_moves_become_rare() -> None:
    """Each is an entry in the log."""
    rig = Rig()
    waits = []
    for number in range(12):
        rig.duty.note([move(number + 1, "dc1", rig.duty.agreed)])
        rig.ledger.duty = rig.duty.agreed
        start = number * 1_000_000.0
        before = rig.tend(start)
        wait = next(w for w in range(0, 70_000, 250) if rig.tend(start + w) > before)
        waits.append(wait)
    assert waits[0] <= UNHEARD_MS
    assert waits == sorted(waits[:2]) + waits[2:]
    assert waits[-1] == LONGEST_MS
    rig.ledger.index = 1
    rig.duty.note([move(100, "dc1", rig.duty.agreed)])
    rig.ledger.duty = rig.duty.agreed
    rig.tend(20_000_000.0, last_index=1)
    before = rig.tend(20_000_001.0, last_index=2)
    assert rig.tend(20_000_001.0 + UNHEARD_MS, last_index=2) == before + 1, "somebody evaluated meanwhile"


@pytest.mark.parametrize(
    ("dc", "witnesses", "to"),
    [("dc1", "dc2", "dc3"), ("dc2", "dc3", "dc1"), ("dc1", "dc2 dc3", ""), ("dc1", "dc1 dc3", "dc2")],
    ids=["over one", "round the end", "nowhere", "from one"],
)
def test_it_goes_on_to_no_witness(dc: str, witnesses: str, to: str) -> None:
    rig = Rig(dc, witnesses=witnesses)
    rig.duty.agreed = rig.ledger.duty = replace(FIRST, dc=dc)
    rig.others = {"dc1": [EffectsPosition(GENESIS, 0)]}
    rig.tend(0.0, UNHEARD_MS, UNHEARD_MS + LONGEST_MS, last_index=2)
    assert {following for _, following in rig.proposed} == ({to} if to else set())


def tended(rig: Rig, *, is_full: bool, full: str = "") -> list[tuple[Handover, str]]:
    """What is proposed while a worker lives and something waits."""
    rig.beat(0)
    for moment in (0.0, LONGEST_MS):
        rig.beat(moment)
        rig.duty.tick(
            moment,
            last_index=1,
            is_whole=True,
            others=rig.others,
            is_full=is_full,
            full=frozenset(full.split()),
        )
    return rig.proposed


def test_it_leaves_where_effects_are_not_taken_though_a_worker_lives() -> None:
    """But from the home it goes with the home: the handover would stand in that topic."""
    rig = Rig("dc2")
    rig.duty.agreed = rig.ledger.duty = replace(FIRST, index=4, term=hash_of(b"4"), dc="dc2")
    rig.others = {"dc1": [EffectsPosition(GENESIS, 0)]}
    assert tended(rig, is_full=False) == []
    assert tended(rig, is_full=True) == [(rig.duty.agreed, "dc3")] * 2
    assert tended(Rig("dc1"), is_full=True) == []


@pytest.mark.parametrize(("full", "to"), [("dc3", "dc1"), ("dc1 dc3", "dc3")], ids=["the next", "all others"])
def test_it_goes_where_effects_are_taken(full: str, to: str) -> None:
    rig = Rig("dc2")
    rig.duty.agreed = rig.ledger.duty = replace(FIRST, index=4, term=hash_of(b"4"), dc="dc2")
    rig.others = {"dc1": [EffectsPosition(GENESIS, 0)]}
    assert {to for _, to in tended(rig, is_full=True, full=full)} == {to}
