"""Outside: a master that is not a peer takes no writes, and says who does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.errors import NotAPeer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.agreement import Agreement
    from quadlog.settings import MasterSettings

READ_WRITE: Final = "read-write"
OUTSIDE: Final = "outside"


def role_of(agreement: Agreement) -> str:
    """What a master does for clients, as a status has it."""
    return READ_WRITE if agreement.is_peer else OUTSIDE


def urls_of(settings: MasterSettings) -> Mapping[str, str]:
    """Of each master that the settings name where it is asked, this one included."""
    return {settings.node_id: settings.master_url} | {peer.id: peer.url for peer in settings.peer.values()}


def voting_of(settings: MasterSettings) -> Mapping[str, bool]:
    """Of each master that the settings name whether it is a peer where the log begins."""
    others = {peer.id: peer.voting for peer in settings.peer.values()}
    return {settings.node_id: settings.voting} | others


def refuse_outside(agreement: Agreement, settings: MasterSettings) -> None:
    """Refuse a write, unless this master is a peer.

    Raises:
        NotAPeer: definite; nothing was logged.

    """
    if agreement.is_peer:
        return
    urls, peers = urls_of(settings), agreement.peers
    where = ", ".join(urls.get(peer.node, peer.node) for peer in peers if peer.node != settings.node_id)
    raise NotAPeer(
        f"{settings.node_id} of {settings.dc} is not a peer, as far as it was told: it serves reads and takes no"
        f" writes. This request logged nothing; write at {where}, with the same Idempotency-Key if there was one"
    )
