"""Where a master stands, as its store keeps it."""

from __future__ import annotations

import json
from typing import Any

from quadlog.core.model import Standing, View


def pack_standing(standing: Standing) -> bytes:
    """As JSON.

    >>> view = View(epoch=2, members=("m1", "m2"), parent=bytes(32))
    >>> standing = Standing(view=view, ballot=view, promise=2, given_up=("m2",))
    >>> unpack_standing(pack_standing(standing)) == standing
    True
    """
    return json.dumps(
        {
            "view": _packed(standing.view),
            "ballot": standing.ballot and _packed(standing.ballot),
            "promise": standing.promise,
            "joining": standing.joining and _packed(standing.joining),
            "given_up": standing.given_up,
        }
    ).encode()


def unpack_standing(value: bytes) -> Standing:
    """What was packed."""
    said = json.loads(value)
    return Standing(
        view=_unpacked(said["view"]),
        ballot=said["ballot"] and _unpacked(said["ballot"]),
        promise=said["promise"],
        joining=said["joining"] and _unpacked(said["joining"]),
        given_up=tuple(said["given_up"]),
    )


def _packed(view: View) -> tuple[int, tuple[str, ...], str]:
    return view.epoch, view.members, view.parent.hex()


def _unpacked(value: Any) -> View:  # noqa: ANN401 - JSON
    epoch, members, parent = value
    return View(epoch=epoch, members=tuple(members), parent=bytes.fromhex(parent))
