"""Encoding of a master's standing in its store."""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import Any

from quadlog.core.model import AgreedSetting, HardState, Peer, RejoinedMember, View


def pack_standing(standing: HardState) -> bytes:
    """Encode a standing as JSON.

    >>> from dataclasses import replace
    >>> view = View(epoch=2, members=("m1", "m2"), parent=bytes(32), home="dc1")
    >>> back = View(epoch=3, members=("m1", "m2"), returned=(RejoinedMember("m2", bytes(16), blank=True),))
    >>> standing = HardState(view=view, ballot=back, promise=2, given_up=("m2",), newest=(("m2", bytes(16)),))
    >>> unpack_standing(pack_standing(standing)) == standing
    True
    >>> unpack_standing(pack_standing(standing).replace(b'"dropped": 0, ', b"")) == standing
    True
    >>> peers = (Peer("m1", "dc1"), Peer("m2", "dc2"))
    >>> view = View(epoch=4, members=("m1", "m2"), peers=peers, before=peers[:1])
    >>> setting = AgreedSetting("max-peer-lag", "5", 7, 1795874400000, "dc1-m1")
    >>> standing = HardState(view=view, changes=(peers[1:],), forced=peers[:1], outside=True)
    >>> standing = replace(standing, settings=(setting,), fork=3, dropped=6, approved=5)
    >>> unpack_standing(pack_standing(standing)) == standing
    True
    """
    return json.dumps(
        {
            "view": _packed(standing.view),
            "ballot": standing.ballot and _packed(standing.ballot),
            "dropped": standing.dropped,
            "promise": standing.promise,
            "joining": standing.joining and _packed(standing.joining),
            "given_up": standing.given_up,
            "newest": [(name, incarnation.hex()) for name, incarnation in standing.newest],
            "changes": standing.changes,
            "forced": standing.forced,
            "outside": standing.outside,
            "fork": standing.fork,
            "approved": standing.approved,
            "settings": [astuple(one) for one in standing.settings],
        }
    ).encode()


def unpack_standing(value: bytes) -> HardState:
    """Decode a standing."""
    said = json.loads(value)
    return HardState(
        view=_unpacked(said["view"]),
        ballot=said["ballot"] and _unpacked(said["ballot"]),
        dropped=said.get("dropped", 0),  # missing: written before decision 60, when no vote was dropped
        promise=said["promise"],
        joining=said["joining"] and _unpacked(said["joining"]),
        given_up=tuple(said["given_up"]),
        newest=tuple((name, bytes.fromhex(value)) for name, value in said["newest"]),
        changes=tuple(_peers(peers) for peers in said["changes"]),
        forced=_peers(said["forced"]),
        outside=said["outside"],
        fork=said["fork"],
        approved=said.get("approved", 0),  # missing: written before decision 66
        settings=tuple(AgreedSetting(*one) for one in said["settings"]),
    )


def _packed(view: View) -> tuple[Any, ...]:
    returned = [(one.node, one.incarnation.hex(), one.blank) for one in view.returned]
    return view.epoch, view.members, view.parent.hex(), view.home, returned, view.peers, view.before


def _unpacked(value: Any) -> View:  # noqa: ANN401 - JSON
    epoch, members, parent, home, returned, peers, before = value
    return View(
        epoch=epoch,
        members=tuple(members),
        parent=bytes.fromhex(parent),
        home=home,
        returned=tuple(
            RejoinedMember(node, bytes.fromhex(incarnation), blank) for node, incarnation, blank in returned
        ),
        peers=_peers(peers),
        before=_peers(before),
    )


def _peers(value: Any) -> tuple[Peer, ...]:  # noqa: ANN401 - JSON
    return tuple(Peer(node, dc) for node, dc in value)
