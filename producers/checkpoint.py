"""Producer of checkpoints: the state that the agreed and the effects topic lack once they are shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import headers

if TYPE_CHECKING:
    from quadlog.core.records import Checkpoint
    from quadlog.ports import Acked, Outlet


class CheckpointProducer:
    """Producer of checkpoints; the topic keeps the last one of each master."""

    def __init__(self, outlet: Outlet, topic: str, writer: str) -> None:
        """Write to `topic`, the local data centre's checkpoint topic, as the master with the id `writer`."""
        self._outlet, self._topic, self._writer = outlet, topic, writer

    def publish(self, checkpoint: Checkpoint, acked: Acked, *, at: int) -> None:
        """Write one checkpoint.  No record may be deleted before it is acknowledged.  `at`: milliseconds since 1970."""
        last = checkpoint.last
        envelope = headers(
            event=f"{last.index}/{last.chain.hex()[:16]}",
            source=self._writer,
            kind="quadlog.checkpoint",
            at=at,
        )
        self._outlet.produce(
            self._topic,
            key=self._writer.encode(),
            values=[codec.encode(checkpoint)],
            headers=envelope,
            acked=acked,
        )
