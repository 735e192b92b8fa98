"""Producers: one module per topic, which determines key, headers and bytes of the topic's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.codec.envelope import headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Acked, Outlet


class Producer:
    """Producer of the records of one topic."""

    def __init__(self, outlet: Outlet, topic: str, writer: str) -> None:
        """Write to `topic`, a topic of the local data centre, as the process with the id `writer`."""
        self._outlet, self._topic, self._writer = outlet, topic, writer

    def _write(
        self,
        kind: str,
        values: Sequence[bytes],
        *,
        key: str,
        event: str,
        at: int,
        more: Sequence[tuple[str, bytes]] = (),
        acked: Acked | None = None,
        source: str = "",
        traceparent: str = "",
    ) -> None:
        """Write a value; parameters as of `headers`, with `more` of them, and of `Outlet.produce`."""
        envelope = headers(
            event=event, source=source or self._writer, kind=f"quadlog.{kind}", at=at, traceparent=traceparent
        )
        self._outlet.produce(
            self._topic, key=key.encode(), values=values, headers=[*envelope, *more], acked=acked
        )
