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

from quadlog.web.http_client import new_client
from quadlog.web.http_pool import trust
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
    with server(lambda client: client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)) as port:
        outcomes = uvloop.run(storm(f"http://127.0.0.1:{port}/"))
    assert len(outcomes) == 800
    assert [one for one in outcomes if not isinstance(one, httpx.HTTPError)] == []


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


@pytest.mark.anyio
async def test_a_client_asks_servers_of_http_alone() -> None:
    async with new_client(5) as client:
        for url in ("ftp://127.0.0.1/x", "htps://peer:8443/"):
            with pytest.raises(httpx.UnsupportedProtocol):
                await client.get(url)


@pytest.mark.anyio
async def test_errors_of_a_client_name_its_request() -> None:
    async with new_client(5) as client:
        with pytest.raises(httpx.ConnectError) as raised:
            await client.get("http://127.0.0.1:9/")
        assert str(raised.value.request.url) == "http://127.0.0.1:9/"
