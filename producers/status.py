"""Heartbeats of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import headers

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat
    from quadlog.ports import Acked, Outlet


class StatusProducer:
    """Says heartbeats."""

    def __init__(self, outlet: Outlet, topic: str, acked: Acked | None = None) -> None:
        """`topic`: the own data centre's status; `acked`: called for each heartbeat that is there."""
        self._outlet, self._topic, self._acked = outlet, topic, acked
        self._count = 0

    def say(self, beat: Heartbeat) -> None:
        """Send one heartbeat."""
        self._count += 1
        envelope = headers(
            event=f"{beat.sent}/{self._count}", source=beat.worker, kind="quadlog.heartbeat", at=beat.sent
        )
        self._outlet.produce(
            self._topic,
            key=beat.worker.encode(),
            values=[codec.encode_heartbeat(beat)],
            headers=envelope,
            acked=self._acked,
        )
