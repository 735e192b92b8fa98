"""`/cluster/status`: what this master knows of itself, its workers and its peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadlog.clock import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.master.node import Node
    from quadlog.settings import MasterSettings


def cluster_status(node: Node, settings: MasterSettings, dc_of: Mapping[str, str]) -> dict[str, Any]:
    """The whole status; its names are relied on outside (see ARCHITECTURE)."""
    agreement = node.agreement
    moment = now().steady
    last, view = agreement.last, agreement.view
    return {
        "node": settings.node_id,
        "dc": settings.dc,
        "repository": settings.repository,
        "kafka": settings.kafka,
        "role": "read-write",
        "leads": node.chores.leads,
        "duty": {
            "dc": node.chores.duty.agreed.dc,
            "handover": node.chores.duty.agreed.index,
            "epoch": node.chores.duty.agreed.epoch,
            "here": node.chores.duty.is_here,
        },
        "view": {
            "epoch": view.epoch,
            "members": list(view.members),
            "home": view.home,
            "id": view.id.hex(),
        },
        "agreed_index": last.index,
        "agreed_chain": last.chain.hex(),
        "seed": node.seed and {"signature": node.seed.signature.hex(), "quads": node.seed.quads},
        "settled_index": node.desk.settled,
        "incoming": len(agreement.queue),
        "waiting": len(node.desk),
        "limbo": {"length": 0, "oldest_s": 0, "quorum": None},
        "split": _split(node, dc_of),
        "rounds": node.store.rounds,
        "synced_writes": node.store.synced_writes,
        "ignored_posts": dict(agreement.ignored),
        "unreadable_records": dict(node.unreadable),
        "workers": [
            {
                "id": worker.beat.worker,
                "url": worker.beat.url,
                "state": node.crew.state(worker, moment),
                "evaluating": worker.beat.evaluating,
                "applied_index": worker.beat.applied.index,
                "applied_chain": worker.beat.applied.chain.hex(),
                "signature": worker.beat.signature.hex(),
                "quads": worker.beat.quads,
                "reads": worker.reading,
                "heard_ms_ago": round(moment - worker.heard_at) if worker.heard_at > 0 else None,
            }
            for worker in node.crew.all()
        ],
        "alarms": [alarm.as_json() for alarm in node.watch.alarms.all()],
        "peers": [_peer(node, name, dc, moment) for name, dc in dc_of.items() if name != settings.node_id],
    }


def _split(node: Node, dc_of: Mapping[str, str]) -> dict[str, Any]:
    """Whether this master's view lacks anyone, and whether it is about to give way to a stronger side."""
    standing, fork = node.agreement.standing, node.joining.fork
    state = "joining" if standing.joining else "apart" if len(standing.view.members) < len(dc_of) else "none"
    return {"state": state, "strategy": None, "fork_index": None if fork is None else fork.index}


def _peer(node: Node, name: str, dc: str, moment: float) -> dict[str, Any]:
    agreement = node.agreement
    heard_at, member = agreement.heard_at.get(name), agreement.members.get(name)
    lag = None if heard_at is None else round(moment - heard_at)
    silent = lag is None or lag > agreement.pace.idle * 3
    return {
        "id": name,
        "dc": dc,
        "state": "silent" if silent else "relayed" if dc in node.relay.unheard else "connected",
        "lag_ms": lag,
        "agreed_index": member.base.index if member else None,
        "incarnation": member.incarnation.hex() if member else None,
    }
