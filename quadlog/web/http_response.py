"""The response to one HTTP/1.1 request while it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import httptools
import httpx

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

BUFFERED: Final = 128 * 1024
"""Bytes of a body that wait for their reader before the connection is not read any more; what the event loop reads at
once (up to 256 KiB) comes on top."""

HEAD_LIMIT: Final = 1024 * 1024
"""Bytes of a head, or of anything else between two pieces of a body (trailers, extensions of chunks)."""

NO_BODY: Final = frozenset({204, 304})
INFORMATIONAL: Final = range(100, 200)


class Source(Protocol):
    """The connection that a response comes from."""

    def pause(self) -> None:
        """Do not read any more for now."""

    def resume(self) -> None:
        """Read on."""

    def end(self, *, is_reusable: bool) -> None:
        """The response is complete, or nobody wants the rest of it."""


class Response:
    """Status, headers and body of one response.  What goes wrong on the way is an `httpx.HTTPError`."""

    __slots__ = (
        "_error",
        "_is_followed",
        "_is_head",
        "_is_paused",
        "_keeps_alive",
        "_loop",
        "_parser",
        "_pieces",
        "_size",
        "_skipped",
        "_source",
        "_waiter",
        "headers",
        "is_begun",
        "is_complete",
        "status",
    )

    def __init__(self, source: Source, loop: asyncio.AbstractEventLoop, *, is_head: bool) -> None:
        """`is_head`: the request was a HEAD, and its response has no body whatever its headers say."""
        self._source, self._loop, self._is_head = source, loop, is_head
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        """It knows this response, too: let go of at the end, so that no memory waits for the garbage collector."""
        self._pieces: list[bytes] = []
        self._size = self._skipped = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: httpx.HTTPError | None = None
        self._is_paused = self._is_followed = self._keeps_alive = False
        self.status = 0
        """Zero until the head is complete."""
        self.headers: list[tuple[bytes, bytes]] = []
        """Names in lower case."""
        self.is_begun = False
        """Whether a byte of it came."""
        self.is_complete = False
        """Whether its last byte came."""

    # --- for whoever reads it ---------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether the body ended and no byte of it waits to be read."""
        return self.is_complete and not self._pieces

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            httpx.HTTPError: the connection failed before, or this is not HTTP.

        """
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._more()

    async def piece(self) -> bytes:
        """What has come of the body, at least one byte; empty: the body is complete.

        Raises:
            httpx.HTTPError: the connection failed before the end.

        """
        while not self._pieces:
            if self._error is not None:
                raise self._error
            if self.is_complete:
                return b""
            await self._more()
        piece = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            self._source.resume()
        return piece

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body until its end."""
        while piece := await self.piece():
            yield piece

    def close(self) -> None:
        """Ask for no more of it: its connection ends, unless it is complete."""
        if not self.is_complete and self._error is None:
            self._error = httpx.ReadError("the response was closed")
            self._source.end(is_reusable=False)
        self._parser = None
        self._pieces.clear()

    async def _more(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- from the connection ----------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Parse what was received."""
        assert self._parser is not None, "nothing comes behind the end"
        self.is_begun = True
        self._skipped += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._is_followed = True
            if not self.is_complete:
                self._fail(f"the response is not HTTP/1.1: {error}")
        if self.is_complete:
            self._source.end(is_reusable=self._keeps_alive and not self._is_followed)
        elif self._skipped > HEAD_LIMIT:
            self._fail(f"headers are longer than {HEAD_LIMIT} bytes")
        elif self._size > BUFFERED and not self._is_paused:
            self._is_paused = True
            self._source.pause()
        if self.is_complete or self._error is not None:
            self._parser = None
        if self._pieces or self.status:
            self._wake()

    def lose(self, error: Exception | None) -> None:
        """The connection ended: what does not tell its end before is not taken for whole."""
        self._parser = None
        if self.is_complete or self._error is not None:
            return
        if error is not None:
            self._error = httpx.ReadError(str(error) or type(error).__name__)
        elif not self.is_begun:
            self._error = httpx.RemoteProtocolError("the server disconnected without a response")
        else:
            part = "body" if self.status else "head"
            self._error = httpx.RemoteProtocolError(f"the connection ended within the {part} of the response")
        self._wake()

    def _fail(self, reason: str) -> None:
        self._error = httpx.RemoteProtocolError(reason)
        self._source.end(is_reusable=False)
        self._wake()

    # --- from the parser --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """After a complete response: the server said more than was asked for."""
        self._is_followed = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Trailers are passed over."""
        if not self.status:
            self.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """Informational responses stand before the one that counts."""
        if self.is_complete or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status in INFORMATIONAL:
            self.headers.clear()
        else:
            self.status, self._skipped = status, 0
            self.is_complete = self._is_head or status in NO_BODY

    def on_body(self, piece: bytes) -> None:
        """A part of the body."""
        self._skipped = 0
        if not self.is_complete:
            self._pieces.append(piece)
            self._size += len(piece)

    def on_message_complete(self) -> None:
        """Only now it is known where the next response would begin."""
        if self.status and self._parser is not None:
            self.is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()
