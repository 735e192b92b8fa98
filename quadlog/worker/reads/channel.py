"""The worker's side of the pipe to a reading process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from quadlog.worker.reads.frames import HEAD, KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.worker.reads.frames import FrameKind


class Channel(asyncio.Protocol):
    """Protocol that calls back for each frame in the loop iteration that received its end, without a task between."""

    def __init__(self, on_frame: Callable[[FrameKind, bytes], None], on_lost: Callable[[], None]) -> None:
        """`on_lost` is called after the last frame, even if this side closed the channel."""
        self._on_frame, self._on_lost = on_frame, on_lost
        self.transport: asyncio.Transport
        """The socket to the process.  Frames that were received before it is paused are still delivered."""
        self._buffer = bytearray()
        """Beginning of a frame whose end was not received."""
        self._needed = 0
        """Bytes of that frame without which it cannot be parsed further."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the channel."""
        del exc
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        """Parse the frames that are complete, and keep the rest."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        at, size = 0, len(data)
        self._needed = HEAD.size
        while size - at >= HEAD.size:
            kind, length = HEAD.unpack_from(data, at)
            end = at + HEAD.size + length
            if end > size:
                self._needed = end - at
                break
            self._on_frame(KINDS[kind], data[at + HEAD.size : end])
            at, self._needed = end, HEAD.size
        if at < size:
            self._buffer += data[at:]
