"""Transactions as they came in, into the own data centre's Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import ORIGIN_DC, ORIGIN_OFFSET, WRITER, headers, text_id

if TYPE_CHECKING:
    from quadlog.core.model import Payload
    from quadlog.ports import Acked, Outlet


class PayloadsProducer:
    """Says payloads: those of this master's clients, and copies of the peers'."""

    def __init__(self, outlet: Outlet, topic: str, writer: str) -> None:
        """`writer`: this master's id."""
        self._outlet, self._topic, self._writer = outlet, topic, writer

    def say(self, payload: Payload, acked: Acked, *, origin_offset: int | None = None) -> None:
        """Make a payload durable here.

        Args:
            payload: a client's, or a peer's.
            acked: called when it is, in all its chunks.
            origin_offset: of a copy, where the original's last chunk stands.

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
