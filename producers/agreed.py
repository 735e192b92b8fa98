"""Producer of the agreed topic: the synchronised queue, with its payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from producers import Producer
from quadlog import codec

if TYPE_CHECKING:
    from quadlog.core.records import Cut, LoggedEntry
    from quadlog.ports import Acked


class AgreedProducer(Producer):
    """Producer of entries, in the order of their indexes, and of cuts."""

    def publish(self, entry: LoggedEntry, acked: Acked) -> None:
        """Write one entry."""
        self._write(
            "entry",
            codec.encode_entry(entry),
            key=str(entry.index),
            event=f"{entry.index}/{entry.chain.hex()[:16]}",
            at=entry.created,
            acked=acked,
            traceparent=entry.traceparent,
        )

    def publish_cut(self, cut: Cut, acked: Acked, *, at: int) -> None:
        """Write a cut: the entries that follow continue after its entry.  `at`: milliseconds since 1970."""
        event = f"cut/{cut.epoch}/{cut.index}"
        self._write("cut", [codec.encode(cut)], key="cut", event=event, at=at, acked=acked)
