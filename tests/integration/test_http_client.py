"""Whatever becomes of a connection, who asked sees an httpx.HTTPError, also on uvloop."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import httpx
import pytest
import uvloop

from quadlog.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

RESET = struct.pack("ii", 1, 0)


async def body() -> AsyncGenerator[bytes]:
    for _ in range(5):
        yield b"x" * 100_000


async def ask(client: httpx.AsyncClient, url: str, number: int) -> None:
    is_long = number % 2
    headers = {"Content-Length": "500000"} if is_long else {}
    with pytest.raises(httpx.HTTPError):
        await client.put(url, content=body() if is_long else None, headers=headers)


async def storm(url: str) -> None:
    async with new_client(10) as client:
        for _ in range(40):
            await asyncio.gather(*(ask(client, url, number) for number in range(20)))


def test_whoever_is_reset_at_once() -> None:
    """Without translation, one or two of these 800 saw an AttributeError."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=100)) as listener:

        def reset_all() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()

        threading.Thread(target=reset_all, daemon=True).start()
        uvloop.run(storm(f"http://127.0.0.1:{listener.getsockname()[1]}/"))
        listener.shutdown(socket.SHUT_RDWR)


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
