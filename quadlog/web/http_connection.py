"""A client connection of HTTP/1.1: one request at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from quadlog.web.http_response import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.web.http_pool import Message


class HttpConnection(asyncio.Protocol):
    """Connection that sends requests and feeds the received bytes to their responses."""

    def __init__(
        self, keep: Callable[[HttpConnection], None], forget: Callable[[HttpConnection], None]
    ) -> None:
        """`keep` is called when the connection becomes idle, `forget` when it is lost."""
        self._keep, self._forget = keep, forget
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._response: HttpResponse | None = None
        self._is_sending = False
        self._room: asyncio.Future[None] | None = None
        """Pending while the transport accepts no more data."""
        self._error: Exception | None = None
        """Error with which the connection ended."""
        self._idle_since = 0.0

    @property
    def idle_s(self) -> float:
        """Seconds for which the connection has been idle."""
        return self._loop.time() - self._idle_since

    # --- for the pool -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True if the connection can send a request."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, message: Message, head: bytes) -> HttpResponse:
        """Send a request; if its body is streamed, send only the head: the body must follow by `send`."""
        assert self._response is None, "one request at a time"
        response = HttpResponse(self, self._loop, is_head=message.method == b"HEAD")
        self._is_sending = not isinstance(message.body, bytes)
        if self._transport is None:
            response.lose(self._error)  # the connection ended before its first use
        else:
            self._response = response
            self._write(head + message.body if isinstance(message.body, bytes) else head)
        return response

    async def send(self, piece: bytes) -> bool:
        """Send a part of the body once the transport accepts it; return False if no more of it is needed."""
        if self._room is not None:
            await self._room
        self._write(piece)
        return self._response is not None and not self._response.is_complete

    def sent(self) -> None:
        """Note that the whole body was sent."""
        self._is_sending = False

    def close(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        # uvloop raises RuntimeError if the transport is closed; `connection_lost` reports the loss.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # --- for the response -------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop reading, so that the server waits."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue to read."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def end(self, *, is_reusable: bool) -> None:
        """Finish the response: keep a reusable connection for the next request, close any other."""
        self._response = None
        if is_reusable and not self._is_sending and self._transport and not self._transport.is_closing():
            self._idle_since = self._loop.time()
            self._keep(self)
        else:
            self.close()

    # --- from the event loop ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)
        if transport.get_extra_info("sslcontext"):
            # Otherwise uvloop reads while reading is paused, and loses the bytes when the server closes.
            self._transport.set_read_buffer_limits(high=1, low=0)  # type: ignore[attr-defined]  # uvloop's, for TLS

    def data_received(self, data: bytes) -> None:
        """Feed the response; close the connection if bytes arrive without a request."""
        if self._response is None:
            self.close()
        else:
            self._response.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end to the response, and remove the connection from the idle ones."""
        self._transport, self._error = None, exc
        self.resume_writing()
        self._forget(self)
        response, self._response = self._response, None
        if response is not None:
            response.lose(exc)

    def pause_writing(self) -> None:
        """Make `send` wait."""
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        """Let `send` continue."""
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)
