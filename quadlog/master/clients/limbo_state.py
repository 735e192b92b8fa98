"""The limbo for operators: undecided synchronous transactions, what they wait for, and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from quadlog.codec.envelope import text_id
from quadlog.master.workers.alarms import AlarmName, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.core.agreement.cluster_view import ClusterView

NO_MORE: Final = "and there are not so many: lower synchro-quorum"

WAITS_MS: Final = 2_000.0
"""Milliseconds that a synchronous transaction may be undecided before an alarm is raised."""


def limbo_status(cluster: ClusterView, moment: float) -> dict[str, Any]:
    """Return the limbo as `/cluster/status` shows it; `moment`: steady milliseconds."""
    limbo, settings = cluster.limbo, cluster.settings
    last = limbo.last_decision
    return {
        "length": limbo.length,
        "oldest_s": round(_oldest_ms(cluster, moment) / 1000, 3),
        "quorum": limbo.quorum,
        "quorum_formula": settings.synchro_quorum,
        "timeout_s": settings.synchro_timeout,
        "first": [
            {
                "index": one.index,
                "id": text_id(one.id),
                "waits_s": round(max(0.0, moment - one.since) / 1000, 3),
                "confirmed_by": confirmed_by(cluster, one.index),
            }
            for one in limbo.first
        ],
        "confirmations": dict(sorted(limbo.confirmations.items())),
        "last_decision": last and {"index": last[0], "kind": last[1], "target": last[2]},
    }


def confirmed_by(cluster: ClusterView, index: int) -> list[str]:
    """Return the data centres that have the log up to an index durably, as far as this master heard in its view."""
    return sorted(dc for dc, had in cluster.limbo.confirmations.items() if had >= index)


def lacking(cluster: ClusterView, index: int) -> str:
    """Return how many data centres must have the log up to an index, and which of them are not known to."""
    missing = sorted({peer.dc for peer in cluster.peers}.difference(confirmed_by(cluster, index)))
    lacks = f"{', '.join(missing)} not known to" if missing else NO_MORE
    return f"{cluster.limbo.quorum} data centres must have it, {lacks}"


def limbo_troubles(cluster: ClusterView, moment: float) -> Iterator[Trouble]:
    """Yield what an operator must know of the limbo and of an unsuitable quorum; `moment`: steady milliseconds."""
    if not cluster.is_peer:
        return
    limbo, formula = cluster.limbo, cluster.settings.synchro_quorum
    centres = len({peer.dc for peer in cluster.peers})
    if limbo.quorum > centres:
        reason = f"{formula} is {limbo.quorum}, of {centres} data centres: all synchronous transactions are rolled back"
        yield Trouble(name=AlarmName.QUORUM, reason=reason)
    elif limbo.quorum * 2 <= centres and centres > 1:
        reason = (
            f"{formula} is {limbo.quorum}, of {centres} data centres: what is committed may be lost with them"
        )
        yield Trouble(name=AlarmName.QUORUM, reason=reason)
    if _oldest_ms(cluster, moment) >= WAITS_MS:
        yield Trouble(
            name=AlarmName.LIMBO,
            index=limbo.first[0].index,
            transaction=limbo.first[0].id,
            reason=_reason(cluster, moment),
        )


def _oldest_ms(cluster: ClusterView, moment: float) -> float:
    first = cluster.limbo.first
    return max(0.0, moment - first[0].since) if first else 0.0


def _reason(cluster: ClusterView, moment: float) -> str:
    limbo = cluster.limbo
    index, seconds = limbo.first[0].index, _oldest_ms(cluster, moment) / 1000
    waits = f"{limbo.length} synchronous, the first at {index} for {seconds:.0f} s"
    if not cluster.has_majority:
        members = cluster.view.names
        return f"{waits}: this side holds no majority and decides nothing (members of its view: {members})"
    return f"{waits}: {lacking(cluster, index)}"
