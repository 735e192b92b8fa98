"""Producer of payloads: transactions as clients sent them, in the local data centre's Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import ORIGIN_DC, ORIGIN_OFFSET, WRITER, headers, text_id

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.ports import Acked, Outlet


class PayloadsProducer:
    """Producer of the payloads of this master's clients, and of copies of the peers' payloads."""

    def __init__(self, outlet: Outlet, topic: str, writer: str) -> None:
        """Write to `topic` as the master with the id `writer`."""
        self._outlet, self._topic, self._writer = outlet, topic, writer

    def publish(self, payload: Payload, acked: Acked, *, origin_offset: int | None = None) -> None:
        """Make a payload durable in this data centre.

        Args:
            payload: the payload of a client, or of a peer.
            acked: callback for when all its chunks are durable.
            origin_offset: for a copy, the offset of the original's last chunk.

        """
        name = text_id(payload.transaction.id)
        envelope = headers(
            event=f"{name}/{payload.transaction.digest.hex()[:16]}",
            source=payload.origin,
            kind="quadlog.payload",
            at=payload.created,
            traceparent=payload.traceparent,
        )
        envelope += [(ORIGIN_DC, payload.origin_dc.encode()), (WRITER, self._writer.encode())]
        if origin_offset is not None:
            envelope.append((ORIGIN_OFFSET, str(origin_offset).encode()))
        self._outlet.produce(
            self._topic,
            key=name.encode(),
            values=codec.encode_payload(payload),
            headers=envelope,
            acked=acked,
        )
