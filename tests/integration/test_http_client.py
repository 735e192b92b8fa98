"""Whatever becomes of a connection, who asked sees an httpx.HTTPError, also on uvloop."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvloop

from quadlog.http_client import new_client, trust
from tests.support.workers.relay import server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

RESET = struct.pack("ii", 1, 0)


async def body() -> AsyncGenerator[bytes]:
    for _ in range(5):
        yield b"x" * 100_000


async def ask(client: httpx.AsyncClient, url: str, number: int) -> httpx.Response:
    is_long = number % 2
    headers = {"Content-Length": "500000"} if is_long else {}
    return await client.put(url, content=body() if is_long else None, headers=headers)


async def stall() -> None:
    """The loop stands still when connections are made and nobody has looked at them: they are reset meanwhile."""
    for _ in range(3):
        await asyncio.sleep(0)
    time.sleep(0.002)  # noqa: ASYNC251


async def storm(url: str) -> list[httpx.Response | BaseException]:
    """What became of 800 requests."""
    outcomes: list[httpx.Response | BaseException] = []
    async with new_client(10) as client:
        for _ in range(40):
            asked = (ask(client, url, number) for number in range(20))
            stalling = asyncio.ensure_future(stall())
            outcomes += await asyncio.gather(*asked, return_exceptions=True)
            await stalling
    return outcomes


def test_whoever_is_reset_at_once() -> None:
    """Without translation, hundreds of these 800 end in an AttributeError."""
    with server(lambda client: client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)) as port:
        outcomes = uvloop.run(storm(f"http://127.0.0.1:{port}/"))
    assert len(outcomes) == 800
    assert [one for one in outcomes if not isinstance(one, httpx.HTTPError)] == []


@pytest.mark.parametrize("error", [AttributeError("getpeername"), RuntimeError("the handler is closed")])
def test_what_uvloop_raises_beside_os_errors(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def broken(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        del self, request
        raise error

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", broken)

    async def scenario() -> None:
        async with new_client(1) as client:
            with pytest.raises(httpx.NetworkError, match=str(error)):
                await client.get("http://127.0.0.1:9/")

    asyncio.run(scenario())


def test_a_stream_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes]:
            yield b"some"
            raise RuntimeError("the handler is closed")

    async def answers(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        del self, request
        return httpx.Response(200, stream=Broken())

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", answers)

    async def scenario() -> None:
        async with new_client(1) as client, client.stream("GET", "http://127.0.0.1:9/") as answer:
            pieces = answer.aiter_raw()
            assert await anext(pieces) == b"some"
            with pytest.raises(httpx.ReadError):
                await anext(pieces)

    asyncio.run(scenario())


@pytest.mark.anyio
async def test_certificates_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master has several clients."""
    trust.cache_clear()
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def counted(*arguments: Any, **options: Any) -> ssl.SSLContext:  # noqa: ANN401
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", counted)
    async with new_client(1), new_client(1):
        pass
    assert made == [trust()]
    assert made[0].verify_mode is ssl.CERT_REQUIRED
    assert made[0].check_hostname
