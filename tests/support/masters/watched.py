"""Heartbeats that agree or differ, for the watch over signatures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from quadlog.core.model import GENESIS, LogPosition
from tests.support.masters.beats import beat as any_beat

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat


def state(number: int) -> bytes:
    return bytes([number]) * 32


def beat(worker: str, index: int, *, signature: int | None = None, store: str = "first") -> Heartbeat:
    """What a worker says that is right at this index, unless it has another signature."""
    chain = state(100 + index) if index else GENESIS
    return replace(
        any_beat(worker),
        applied=LogPosition(index, chain),
        signature=state(index if signature is None else signature),
        store=store,
    )
