"""`/cluster/status`: what this master knows about itself, its workers and its peers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from quadlog.clock import now
from quadlog.codec.envelope import text_moment
from quadlog.master.clients.limbo_state import limbo_status
from quadlog.master.clients.split_state import MISSED_ROUNDS, waits_for
from quadlog.master.clients.write_guards import OUTSIDE, role_of, roles_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import RejoinReport
    from quadlog.master.node.node import Node
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.settings import MasterSettings


def cluster_status(node: Node, settings: MasterSettings, dc_of: Mapping[str, str]) -> dict[str, Any]:
    """Return the whole status; other programs rely on its names (see `docs/operating.md`)."""
    cluster = node.cluster
    moment = now().steady
    last, view = cluster.last, cluster.view
    return {
        "node": settings.node_id,
        "dc": settings.dc,
        "repository": settings.repository,
        "kafka": settings.kafka,
        "role": role_of(cluster, settings),
        "write_protected": None
        if node.worker_registry.odd_one is None
        else node.worker_registry.odd_one.beat.worker,
        "leads": node.leader_tasks.leads,
        "duty": {
            "dc": node.leader_tasks.duty.agreed.dc,
            "handover": node.leader_tasks.duty.agreed.index,
            "epoch": node.leader_tasks.duty.agreed.epoch,
            "here": node.leader_tasks.duty.is_here,
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
        "settled_index": node.pending_requests.settled,
        "incoming": cluster.incoming,
        "waiting": len(node.pending_requests),
        "limbo": limbo_status(cluster, moment),
        "split": _split(node, moment),
        "split_reports": node.split_reporter.status(),
        "rounds": node.store.rounds,
        "synced_writes": node.store.synced_writes,
        "ignored_posts": dict(cluster.ignored),
        "unreadable_records": dict(node.dispatcher.unreadable),
        "workers": workers_status(node.worker_registry, moment),
        "alarms": [alarm.as_json() for alarm in node.watch.alarms.all()],
        "peers": [
            {**_peer(node, name, dc, moment), "role": roles_of(settings).get(name)}
            for name, dc in dc_of.items()
            if name != settings.node_id
        ],
    }


def workers_status(worker_registry: WorkerRegistry, moment: float) -> list[dict[str, Any]]:
    """Return the status of each worker of this data centre; `moment`: steady milliseconds."""
    return [
        {
            "id": worker.beat.worker,
            "url": worker.beat.url,
            "state": worker_registry.state(worker, moment),
            "evaluating": worker.beat.evaluating,
            "applied_index": worker.beat.applied.index,
            "applied_chain": worker.beat.applied.chain.hex(),
            "signature": worker.beat.signature.hex(),
            "quads": worker.beat.quads,
            "catching_up": worker.beat.catching_up and asdict(worker.beat.catching_up),
            "reads": worker.reading,
            "heard_ms_ago": round(moment - worker.heard_at) if worker.heard_at > 0 else None,
        }
        for worker in worker_registry.all()
    ]


def _split(node: Node, moment: float) -> dict[str, Any]:
    """Return whether this master's view lacks a peer, and whether it is about to give way to a stronger side."""
    cluster, fork = node.cluster, node.joining.fork
    standing = cluster.standing
    lacks = any(peer.node not in standing.view.members for peer in cluster.peers)
    apart_state = "unapproved" if cluster.held is not None else "apart" if lacks else "none"
    state = "joining" if standing.joining else apart_state
    apart = "unknown" if cluster.is_half else "minority"
    together = None if state == "none" else "majority"
    side = together if cluster.has_majority else apart
    return {
        "state": state,
        "phase": cluster.join_phase,
        "strategy": cluster.settings.split_recovery,
        "side": side,
        "waits_for": waits_for(cluster, moment, node.dc_of),
        "rejoined": rejoined_of(node.rejoined),
        "fork_index": standing.fork if fork is None else fork.index,
    }


def rejoined_of(report: RejoinReport | None) -> dict[str, Any] | None:
    """Return what a master gave up, as the status shows it."""
    return report and {**report._asdict(), "at": text_moment(report.at)}


def _peer(node: Node, name: str, dc: str, moment: float) -> dict[str, Any]:
    cluster = node.cluster
    member, lag = cluster.masters.get(name), _lag(node, name, moment)
    silent = is_silent(node, name, moment)
    state = "silent" if silent else "relayed" if dc in node.relay.reachability.unheard else "connected"
    return {
        "id": name,
        "dc": dc,
        "state": state if any(peer.node == name for peer in cluster.peers) else OUTSIDE,
        "lag_ms": None if lag is None else round(lag),
        "agreed_index": member.base.index if member else None,
        "incarnation": _incarnation(node, name),
        "rejoined": rejoined_of(member.rejoined) if member else None,
    }


def _incarnation(node: Node, name: str) -> str | None:
    """Return the newest known incarnation of a master; it may be one that only marks an older one as void."""
    cluster = node.cluster
    member, newest = cluster.masters.get(name), dict(cluster.standing.newest).get(name)
    known = [one for one in (newest, member and member.incarnation) if one]
    return max(known).hex() if known else None


def is_silent(node: Node, name: str, moment: float) -> bool:
    """Return whether nothing arrived from another master for some idle rounds."""
    lag = _lag(node, name, moment)
    return lag is None or lag > node.cluster.idle * MISSED_ROUNDS


def _lag(node: Node, name: str, moment: float) -> float | None:
    """Return the milliseconds since another master was heard; None if it was never heard.

    The time of the relay counts as well, because the agreement listens to peers only.
    """
    times = node.cluster.heard_at.get(name), node.relay.reachability.heard_at(name)
    heard = [at for at in times if at is not None]
    return moment - max(heard) if heard else None
