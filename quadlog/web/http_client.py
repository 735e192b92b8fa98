"""HTTP client for requests between nodes; failures of the transfer are raised as `httpx.HTTPError`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx

from quadlog.web.http_pool import PORTS, ConnectionPool, Message, Origin, Seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quadlog.web.http_response import HttpResponse

REPEATABLE = frozenset({"GET", "HEAD"})


def new_client(timeout: httpx.Timeout | float) -> httpx.AsyncClient:
    """Return a client with one connection per concurrent request, and without settings from the environment."""
    return httpx.AsyncClient(timeout=timeout, transport=PoolTransport(ConnectionPool()), trust_env=False)


class PoolTransport(httpx.AsyncBaseTransport):
    """Transport of httpx over a `ConnectionPool`."""

    def __init__(self, pool: ConnectionPool) -> None:
        """`pool` is closed with the transport."""
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; return once the head of its response has arrived.

        Raises:
            httpx.TransportError: there is no response.

        """
        seconds = request.extensions["timeout"]
        assert isinstance(request.stream, httpx.AsyncByteStream), "it is sent by an asynchronous client"
        is_whole = isinstance(request.stream, httpx.ByteStream)
        message = Message(
            method=request.method.encode(),
            target=request.url.raw_path,
            headers=request.headers.raw,
            body=request.content if is_whole else request.stream,
            is_repeatable=is_whole and request.method in REPEATABLE,
        )
        url = request.url
        if url.scheme not in PORTS or not url.host:
            raise httpx.UnsupportedProtocol(f"{url} is not the URL of an HTTP server", request=request)
        origin = Origin(url.scheme, url.host, url.port or PORTS[url.scheme])
        try:
            response = await self._pool.request(
                origin, message, Seconds(seconds["connect"], seconds["write"], seconds["read"])
            )
        except httpx.RequestError as error:
            error.request = request
            raise
        stream = _Stream(request, response, seconds["read"])
        return httpx.Response(response.status, headers=response.headers, stream=stream)

    async def aclose(self) -> None:
        """Close the idle connections."""
        self._pool.close()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, request: httpx.Request, response: HttpResponse, read_s: float | None) -> None:
        self._request, self._response, self._read_s = request, response, read_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while piece := await self._piece():
                yield piece
        except httpx.RequestError as error:
            error.request = self._request
            raise

    async def _piece(self) -> bytes:
        try:
            async with asyncio.timeout(self._read_s):
                return await self._response.piece()
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"nothing more within {self._read_s} s") from error

    async def aclose(self) -> None:
        self._response.close()
