"""Server protocol for HTTP/1.1 and HTTP/1.0, without upgrades to other protocols."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uvicorn._types import ASGI3Application
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_LIMIT: Final = 1024 * 1024
"""Maximum bytes of a request line and its headers, which are buffered until they are complete."""

INVALID: Final = "this is not a valid HTTP/1.1 request; nothing was done, and the connection is closed"
TOO_LONG: Final = (
    f"the request line and the headers are longer than {HEAD_LIMIT} bytes: send the query in the body;"
    " nothing was done, and the connection is closed"
)

SMALL: Final = 4096
"""Bytes that wait for what follows them."""


class CombiningTransport:
    """Transport that sends a small piece together with the one that is written next, in the same turn of the loop.

    uvicorn writes the head of an answer and its body separately, and uvloop sends at once: two packets, of which each
    costs both ends a system call, and the receiver a turn of its loop.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._held = transport, b""
        self._call_soon: Final = asyncio.get_running_loop().call_soon
        self.is_closing: Final = transport.is_closing

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the transport
        """Return what is the transport's own."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send what is held and these bytes; or hold them, if they are few and nothing is held."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines((held, data))
        elif len(data) > SMALL:
            self._transport.write(data)
        else:
            self._held = data
            self._call_soon(self._flush)

    def close(self) -> None:
        """Close the connection when all that was written is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self.is_closing():
            self._transport.write(held)


class Http1Protocol(HttpToolsProtocol):
    """Protocol that declines every offer to upgrade: the request is served as HTTP/1.1, with its body.

    The parser stops after the headers of a request that offers an upgrade (`Upgrade: h2c` of `java.net.http.HttpClient`
    and `curl --http2`), reports the request as complete without a body, and leaves the body to the new protocol.  A
    server may ignore the offer (RFC 9110, section 7.8): the same request is parsed again without it.
    """

    _head_size = 0
    """Bytes received since the end of the last request, until the headers of the next one are complete."""
    _is_in_head = True
    _served: RequestResponseCycle | None = None
    """The request that is being answered; pipelined requests after it wait."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve a connection."""
        super().connection_made(cast("asyncio.Transport", CombiningTransport(transport)))

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request that is being answered, even if another request waits after it."""
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        self._unset_keepalive_if_required()
        if self._is_in_head:
            self._head_size += len(data)
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response(INVALID)
            return
        if self._is_in_head and self._head_size > HEAD_LIMIT:
            self.send_400_response(TOO_LONG)

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                if self.parser.get_method() == b"CONNECT":  # always an upgrade: it has no other meaning
                    raise httptools.HttpParserError("CONNECT") from None
                data = b"".join(self._head_without_offer()) + data[offer.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
            else:
                return

    def _head_without_offer(self) -> Iterator[bytes]:
        version = self.parser.get_http_version().encode()
        yield b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
        for name, value in self.headers:
            if name == b"connection":
                kept = (token.strip() for token in value.split(b","))
                yield b"connection: %b\r\n" % b", ".join(t for t in kept if t.lower() != b"upgrade")
            elif name != b"upgrade":
                yield b"%b: %b\r\n" % (name, value)
        yield b"\r\n"

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header without the whitespace around its value, which is not part of it (RFC 9110, section 5.5)."""
        name, value = name.lower(), value.strip(b" \t")
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Serve the request, unless it must be parsed again."""
        if self.parser.should_upgrade():
            return
        self._is_in_head, self._head_size = False, 0
        super().on_headers_complete()
        self.headers = []  # trailers are not headers: fields after the body are not passed on

    def on_message_complete(self) -> None:
        """Complete the body, unless the request must be parsed again."""
        if self.parser.should_upgrade():
            return
        self._is_in_head = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer 400 to a request that cannot be parsed.

        After a complete request whose answer is not complete, a 400 would be taken for that answer, or for a part of
        it: the connection is aborted without a 400.
        """
        if self.pipeline:  # an earlier request is being answered
            self.transport.abort()
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_asked = cycle is not None and (cycle.response_started or not cycle.more_body)
        if cycle is not None and is_asked and not cycle.response_complete:
            self.transport.abort()
        else:
            super().send_400_response(msg)
