"""Persistent connections to HTTP/1.1 servers, reused in constant time."""

from __future__ import annotations

import asyncio
from functools import cache, lru_cache, partial
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import httpx

from quadlog.web.http_connection import HttpConnection

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterable, Callable, Iterable

    from quadlog.web.http_response import HttpResponse

IDLE_S: Final = 30.0
"""Seconds after which an idle connection is not reused.  Servers of quadlog close it after 75 s (`server.IDLE_S`): if
both ends closed it at the same moment, a request would be lost."""

PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Address of a server."""

    scheme: str
    host: str
    port: int


@cache
def trust() -> ssl.SSLContext:
    """Return the trusted certificates: one context per process, since each client's own would take 20 ms of CPU."""
    return httpx.create_ssl_context(trust_env=False)


@lru_cache(maxsize=1024)
def origin_of(url: str) -> tuple[Origin, bytes, bytes]:
    """Return the server of a URL, its Host header, and the path with which every target there begins.

    >>> origin_of("http://m1:8080")
    (Origin(scheme='http', host='m1', port=8080), b'm1:8080', b'')

    Raises:
        httpx.UnsupportedProtocol: the URL is not an http or https URL.

    """
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
        name = parts.netloc.rpartition("@")[2].encode("idna")
    except (ValueError, KeyError) as error:
        raise httpx.UnsupportedProtocol(f"{url} is not the URL of an HTTP server") from error
    return Origin(parts.scheme, parts.hostname or "", port), name, parts.path.rstrip("/").encode()


class Message(NamedTuple):
    """An HTTP request."""

    method: bytes
    target: bytes
    """Path and query."""
    headers: Iterable[tuple[bytes, bytes]]
    """All headers, including Host and the one that gives the length of the body."""
    body: bytes | AsyncIterable[bytes] = b""
    is_repeatable: bool = False
    """True if the request may be sent again when a reused connection turns out to be closed."""

    def head(self) -> bytes:
        """Return the request line and headers.

        Raises:
            httpx.LocalProtocolError: one of them contains a line break.

        """
        lines = [b"%b %b HTTP/1.1" % (self.method, self.target)]
        lines += [b"%b: %b" % header for header in self.headers]
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
            raise httpx.LocalProtocolError("a header of the request has a line break")
        return head + b"\r\n\r\n"

    @property
    def length(self) -> float:
        """Content-Length; infinite if there is none."""
        return next((int(value) for name, value in self.headers if name.lower() == b"content-length"), inf)

    @property
    def is_chunked(self) -> bool:
        """True if the body is sent in chunks."""
        return any(name.lower() == b"transfer-encoding" for name, _ in self.headers)


class Seconds(NamedTuple):
    """Time limits in seconds for the parts of an exchange; None: no limit."""

    connect: float | None = None
    """Limit for the connection, including TLS."""
    write: float | None = None
    """Limit for each part of the request's body, until the server accepts the next one."""
    read: float | None = None
    """Limit for the head of the response."""


class ConnectionPool:
    """Pool with one connection per request in progress.  Must be used on one event loop."""

    def __init__(self, local: Callable[[Origin], socket.socket | None] | None = None) -> None:
        """Create a pool that connects on the first request; `local` returns a connection that is better than TCP's."""
        self._local = local
        self._idle: dict[Origin, dict[HttpConnection, None]] = {}
        """Idle connections by server; the one that became idle last is reused first."""
        self._is_closed = False

    async def request(self, origin: Origin, message: Message, seconds: Seconds) -> HttpResponse:
        """Send a request; return once the head of its response has arrived.  `HttpResponse.piece` reads the body.

        Raises:
            httpx.LocalProtocolError: the length of the body is not its Content-Length, or a header has a line break.
            httpx.ConnectTimeout: no connection was established in time.
            httpx.ConnectError: no connection can be established.
            httpx.WriteTimeout: the server did not accept a part of the body in time.
            httpx.ReadTimeout: no response arrived in time.
            httpx.HTTPError: the connection failed, or the response is not HTTP/1.1.

        """
        head = message.head()
        for reused in (self._reused(origin), None):
            connection = reused or await self._connected(origin, seconds.connect)
            response = connection.ask(message, head)
            try:
                if not isinstance(message.body, bytes):
                    await _send(connection, message, message.body, seconds.write)
                if seconds.read is None:
                    await response.head()
                else:
                    await _head_within(response, seconds.read)
            except (httpx.RemoteProtocolError, httpx.ReadError):
                response.close()
                if reused is None or response.is_begun or not message.is_repeatable:
                    raise
            except BaseException:
                response.close()
                raise
            else:
                return response
        raise AssertionError("a new connection is not tried twice")

    def _reused(self, origin: Origin) -> HttpConnection | None:
        idle = self._idle.get(origin)
        while idle:
            connection, _ = idle.popitem()
            if connection.is_open and connection.idle_s < IDLE_S:
                return connection
            connection.close()
        return None

    async def _connected(self, origin: Origin, seconds: float | None) -> HttpConnection:
        made = partial(HttpConnection, partial(self._keep, origin), partial(self._forget, origin))
        is_secure = origin.scheme == "https"
        loop = asyncio.get_running_loop()
        if self._local is not None and (local := self._local(origin)) is not None:
            _, connection = await loop.create_unix_connection(made, sock=local)
            return connection
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    made,
                    origin.host,
                    origin.port,
                    ssl=trust() if is_secure else None,
                    server_hostname=origin.host if is_secure else None,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection within {seconds} s") from error
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(str(error)) from error
        return connection

    def _keep(self, origin: Origin, connection: HttpConnection) -> None:
        """Add a connection to the idle ones; a closed pool closes it."""
        if self._is_closed:
            connection.close()
        else:
            self._idle.setdefault(origin, {})[connection] = None

    def _forget(self, origin: Origin, connection: HttpConnection) -> None:
        self._idle.get(origin, {}).pop(connection, None)

    def close(self) -> None:
        """Close the idle connections at once, and those in use at the end of their responses."""
        self._is_closed = True
        for idle in self._idle.values():
            while idle:
                idle.popitem()[0].close()


async def _send(
    connection: HttpConnection, message: Message, body: AsyncIterable[bytes], seconds: float | None
) -> None:
    """Send a body piece by piece, as fast as the server accepts it; stop if the response is complete before."""
    is_chunked, left = message.is_chunked, message.length
    async for piece in body:
        left -= len(piece)
        if left < 0:
            raise httpx.LocalProtocolError("the body is longer than its Content-Length")
        if piece and not await _taken(connection, _chunk(piece) if is_chunked else piece, seconds):
            return
    if 0 < left < inf:
        raise httpx.LocalProtocolError("the body is shorter than its Content-Length")
    if not is_chunked or await _taken(connection, b"0\r\n\r\n", seconds):
        connection.sent()


async def _taken(connection: HttpConnection, piece: bytes, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await connection.send(piece)
    except TimeoutError as error:
        raise httpx.WriteTimeout(f"the server took nothing for {seconds} s") from error


async def _head_within(response: HttpResponse, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await response.head()
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"no response within {seconds} s") from error


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)
