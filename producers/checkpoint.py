"""Producer of checkpoints: the state that the agreed and the effects topic lack once they are shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from producers import Producer
from quadlog import codec

if TYPE_CHECKING:
    from quadlog.core.records import Checkpoint
    from quadlog.ports import Acked


class CheckpointProducer(Producer):
    """Producer of checkpoints; the topic keeps the last one of each master."""

    def publish(self, checkpoint: Checkpoint, acked: Acked, *, at: int) -> None:
        """Write one checkpoint.  No record may be deleted before it is acknowledged.  `at`: milliseconds since 1970."""
        event = f"{checkpoint.last.index}/{checkpoint.last.chain.hex()[:16]}"
        value = codec.encode(checkpoint)
        self._write("checkpoint", [value], key=self._writer, event=event, at=at, acked=acked)
