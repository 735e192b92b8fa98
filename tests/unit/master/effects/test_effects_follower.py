"""Effects in the own topic while a view moves the home away from here: what counts up to its vote, and nothing more."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from consumers.effects_ledger import EffectsLedger
from producers.effects import EffectsMirror
from quadlog.core.model import GENESIS, EffectsPosition, HardState, View, first_view
from quadlog.core.records import Handover, Rewind
from quadlog.errors import ForeignRecord
from quadlog.master.effects.effects_follower import EffectsFollower
from quadlog.master.workers.worker_registry import WorkerRegistry
from tests.support.agreement.topics import FIRST, Topic, effect, effects_topic, fence
from tests.support.masters.watched import beat

if TYPE_CHECKING:
    from quadlog.ports import Record

VIEW = first_view({"m1": "dc1", "m2": "dc2"})
AWAY = View(epoch=2, members=("m1", "m2"), parent=VIEW.id, home="dc2")
BACK = replace(AWAY, epoch=3, home="dc1")
RECORDS = effects_topic(fence(1), *(effect(index) for index in range(1, 7)))


class Rig:
    """One master's."""

    def __init__(self, dc: str = "dc1", floor: int = 0) -> None:
        self.read: list[int] = []
        self.back: list[int] = []
        self.worker_registry = WorkerRegistry(timeout_ms=2000.0)
        self.floor = floor
        self.pending_effects: int | None = None
        store = SimpleNamespace(
            position=lambda _: 0, last_cut=lambda: None, floor=lambda: self.floor, entry=lambda _: None
        )
        self.decided = EffectsFollower(
            EffectsLedger(duty=replace(FIRST, term=VIEW.id)),
            store=cast("Any", store),
            topic="effects",
            pending_requests=cast("Any", SimpleNamespace(rejected={}, go_back=self.back.append)),
            worker_registry=self.worker_registry,
            dc=dc,
            standing=HardState(view=VIEW),
            read=self.read.append,
            pending_effects=lambda: self.pending_effects,
        )

    def hear(self, *records: Record) -> int:
        for record in records:
            self.decided.on_record(record, agreed=100)
        return self.decided.index

    def vote(self, ballot: View) -> None:
        self.decided.apply_standing(HardState(view=VIEW, ballot=ballot))


def rewind(index: int, epoch: int) -> Record:
    topic = Topic()
    said = Rewind(epoch=epoch, index=index, term=GENESIS, attempt=1, cut=epoch)
    EffectsMirror(topic, "effects", "m1").publish_rewind(said, at=0)
    return replace(topic.records[0], offset=len(RECORDS))


def test_with_its_vote_an_old_home_takes_no_more_effects_in() -> None:
    """The next home begins behind what the vote says: who was told of more would be told of what is decided anew."""
    rig = Rig()
    assert rig.hear(*RECORDS[:4]) == 3
    rig.vote(AWAY)
    assert rig.decided.is_held
    assert rig.hear(*RECORDS[4:]) == 3
    assert rig.decided.heard == 4, "a restart hears them again, and votes no less"
    assert rig.decided.held == EffectsPosition(GENESIS, 3)


def test_where_the_home_stays_they_are_heard_again() -> None:
    rig = Rig()
    rig.hear(*RECORDS[:4])
    rig.vote(AWAY)
    rig.hear(RECORDS[4])
    rig.decided.apply_standing(HardState(view=VIEW, ballot=BACK))
    assert not rig.decided.is_held
    assert rig.read == [4]
    assert rig.hear(*RECORDS[5:]) == 3, "they were read before"
    assert rig.hear(*RECORDS[4:]) == 6


def test_once_the_home_is_elsewhere_what_was_said_before_is_void_until_a_rewind() -> None:
    rig = Rig()
    rig.hear(*RECORDS[:4])
    rig.vote(AWAY)
    rig.decided.apply_standing(HardState(view=AWAY))
    assert (rig.decided.floor, rig.decided.floored) == (2, (2, 3))
    assert rig.hear(*RECORDS[4:]) == 3
    assert rig.decided.heard == len(RECORDS)
    assert (rig.decided.fork, rig.decided.left) == (None, 3), (
        "it tells others how far it is, and goes back itself"
    )
    rig.hear(rewind(3, 2))
    assert (rig.decided.floored, rig.decided.left, rig.back) == (None, None, [3])
    assert rig.decided.index == 3


def test_a_restart_remembers_what_is_void() -> None:
    assert Rig(floor=2).hear(*RECORDS) == 0


def test_a_worker_that_applied_what_is_void_is_asked_nothing() -> None:
    rig = Rig()
    rig.hear(*RECORDS[:4])
    for name, index in (("a", 3), ("b", 4)):
        rig.worker_registry.on_heartbeat(beat(name, index), 0.0)
    rig.decided.apply_standing(HardState(view=AWAY))
    assert [worker.beat.worker for worker in rig.worker_registry.live(0.0)] == ["a"]
    assert rig.worker_registry.applied() == 3


@pytest.mark.parametrize(
    ("dc", "ballot"), [("dc2", AWAY), ("dc1", replace(AWAY, home="dc1"))], ids=["the next home", "it stays"]
)
def test_all_others_hear_on(dc: str, ballot: View) -> None:
    rig = Rig(dc)
    rig.vote(ballot)
    rig.hear(*RECORDS[:4])
    rig.decided.apply_standing(HardState(view=ballot))
    assert rig.hear(*RECORDS[4:]) == 6


@pytest.mark.parametrize("floor", [0, 2])
def test_what_another_program_wrote_at_the_end_was_heard(floor: int) -> None:
    """Else the copying of effects would wait for the end of this topic for ever."""
    rig = Rig(floor=floor)
    rig.hear(*RECORDS)
    with suppress(ForeignRecord):
        rig.hear(replace(RECORDS[-1], offset=len(RECORDS), value=b"another program's", headers=[]))
    assert rig.decided.heard == len(RECORDS) + 1


def test_what_was_acknowledged_by_what_is_foreseen_is_not_taken_back() -> None:
    """The rewind comes with it, once the topic takes records."""
    rig = Rig()
    rig.hear(*RECORDS[:4])
    rig.decided.apply_standing(HardState(view=AWAY))
    rig.pending_effects = 9
    rig.hear(rewind(3, 2))
    assert rig.back == [9]


def test_a_handover_is_no_reason_to_forget() -> None:
    """It is of the view that moved the home, so it is heard, also without a rewind."""
    rig = Rig()
    rig.decided.apply_standing(HardState(view=AWAY))
    topic = Topic()
    EffectsMirror(topic, "effects", "m1").publish_handover(
        Handover(index=0, term=AWAY.id, dc="dc2", epoch=2), at=0
    )
    rig.hear(*topic.records)
    assert rig.decided.ledger.duty.term == AWAY.id
