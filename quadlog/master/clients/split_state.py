"""The state of a split, for clients and operators: silent members, troubles and headers."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog.core.cluster_settings import SplitRecovery
from quadlog.core.membership.electorate import are_majority
from quadlog.master.workers.alarms import AlarmName, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.core.model import Peer

MISSED_ROUNDS: Final = 3
"""Idle rounds without a post after which a master counts as silent; one that goes on may miss two."""


class SilentMember(NamedTuple):
    """A member of the view that is not heard."""

    node: str
    silent_ms: float
    """Milliseconds since it was heard last."""
    lag_ms: float
    """Milliseconds of silence after which it is given up; infinite: never."""

    def __str__(self) -> str:
        """Describe how far the wait has gone.

        >>> print(SilentMember("dc3-m1", 14_200.0, 20_000.0))
        dc3-m1 silent, 14 of 20 s
        >>> print(SilentMember("dc3-m1", 14_200.0, inf))
        dc3-m1 silent for 14 s
        """
        seconds = f"{self.silent_ms / 1000:.0f}"
        if self.lag_ms == inf:
            return f"{self.node} silent for {seconds} s"
        return f"{self.node} silent, {seconds} of {self.lag_ms / 1000:g} s"


def silent_members(cluster: ClusterView, moment: float) -> list[SilentMember]:
    """Return the members of the view that missed some rounds, the longest silence first.

    Nothing is agreed until they are heard again or given up.
    """
    lag = cluster.settings.lag_ms(cluster.idle)
    silent = [SilentMember(name, moment - at, lag) for name, at in cluster.last_heard.items()]
    late = [one for one in silent if one.silent_ms > MISSED_ROUNDS * cluster.idle]
    return sorted(late, key=lambda one: (-one.silent_ms, one.node))


def split_troubles(cluster: ClusterView, moment: float) -> Iterator[Trouble]:
    """Yield what an operator must know of a split; `moment`: steady milliseconds."""
    if not cluster.is_peer:
        return
    if cluster.settings.split_recovery is SplitRecovery.QUORUM and (alone := _indispensable(cluster.peers)):
        reason = f"if {' or '.join(alone)} is lost, the others are no majority and accept no writes"
        yield Trouble(name=AlarmName.UNWITNESSED, reason=reason)
    if silent := silent_members(cluster, moment):
        reason = ", ".join(map(str, silent))
        yield Trouble(name=AlarmName.SILENT, index=cluster.last.index, reason=reason)
    view = cluster.view
    if cluster.held is not None:
        reason = (
            f"the side of {', '.join(cluster.held.members)} is stronger, and this one has entries after"
            f" {cluster.standing.fork}: it gives way once that is approved (split-approval manual)"
        )
        yield Trouble(name=AlarmName.UNAPPROVED, index=cluster.last.index, reason=reason)
    absent = sorted({peer.node for peer in cluster.peers}.difference(view.members))
    if not cluster.may_agree:
        reason = _without_majority(cluster, absent)
        yield Trouble(name=AlarmName.WITHOUT_MAJORITY, index=cluster.last.index, reason=reason)
    elif absent:
        reason = f"{', '.join(absent)} not in the view: {', '.join(view.members)} goes on without them"
        yield Trouble(name=AlarmName.MISSING, index=cluster.last.index, reason=reason)


def _without_majority(cluster: ClusterView, absent: Sequence[str]) -> str:
    """Return why this side agrees on nothing; `absent`: peers that are not in the view."""
    view = cluster.view
    if not view.members:
        return f"{cluster.node} lost its disk, and waits to be let in"
    missing = f"{', '.join(absent)} not in the view"
    lost = f"{', '.join(sorted(view.blank))} lost their disks"
    return f"{missing if absent else lost}: {', '.join(view.members)} is no majority and agrees on nothing"


@lru_cache(maxsize=8)
def _indispensable(peers: tuple[Peer, ...]) -> tuple[str, ...]:
    """Return the data centres, or else the masters, without any one of which no majority is left of the others.

    >>> from quadlog.core.model import Peer
    >>> _indispensable((Peer("a", "dc1"), Peer("b", "dc2")))
    ('dc1', 'dc2')
    >>> _indispensable((Peer("a", "dc1"), Peer("b", "dc2"), Peer("c", "dc3")))
    ()
    >>> _indispensable((Peer("a", "dc1"), Peer("b", "dc1")))
    ('a', 'b')
    """
    for named in (attrgetter("dc"), attrgetter("node")):
        parts = sorted({named(peer) for peer in peers})
        left = {part: [peer.node for peer in peers if named(peer) != part] for part in parts}
        found = tuple(part for part, names in left.items() if names and not are_majority(names, peers))
        if found:
            return found
    return ()


def split_headers(cluster: ClusterView) -> Sequence[tuple[bytes, bytes]]:
    """Return the header for every answer of a side that may have to give way; none on a majority's side.

    `side` is `unknown` if exactly half of the voting data centres are here: the others may be elsewhere, or lost.
    """
    fork = cluster.standing.fork
    if fork is None or cluster.has_majority or not cluster.is_peer:
        return ()
    side = "unknown" if cluster.is_half else "minority"
    return ((b"quadlog-split", f"fork={fork}; side={side}".encode()),)


def waits_for(cluster: ClusterView, moment: float, dc_of: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the silent members of the view as `/cluster/status` shows them."""
    return [
        {
            "id": one.node,
            "dc": dc_of.get(one.node),
            "silent_s": round(one.silent_ms / 1000, 1),
            "of_s": None if one.lag_ms == inf else one.lag_ms / 1000,
        }
        for one in silent_members(cluster, moment)
    ]
