"""How masters ask workers and each other over HTTP: all that goes wrong on the way is an `httpx.HTTPError`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, AsyncIterator


@cache
def trust() -> ssl.SSLContext:
    """Whose certificates are believed: one for a process, since a client that makes its own takes 20 ms of CPU."""
    return httpx.create_ssl_context(trust_env=False)


def new_client(timeout: httpx.Timeout | float) -> httpx.AsyncClient:
    """As many connections as there are requests, and nothing from the environment."""
    limits = httpx.Limits(max_connections=None)
    transport = _Transport(verify=trust(), trust_env=False, limits=limits)
    return httpx.AsyncClient(timeout=timeout, transport=transport, trust_env=False)


class _Transport(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with _translated(request):
            answer = await super().handle_async_request(request)
        assert isinstance(answer.stream, httpx.AsyncByteStream), "it was asked for by an asynchronous client"
        answer.stream = _Stream(request, answer.stream)
        return answer


class _Stream(httpx.AsyncByteStream):
    def __init__(self, request: httpx.Request, stream: httpx.AsyncByteStream) -> None:
        self._request, self._stream = request, stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with _translated(self._request):
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        async with _translated(self._request):
            await self._stream.aclose()


@asynccontextmanager
async def _translated(request: httpx.Request) -> AsyncGenerator[None]:
    """What uvloop raises beside OSError."""
    try:
        yield
    except AttributeError as error:
        # The other end reset the connection while it was made: it has no socket that can be asked.
        raise httpx.ConnectError(f"reset while it was made ({error})", request=request) from error
    except RuntimeError as error:
        # The connection is closed, and something is to be written to it or read from it.
        raise httpx.ReadError(str(error), request=request) from error
