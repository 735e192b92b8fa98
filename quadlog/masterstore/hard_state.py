"""Encoding of a master's standing, and of the duty, in its store: JSON, with bytes as hex digits."""

from __future__ import annotations

from typing import Final

from pydantic import ConfigDict, TypeAdapter

from quadlog.core.model import HardState
from quadlog.core.records import Handover

_HEX: Final = ConfigDict(ser_json_bytes="hex", val_json_bytes="hex")
# In a tuple: for a dataclass alone no config is accepted.
_STANDING: Final = TypeAdapter(tuple[HardState], config=_HEX)
DUTY: Final = TypeAdapter(tuple[Handover, Handover], config=_HEX)
"""The newest handover as agreed, and the newest one in the effects."""


def pack_standing(standing: HardState) -> bytes:
    """Encode a standing.

    >>> from dataclasses import replace
    >>> from quadlog.core.model import AgreedSetting, Peer, RejoinedMember, View
    >>> view = View(epoch=2, members=("m1", "m2"), parent=bytes(32), home="dc1")
    >>> back = View(epoch=3, members=("m1", "m2"), returned=(RejoinedMember("m2", bytes(16), blank=True),))
    >>> standing = HardState(view=view, ballot=back, promise=2, given_up=("m2",), newest=(("m2", bytes(16)),))
    >>> unpack_standing(pack_standing(standing)) == standing
    True
    >>> unpack_standing(pack_standing(standing).replace(b'"dropped":0,', b"")) == standing
    True
    >>> peers = (Peer("m1", "dc1"), Peer("m2", "dc2"))
    >>> view = View(epoch=4, members=("m1", "m2"), peers=peers, before=peers[:1])
    >>> setting = AgreedSetting("max-peer-lag", "5", 7, 1795874400000, "dc1-m1")
    >>> standing = HardState(view=view, changes=(peers[1:],), forced=peers[:1], outside=True)
    >>> standing = replace(standing, settings=(setting,), fork=3, dropped=6, approved=5)
    >>> unpack_standing(pack_standing(standing)) == standing
    True
    """
    return _STANDING.dump_json((standing,))


def unpack_standing(value: bytes) -> HardState:
    """Decode a standing; a field that is not in the value has its default."""
    [standing] = _STANDING.validate_json(value)
    return standing
