"""Producer of workers' heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import headers

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat
    from quadlog.ports import Acked, Outlet


class StatusProducer:
    """Producer of heartbeats."""

    def __init__(self, outlet: Outlet, topic: str, acked: Acked | None = None) -> None:
        """Write to `topic`, the local data centre's status topic; `acked` is called for each acknowledged heartbeat."""
        self._outlet, self._topic, self._acked = outlet, topic, acked
        self._count = 0

    def publish(self, beat: Heartbeat) -> None:
        """Write one heartbeat."""
        self._count += 1
        envelope = headers(
            event=f"{beat.sent}/{self._count}", source=beat.worker, kind="quadlog.heartbeat", at=beat.sent
        )
        self._outlet.produce(
            self._topic,
            key=beat.worker.encode(),
            values=[codec.encode(beat)],
            headers=envelope,
            acked=self._acked,
        )
