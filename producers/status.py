"""Producer of workers' heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from producers import Producer
from quadlog import codec

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat
    from quadlog.ports import Acked, Outlet


class StatusProducer(Producer):
    """Producer of heartbeats."""

    def __init__(self, outlet: Outlet, topic: str, acked: Acked | None = None) -> None:
        """Write to `topic`, the local data centre's status topic; `acked` is called for each acknowledged heartbeat."""
        super().__init__(outlet, topic, writer="")  # each heartbeat names its worker
        self._acked, self._count = acked, 0

    def publish(self, beat: Heartbeat) -> None:
        """Write one heartbeat."""
        self._count += 1
        self._write(
            "heartbeat",
            [codec.encode(beat)],
            key=beat.worker,
            event=f"{beat.sent}/{self._count}",
            at=beat.sent,
            acked=self._acked,
            source=beat.worker,
        )
