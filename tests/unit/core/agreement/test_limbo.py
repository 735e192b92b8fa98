"""The limbo by itself: what is undecided, what a quorum has, and what is forgotten."""

from __future__ import annotations

import pytest

from quadlog.core.agreement.limbo import Limbo
from quadlog.core.messages import LocalStatus
from quadlog.core.model import EffectsPosition, LogPosition, Pair, TransactionKind, hash_of
from quadlog.core.synchronous import RESUMED, SYNCHRONOUS, Decision, decision_on
from tests.support.agreement.cluster import Member

COMMIT, ROLLBACK = TransactionKind.COMMIT, TransactionKind.ROLLBACK


def point(index: int) -> LogPosition:
    return LogPosition(index, hash_of(index.to_bytes(8, "big")))


def sync(index: int) -> tuple[LogPosition, Pair]:
    return point(index), Pair(index, bytes([index]) * 16, SYNCHRONOUS + bytes(24))


def decision(index: int, kind: TransactionKind, target: int) -> tuple[LogPosition, Pair]:
    return point(index), Pair(index, *decision_on(kind, point(target)).key)


def undecided(limbo: Limbo) -> list[int]:
    return [one.point.index for one in limbo.undecided]


def test_with_clocks_of_5_3_and_4_a_quorum_of_two_has_the_fourth() -> None:
    limbo = Limbo(sync(index) for index in (1, 2, 3, 4, 5))
    had = {"dc1": 5, "dc2": 3, "dc3": 4}
    assert [limbo.confirmed(had, quorum) for quorum in (1, 2, 3, 4)] == [point(5), point(4), point(3), None]
    assert limbo.confirmed({"dc1": 5, "dc2": 0}, 2) is None


def test_only_what_is_undecided_is_a_target() -> None:
    limbo = Limbo([sync(2), sync(5)])
    assert limbo.confirmed({"dc1": 9, "dc2": 4}, 2) == point(2)
    assert limbo.confirmed({"dc1": 9, "dc2": 1}, 2) is None


def test_a_decision_concerns_all_up_to_its_target() -> None:
    limbo = Limbo([sync(1), sync(2), sync(3)])
    limbo.append(*decision(4, ROLLBACK, 2), 0.0)
    assert undecided(limbo) == [3]
    limbo.append(*decision(5, COMMIT, 3), 0.0)
    assert undecided(limbo) == []


def test_a_decision_on_another_history_decides_nothing_there() -> None:
    other = Decision(COMMIT, 2, bytes(16))
    limbo = Limbo([sync(2), (point(3), Pair(3, *other.key))])
    assert undecided(limbo) == [2]


def test_a_cut_takes_decisions_back() -> None:
    limbo = Limbo([sync(1), sync(2)])
    limbo.append(*decision(3, COMMIT, 1), 0.0)
    limbo.append(*sync(4), 0.0)
    limbo.cut(2, [decision(3, ROLLBACK, 2), sync(5)])
    assert undecided(limbo) == [5]
    limbo.cut(2, [])
    assert undecided(limbo) == [1, 2]


def test_what_is_settled_is_forgotten_and_what_may_be_cut_is_not() -> None:
    limbo = Limbo([sync(1), sync(2), decision(3, COMMIT, 2), sync(4), decision(5, COMMIT, 4), sync(6)])
    limbo.settle(2)
    assert limbo.begins_at == 1, "the decision may still be cut"
    limbo.settle(4)
    assert (limbo.begins_at, undecided(limbo)) == (4, [6])
    limbo.settle(9)
    assert (limbo.begins_at, undecided(limbo)) == (6, [6])
    limbo.append(*decision(7, COMMIT, 6), 0.0)
    limbo.settle(9)
    assert (limbo.begins_at, undecided(limbo)) == (0, [])


def test_an_entry_may_turn_out_to_be_synchronous_once_it_is_decided() -> None:
    limbo = Limbo([sync(2), decision(4, COMMIT, 2)])
    limbo.found(point(1), bytes(16), 0.0)
    assert undecided(limbo) == [], "the decision concerns it, too"
    assert limbo.found(point(3), bytes(16), 0.0)
    assert not limbo.found(point(3), bytes(16), 0.0)
    assert undecided(limbo) == [3]
    limbo.settle(4)
    assert not limbo.found(point(2), bytes(16), 0.0)
    assert undecided(limbo) == [3]


@pytest.mark.parametrize("started", [0.0, 500.0])
def test_the_age_counts_from_the_agreement_or_from_the_start(started: float) -> None:
    limbo = Limbo([sync(1)])
    assert limbo.age(started) == 0
    limbo.append(*sync(2), started + 100)
    assert limbo.age(started + 300) == 300
    limbo.append(*decision(3, COMMIT, 1), started + 300)
    assert limbo.age(started + 300) == 200


def test_effects_of_a_branch_say_nothing_of_the_log_that_replaces_it() -> None:
    limbo = Limbo([sync(1), sync(3)])
    limbo.evaluated(3)
    limbo.cut(2, [sync(3)])
    assert undecided(limbo) == [3]


def resumed(index: int, suspended: int) -> tuple[LogPosition, Pair]:
    digest = RESUMED + suspended.to_bytes(8, "big") + bytes(16)
    return point(index), Pair(index, bytes([index]) * 16, digest)


def fates(limbo: Limbo) -> list[TransactionKind | None]:
    return [limbo.fate_of(one) for one in limbo.undecided]


def test_the_first_decision_on_a_suspended_one_is_that_on_the_one_that_continues_it() -> None:
    limbo = Limbo(
        [sync(1), decision(2, ROLLBACK, 1), decision(3, COMMIT, 1), sync(4), resumed(5, 1), sync(6)]
    )
    assert (undecided(limbo), fates(limbo)) == ([4, 5, 6], [None, ROLLBACK, None])
    assert [one.point.index for one in limbo.free] == [4], "nothing else decides on the next one"
    assert limbo.confirmed({"dc1": 9}, 1) == point(4)
    limbo.settle(9)
    assert fates(limbo) == [None, ROLLBACK, None]
    limbo.append(*decision(7, COMMIT, 4), 0.0)
    assert (undecided(limbo), limbo.free) == ([5, 6], [])


def test_one_that_continues_an_undecided_one_is_decided_like_others() -> None:
    limbo = Limbo([sync(1), resumed(3, 1), decision(4, COMMIT, 1)])
    assert (undecided(limbo), fates(limbo)) == ([3], [None])
    assert [one.point.index for one in limbo.free] == [3]


def test_what_has_an_effect_waits_for_nothing() -> None:
    """It is set aside, as it is not decided; if its data centre gives way, it waits again."""
    limbo = Limbo([sync(1), sync(3)])
    limbo.found(point(2), bytes(16), 0.0)
    limbo.evaluated(2)
    limbo.append(*sync(4), 0.0)
    assert undecided(limbo) == [3, 4]
    limbo.evaluated(0)
    assert undecided(limbo) == [1, 3, 4]
    limbo.evaluated(9)
    assert undecided(limbo) == []
    assert not limbo.found(point(2), bytes(16), 0.0) or undecided(limbo) == []


def test_effects_are_confirmed_by_a_majority_and_the_quorum_of_one_history() -> None:
    """Each data centre says how far its effects are, and of which history."""
    members = {name: Member(name, {one: one for one in ("m1", "m2", "m3")}) for name in ("m1", "m2", "m3")}
    at = 0.0

    def say(**effects: EffectsPosition) -> int:
        nonlocal at
        for name, effect in effects.items():
            core = members[name].core
            core.step(LocalStatus(effects=effect), members[name].now(at))
        for _ in range(2):
            at += 2000
            for member in members.values():
                member.turn(at)
            for member in members.values():
                for other in members.values():
                    if other is not member:
                        member.hear(other.posts[-1], at)
        return members["m1"].core.effects_confirmed

    here, elsewhere = bytes(32), b"x" * 32
    assert say(m1=EffectsPosition(here, 7)) == 0
    assert say(m2=EffectsPosition(here, 5)) == 5
    assert say(m3=EffectsPosition(here, 6)) == 6
    assert say(m3=EffectsPosition(elsewhere, 9)) == 5, "of another history"
