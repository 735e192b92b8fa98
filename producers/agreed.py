"""Producer of the agreed topic: the synchronised queue, with its payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import headers

if TYPE_CHECKING:
    from quadlog.core.records import Cut, LoggedEntry
    from quadlog.ports import Acked, Outlet


class AgreedProducer:
    """Producer of entries, in the order of their indexes, and of cuts."""

    def __init__(self, outlet: Outlet, topic: str, writer: str) -> None:
        """Write to `topic` as the master with the id `writer`."""
        self._outlet, self._topic, self._writer = outlet, topic, writer

    def publish(self, entry: LoggedEntry, acked: Acked) -> None:
        """Write one entry."""
        envelope = headers(
            event=f"{entry.index}/{entry.chain.hex()[:16]}",
            source=self._writer,
            kind="quadlog.entry",
            at=entry.created,
            traceparent=entry.traceparent,
        )
        self._outlet.produce(
            self._topic,
            key=str(entry.index).encode(),
            values=codec.encode_entry(entry),
            headers=envelope,
            acked=acked,
        )

    def publish_cut(self, cut: Cut, acked: Acked, *, at: int) -> None:
        """Write a cut: the entries that follow continue after its entry.  `at`: milliseconds since 1970."""
        envelope = headers(
            event=f"cut/{cut.epoch}/{cut.index}", source=self._writer, kind="quadlog.cut", at=at
        )
        self._outlet.produce(
            self._topic, key=b"cut", values=[codec.encode(cut)], headers=envelope, acked=acked
        )
