"""Masters whose settings do not say the same of the roles: they tell, and go on together where nobody is waited for."""

from __future__ import annotations

from math import inf

import pytest

from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import PostingPace
from tests.support.agreement.cluster import Member

MASTERS = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}


@pytest.mark.parametrize("lag", [inf, 1.0])
def test_settings_that_differ_are_seen(lag: float) -> None:
    """m2 alone does not know that dc1 is a witness: its first view has another home."""
    witness, pace = frozenset({"dc1"}), PostingPace(idle=100.0)
    settings = ClusterSettings(max_peer_lag=lag)
    members = [
        Member(
            name,
            MASTERS,
            settings=settings,
            pace=pace,
            witnesses=frozenset[str]() if name == "m2" else witness,
        )
        for name in MASTERS
    ]
    assert [member.core.view.home for member in members] == ["dc2", "dc1", "dc2"]
    assert len({member.core.view.id for member in members}) == 1
    ignored = _rounds(members)
    if lag == inf:
        assert ignored == {"m1": {"m2"}, "m2": {"m1", "m3"}, "m3": {"m2"}}
        return
    views = [member.core.view for member in members]
    assert all(view == views[0] for view in views)
    assert views[0].members == ("m1", "m2", "m3")
    assert views[0].home != "dc1"


def _rounds(members: list[Member]) -> dict[str, set[str]]:
    """All hear all for a while; of each master whose posts did not count."""
    for at in range(5000, 15_000, 50):
        for member in members:
            member.turn(at)
        for member in members:
            for other in members:
                if other is not member:
                    member.hear(other.posts[-1], at)
                    member.follow(other, 100, at)
    return {member.name: {*member.core.ignored} for member in members}
