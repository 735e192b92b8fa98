"""Refusals of writes, with the masters that accept them: read-only, outside, a split, out of sync, muted."""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING, Final

from quadlog.errors import NoMajority, NotAPeer, OutcomeUnknown, ReadOnly, Unavailable, WriteProtected
from quadlog.master.clients.split_state import silent_members
from quadlog.settings import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.settings import MasterSettings

OUTSIDE: Final = "outside"

PATIENCE_ROUNDS: Final = 5
"""Idle rounds, but at least `PATIENCE_MS`, for which a write waits for a silent member; a later one is refused."""
PATIENCE_MS: Final = 5000.0
"""A master, or its broker, that is restarted is heard again before that."""
RETRY_S: Final = 5
"""Seconds after which a client may try again where the end of the wait is not known."""
PROTECTED_S: Final = 5
"""Seconds after which a client may try again: a rebuild, or the end of a split, has no fixed duration."""


def role_of(cluster: ClusterView, settings: MasterSettings) -> str:
    """Return the role of a master towards clients, as its status reports it."""
    return settings.role.value if cluster.is_peer else OUTSIDE


def urls_of(settings: MasterSettings) -> Mapping[str, str]:
    """Return the URL of each master that the settings name, including this one."""
    return {settings.node_id: settings.master_url} | {peer.id: peer.url for peer in settings.peer.values()}


def voting_of(settings: MasterSettings) -> Mapping[str, bool]:
    """Return for each master that the settings name whether it is a peer when the log begins."""
    others = {peer.id: peer.voting for peer in settings.peer.values()}
    return {settings.node_id: settings.voting} | others


def roles_of(settings: MasterSettings) -> Mapping[str, Role]:
    """Return the role of each master that the settings name."""
    return {settings.node_id: settings.role} | {peer.id: peer.role for peer in settings.peer.values()}


def refuse_writes(cluster: ClusterView, settings: MasterSettings) -> None:
    """Refuse a write, unless this master is a peer that accepts writes.

    Raises:
        ReadOnly: definite; nothing was logged.
        NotAPeer: definite; nothing was logged.

    """
    if settings.role is Role.READ_ONLY:
        raise ReadOnly(
            f"{settings.node_id} of {settings.dc} is read-only: it votes, and takes no writes, strict reads, imports or"
            f" changes of the peers. This request logged nothing; send it to {_writers(cluster, settings)}, with the"
            " same Idempotency-Key if there was one"
        )
    if not cluster.is_peer:
        raise NotAPeer(
            f"{settings.node_id} of {settings.dc} is not a peer, as far as it was told: it serves reads and takes no"
            f" writes. This request logged nothing; write at {_writers(cluster, settings)}, with the same"
            " Idempotency-Key if there was one"
        )


def write_obstacle(cluster: ClusterView, moment: float) -> Unavailable | None:
    """Return why a new write cannot be agreed now; None if it can.  `moment`: steady milliseconds."""
    if not cluster.may_agree:
        members = cluster.view.names
        return NoMajority(
            f"{cluster.node} is on a side without a majority of the voting data centres (members of its view:"
            f" {members}), which agrees on nothing while split-recovery is {cluster.settings.split_recovery}. Nothing"
            " was logged: write at a master of the majority, or again when the split is over",
            retry_after=RETRY_S,
        )
    silent = silent_members(cluster, moment)
    if not silent or silent[0].silent_ms <= max(PATIENCE_ROUNDS * cluster.idle, PATIENCE_MS):
        return None
    left = silent[0].lag_ms - silent[0].silent_ms
    end = "all wait for it, as max-peer-lag is off" if left == inf else "then the others continue without it"
    return Unavailable(
        f"{', '.join(map(str, silent))}: {end}. Nothing was logged; try again, or write when it is heard again",
        retry_after=RETRY_S if left == inf else max(1, ceil(left / 1000)),
    )


def taken_before(name: str, cluster: ClusterView, settings: MasterSettings) -> OutcomeUnknown:
    """Return a read-only master's answer to a write that another master accepted.

    Without workers, it cannot show the outcome.
    """
    writers = _writers(cluster, settings)
    return OutcomeUnknown(
        f"transaction {name} was taken before, and {settings.node_id} is read-only: it does not tell the outcome."
        f" Ask /tx/{name} at {writers}, or send it there again with the same Idempotency-Key",
        ask=f"{writers.split(', ')[0]}/tx/{name}",
    )


def without_majority(cluster: ClusterView) -> NoMajority:
    """Return the answer to a strict read whose barrier was not agreed by a majority."""
    members = cluster.view.names
    return NoMajority(
        f"strict reads need a majority of the voting data centres, and {cluster.node} had none when this one was"
        f" asked for (members of its view: {members}). Ask a master of the majority, ask again when the split is over,"
        " or send Quadlog-Consistency: session to read what is known here",
        retry_after=PROTECTED_S,
    )


def refuse_undecidable(cluster: ClusterView) -> None:
    """Refuse a synchronous transaction, unless the installed view holds a majority: nobody could decide it.

    Raises:
        NoMajority: definite; nothing was logged.

    """
    if not cluster.has_majority:
        members = cluster.view.names
        raise NoMajority(
            f"a synchronous transaction needs a majority of the voting data centres, and {cluster.node} has none"
            f" (members of its view: {members}). Nothing was logged: write at a master of the majority, or again when"
            " the split is over",
            retry_after=PROTECTED_S,
        )


def refuse_protected(worker_registry: WorkerRegistry) -> None:
    """Refuse a client's write while one of two workers is out of sync: the other one's state is then not proved.

    Raises:
        WriteProtected: definite; nothing was logged.

    """
    if (worker := worker_registry.odd_one) is not None and worker.wrong is not None:
        raise WriteProtected(
            f"{worker.beat.worker}, one of the two workers of this data centre, is out of sync"
            f" ({worker.wrong.name}: {worker.wrong.reason}). Nothing was logged; try again, or write at another data"
            " centre. With three workers a data centre goes on taking writes",
            retry_after=PROTECTED_S,
        )


def _writers(cluster: ClusterView, settings: MasterSettings) -> str:
    """Return the addresses of the masters that accept writes, as far as this one knows."""
    urls, roles = urls_of(settings), roles_of(settings)
    others = [peer.node for peer in cluster.peers if peer.node != settings.node_id]
    return ", ".join(urls.get(name, name) for name in others if roles.get(name) is not Role.READ_ONLY)


def muted(settings: MasterSettings) -> ReadOnly:
    """Return a muted master's answer to a request that would be logged, or that asks for an outcome."""
    writers = [peer.url for peer in settings.peer.values() if peer.role is Role.READ_WRITE]
    return ReadOnly(
        f"{settings.node_id} of {settings.dc} is muted: it follows {settings.source}, and takes no writes, strict"
        " reads, imports or changes of the peers, nor does it tell of transactions. This request logged nothing; send"
        f" it to {', '.join(sorted(writers))}, with the same Idempotency-Key if there was one"
    )
