"""The response to one HTTP/1.1 request, which can be read while it arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import httptools
import httpx

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

BUFFERED: Final = 128 * 1024
"""Bytes of a body that may wait for their reader before reading from the connection is paused; the bytes that the event
loop reads at once (up to 256 KiB) are added to it."""

HEAD_LIMIT: Final = 1024 * 1024
"""Maximum bytes of a head, or of anything else between two pieces of a body (trailers, extensions of chunks)."""

NO_BODY: Final = frozenset({204, 304})
INFORMATIONAL: Final = range(100, 200)


class ByteSource(Protocol):
    """The connection from which a response is read."""

    def pause(self) -> None:
        """Stop reading for now."""

    def resume(self) -> None:
        """Continue to read."""

    def end(self, *, is_reusable: bool) -> None:
        """Finish: the response is complete, or its rest is not needed."""


class HttpResponse:
    """Status, headers and body of one response.  Failures of the transfer are raised as `httpx.HTTPError`."""

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

    def __init__(self, source: ByteSource, loop: asyncio.AbstractEventLoop, *, is_head: bool) -> None:
        """`is_head`: the request was a HEAD, and its response has no body, whatever its headers announce."""
        self._source, self._loop, self._is_head = source, loop, is_head
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        """Part of a reference cycle with this response: released at the end, so that no memory waits for the garbage
        collector."""
        self._pieces: list[bytes] = []
        self._size = self._skipped = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: httpx.HTTPError | None = None
        self._is_paused = self._is_followed = self._keeps_alive = False
        self.status = 0
        """HTTP status; zero until the head is complete."""
        self.headers: list[tuple[bytes, bytes]] = []
        """Headers, with names in lower case."""
        self.is_begun = False
        """True once the first byte has arrived."""
        self.is_complete = False
        """True once the last byte has arrived."""

    # --- for the reader ---------------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """True if the body has ended and no byte of it waits to be read."""
        return self.is_complete and not self._pieces

    @property
    def is_waited_for(self) -> bool:
        """True if no piece is here, and more may come: `piece` would wait."""
        return not (self._pieces or self.is_complete or self._error is not None)

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            httpx.HTTPError: the connection failed before they arrived, or the response is not HTTP.

        """
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._more()

    async def piece(self) -> bytes:
        """Return the next bytes of the body as soon as there are any; empty: the body is complete.

        Raises:
            httpx.HTTPError: the connection failed before the end of the body.

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
        """Yield the body until its end."""
        while piece := await self.piece():
            yield piece

    def close(self) -> None:
        """Discard the rest of the response: its connection ends, unless the response is complete."""
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
        """Parse received bytes."""
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
        """Handle the end of the connection: a response that only this end delimits does not count as complete."""
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
        """Note if this follows a complete response: the server sent more than was requested."""
        self._is_followed = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored."""
        if not self.status:
            self.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """Take the status, except of informational responses, which precede the final one."""
        if self.is_complete or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status in INFORMATIONAL:
            self.headers.clear()
        else:
            self.status, self._skipped = status, 0
            self.is_complete = self._is_head or status in NO_BODY

    def on_body(self, piece: bytes) -> None:
        """Add a part of the body."""
        self._skipped = 0
        if not self.is_complete:
            self._pieces.append(piece)
            self._size += len(piece)

    def on_message_complete(self) -> None:
        """Complete the response: only now is it known where the next one would begin."""
        if self.status and self._parser is not None:
            self.is_complete = True
            self._keeps_alive = self._parser.should_keep_alive()
