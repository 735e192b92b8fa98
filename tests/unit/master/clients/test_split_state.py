"""Whom a master waits for, and since when a new write is refused for it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from quadlog.core.cluster_settings import ClusterSettings, SplitRecovery
from quadlog.core.messages import PostingPace
from quadlog.core.model import HardState, RejoinedMember, View, no_view
from quadlog.errors import NoMajority, Unavailable
from quadlog.master.clients.split_state import split_headers, split_troubles, waits_for
from quadlog.master.clients.write_guards import write_obstacle
from quadlog.master.workers.alarms import AlarmName
from tests.support.agreement.cluster import Member

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
IDLE_MS = 1000.0
HEARD_MS = 2000.0
"""When all were heard last."""


def heard_once(settings: ClusterSettings, *silent: str, idle: float = IDLE_MS) -> list[Member]:
    """Masters that heard each other at the beginning; from then on all but some."""
    members = [Member(name, MASTERS, settings=settings, pace=PostingPace(idle=idle)) for name in MASTERS]
    for at in (0.0, HEARD_MS):
        exchange(members, at)
    return [member for member in members if member.name not in silent]


def exchange(members: list[Member], at: float) -> None:
    for member in members:
        member.turn(at)
    for member in members:
        for other in members:
            if other is not member:
                member.hear(other.posts[-1], at)


@pytest.mark.parametrize(("idle", "patience"), [(250.0, 5000.0), (IDLE_MS, 5000.0), (1500.0, 7500.0)])
def test_a_silent_member_is_told_from_the_third_round_on_and_refused_for_later(
    idle: float, patience: float
) -> None:
    """After five rounds, and not before a master or a broker can have started again."""
    one, other = heard_once(ClusterSettings(max_peer_lag=20), "m3", idle=idle)
    for at in range(3000, 13_000, 500):
        exchange([one, other], at)
        cluster, silent = one.core.cluster(), at - HEARD_MS
        told = waits_for(cluster, at, MASTERS)
        expected = [{"id": "m3", "dc": "dc3", "silent_s": silent / 1000, "of_s": 20}]
        assert told == (expected if silent > 3 * idle else [])
        why = write_obstacle(cluster, at)
        assert (why is not None) == (silent > patience)
        if why is not None:
            assert type(why) is Unavailable
            assert why.retry_after == -(-(20_000 - silent) // 1000)
            assert f"m3 silent, {silent / 1000:.0f} of 20 s: then the others continue without it" in str(why)


def test_where_nobody_is_given_up_all_wait_for_it() -> None:
    one, other = heard_once(ClusterSettings(max_peer_lag=inf), "m3")
    exchange([one, other], 50_000)
    why = write_obstacle(one.core.cluster(), 50_000)
    assert why is not None
    assert "m3 silent for 48 s: all wait for it, as max-peer-lag is off" in str(why)
    assert waits_for(one.core.cluster(), 50_000, MASTERS)[0]["of_s"] is None


@pytest.mark.parametrize("recovery", SplitRecovery)
def test_a_side_without_a_majority(recovery: SplitRecovery) -> None:
    """With Quorum it waits for others, with Smart it goes on; a majority goes on in both."""
    settings = ClusterSettings(max_peer_lag=5, split_recovery=recovery)
    one, other, alone = heard_once(settings)
    for at in range(3000, 11_000, 250):
        exchange([one, other], at)
        alone.turn(at)
    assert alone.core.view.members == ("m3",)
    assert write_obstacle(one.core.cluster(), 11_000) is None
    why = write_obstacle(alone.core.cluster(), 11_000)
    assert (type(why) is NoMajority) == (recovery is SplitRecovery.QUORUM)
    assert waits_for(alone.core.cluster(), 10_000, MASTERS) == []
    assert split_headers(one.core.cluster()) == ()
    assert split_headers(alone.core.cluster()) == ((b"quadlog-split", b"fork=0; side=minority"),)


def test_members_that_lost_their_disks_are_told_though_nobody_is_absent() -> None:
    [one, *_] = heard_once(ClusterSettings(max_peer_lag=20))
    lost = tuple(RejoinedMember(name, bytes(16), blank=True) for name in ("m2", "m3"))
    view = View(epoch=2, members=("m1", "m2", "m3"), returned=lost)
    cluster = replace(one.core.cluster(), standing=HardState(view=view), may_agree=False, has_majority=False)
    [trouble] = split_troubles(cluster, HEARD_MS)
    assert trouble.name is AlarmName.WITHOUT_MAJORITY
    assert trouble.reason.startswith("m2, m3 lost their disks: m1, m2, m3 is no majority")
    alone = replace(cluster, standing=HardState(view=no_view(bytes(16))))
    assert [one.reason for one in split_troubles(alone, HEARD_MS)] == [
        "m1 lost its disk, and waits to be let in"
    ]


def test_half_of_the_data_centres_may_be_all_that_is_left() -> None:
    one = Member("m1", {"m1": "dc1", "m2": "dc2"}, settings=ClusterSettings(max_peer_lag=5))
    for at in range(0, 10_000, 250):
        one.turn(at)
    assert one.core.view.members == ("m1",)
    assert split_headers(one.core.cluster()) == ((b"quadlog-split", b"fork=0; side=unknown"),)
