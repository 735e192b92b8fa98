"""Which of two incarnations is the newer one, who counts, and what one master makes of another's new incarnation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.membership.electorate import Electorate
from quadlog.core.membership.incarnations import Incarnations, new_incarnation
from quadlog.core.messages import PostReceived
from quadlog.core.model import RejoinedMember, View, no_view
from quadlog.masterstore.hard_state import pack_standing, unpack_standing
from tests.support.agreement.cluster import Member

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
FIRST, SECOND = (new_incarnation(None, wall, bytes(10)) for wall in (1, 2))
moments = st.integers(min_value=0, max_value=4_102_444_800_000)
chances = st.binary(min_size=10, max_size=10)


@given(st.lists(st.tuples(moments, chances), min_size=2, max_size=5))
def test_incarnations_rise_whatever_the_clock_says(made: list[tuple[int, bytes]]) -> None:
    known: list[bytes] = []
    for wall, chance in made:
        known.append(new_incarnation(known[-1] if known else None, wall, chance))
    assert known == sorted(set(known))
    assert all(len(incarnation) == 16 for incarnation in known)


def test_one_that_was_all_chance_is_followed_by_a_later_one() -> None:
    assert new_incarnation(b"\xf0" * 16, 1_700_000_000_000, bytes(10)) > b"\xf0" * 16


@pytest.mark.parametrize(
    ("masters", "members", "blank", "is_majority", "vouches"),
    [
        ("m1:a m2:b m3:c", "m1 m2", "", True, True),
        ("m1:a m2:b m3:c", "m1 m2", "m2", False, False),
        ("m1:a m2:b m3:c", "m1 m2 m3", "m2", True, True),
        ("m1:a m2:b m3:c", "m1 m2 m3", "m2 m3", False, False),
        ("m1:a m2:b", "m1 m2", "m2", False, True),
        ("m1:a m2:b m3:b", "m1 m2 m3", "m3", True, True),
        ("m1:a m2:b m3:b", "m2 m3", "m3", False, False),
        ("m1:a", "m1", "m1", False, False),
    ],
)
def test_who_is_blank_does_not_count(
    masters: str,
    members: str,
    blank: str,
    is_majority: bool,  # noqa: FBT001
    vouches: bool,  # noqa: FBT001
) -> None:
    electorate = Electorate(dict(part.split(":") for part in masters.split()))
    returned = tuple(RejoinedMember(name, FIRST, blank=True) for name in blank.split())
    view = View(epoch=2, members=tuple(members.split()), returned=returned)
    assert (electorate.is_majority(view), electorate.vouches(view)) == (is_majority, vouches)


def test_it_is_learned_from_views_and_ballots_too() -> None:
    """And what was learned is saved, and an older one is no news."""
    member = Member("m1", MASTERS)
    member.turn(0)
    [post] = member.posts
    listed = replace(post.view, returned=(RejoinedMember("m2", SECOND, blank=False),))
    for said in (replace(post, view=listed), replace(post, ballot=listed)):
        incarnations = Incarnations([("m3", SECOND)])
        assert incarnations.learn(said, None)
        assert incarnations.newest == (("m2", SECOND), ("m3", SECOND))
        assert not incarnations.learn(said, None)
        assert not incarnations.learn(replace(post, node="m3", incarnation=FIRST, view=no_view(FIRST)), None)


@pytest.mark.parametrize("says_so", [True, False])
def test_a_newer_incarnation_takes_the_place_of_the_one_before(says_so: bool) -> None:  # noqa: FBT001
    """Whether it says that it is blank or not: it is given up at once, for good, and the older one is not heard."""
    one, other = (
        Member(
            name,
            {"m1": "dc1", "m2": "dc2"},
            settings=ClusterSettings(split_recovery=SplitRecovery.SMART, max_peer_lag=1.0),
        )
        for name in ("m1", "m2")
    )
    other.turn(0)
    one.hear(other.posts[0], 1)
    one.turn(2)
    assert one.core.members["m2"].incarnation == other.incarnation
    newer = new_incarnation(other.incarnation, 0, bytes(10))
    view = no_view(newer) if says_so else other.posts[0].view
    one.hear(replace(other.posts[0], incarnation=newer, view=view), 3)
    one.turn(4)
    assert one.core.members["m2"].incarnation == newer
    assert one.core.view.members == ("m1",)
    assert one.disk.standing is not None
    assert unpack_standing(pack_standing(one.disk.standing)).newest == (("m2", newer),)
    one.restart(5)
    for post in other.posts:
        one.core.step(PostReceived(post=post), one.now(6))
    assert "m2" not in one.core.members
    assert one.core.ignored["m2"] == len(other.posts)


def test_a_blank_master_alone_waits() -> None:
    """Nobody is there who could let it in; a restart does not change that."""
    member = Member("m1", MASTERS, settings=ClusterSettings(max_peer_lag=0.1))
    member.lose_disk(0)
    for at in range(0, 10_000, 50):
        if at == 5_000:
            member.restart(at)
        member.turn(at)
    assert member.core.is_blank
    assert not member.published
    assert all(post.ballot is None and not post.view.members for post in member.posts)
    assert member.disk.standing is not None
    assert not member.disk.standing.view.members
