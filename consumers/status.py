"""Heartbeats: what the workers of this data centre say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.records import Heartbeat

if TYPE_CHECKING:
    from quadlog.ports import Record


def hear(record: Record) -> Heartbeat | None:
    """The heartbeat in a record; what else may stand on the topic some day is passed over."""
    said = codec.decode(record.value)
    return said if isinstance(said, Heartbeat) else None
