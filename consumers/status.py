"""Consumer of the heartbeats of this data centre's workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.records import Heartbeat

if TYPE_CHECKING:
    from quadlog.ports import Record


def hear(record: Record) -> Heartbeat | None:
    """Return the heartbeat in a record; None for any other record, which the topic may contain in future."""
    said = codec.decode(record.value)
    return said if isinstance(said, Heartbeat) else None
