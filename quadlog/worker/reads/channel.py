"""The pipe to a reading process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from quadlog.worker.reads.frames import HEAD, KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.worker.reads.frames import Kind


class Channel(asyncio.Protocol):
    """Calls back for each frame, in the turn of the loop that received its end: there is no task in between."""

    def __init__(self, on_frame: Callable[[Kind, bytes], None], on_lost: Callable[[], None]) -> None:
        """`on_lost`: after the last frame; also where this side closed it."""
        self._on_frame, self._on_lost = on_frame, on_lost
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        """The beginning of a frame whose end was not received."""
        self._needed = 0
        """As many bytes of it make a difference."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of the protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Part of the protocol."""
        del exc
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        """Part of the protocol."""
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

    def write(self, frame: bytes) -> None:
        """Send a frame."""
        self._transport.write(frame)

    @property
    def is_taken(self) -> bool:
        """Whether the process, or the socket to it, took all that was written."""
        return self._transport.get_write_buffer_size() == 0

    def pause(self) -> None:
        """Receive no more, so that the process waits; frames that were received already still come."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def close(self) -> None:
        """Let go of the socket."""
        self._transport.abort()
