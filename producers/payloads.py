"""Producer of payloads: transactions as clients sent them, in the local data centre's Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from producers import Producer
from quadlog import codec
from quadlog.codec.envelope import ORIGIN_DC, ORIGIN_OFFSET, WRITER, text_id

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.ports import Acked


class PayloadsProducer(Producer):
    """Producer of the payloads of this master's clients, and of copies of the peers' payloads."""

    def publish(self, payload: Payload, acked: Acked, *, origin_offset: int | None = None) -> None:
        """Make a payload durable in this data centre; `acked` is called when all its chunks are.

        `origin_offset`: for a copy, the offset of the original's last chunk.
        """
        name = text_id(payload.transaction.id)
        more = [(ORIGIN_DC, payload.origin_dc.encode()), (WRITER, self._writer.encode())]
        if origin_offset is not None:
            more.append((ORIGIN_OFFSET, str(origin_offset).encode()))
        self._write(
            "payload",
            codec.encode_payload(payload),
            key=name,
            event=f"{name}/{payload.transaction.digest.hex()[:16]}",
            at=payload.created,
            more=more,
            acked=acked,
            source=payload.origin,
            traceparent=payload.traceparent,
        )
