"""Connections to servers that misbehave, on real sockets: every response is complete or an httpx.HTTPError."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.web import http_response
from quadlog.web.http_client import new_client
from quadlog.web.http_connection import HttpConnection
from quadlog.web.http_pool import Origin, origin_of
from tests.support.asking import CHUNKED, OK, Asking, asking, message
from tests.support.raw_servers import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (OK, 200, b"ok"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, b"abcde"),
        (CHUNKED + b"0\r\n\r\n", 200, b""),
        (CHUNKED + b"1\r\na\r\n0\r\nA-Trailer: of no use\r\n\r\n", 200, b"a"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\n\r\n", 304, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK, 200, b"ok"),
        (b"HTTP/1.1 503 Busy\r\nretry-after: 2\r\nContent-Length: 1\r\n\r\n!", 503, b"!"),
    ],
)
async def test_a_response_that_tells_its_end_leaves_a_connection_for_the_next_request(
    answer: bytes, status: int, body: bytes
) -> None:
    async with asking((None, answer, None, OK, None)) as (one, heard):
        assert await one.ask() == (status, body)
        assert await one.ask() == (200, b"ok")
        assert len(heard) == 1


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
        (OK + b"more", b"ok"),
        (OK + OK, b"ok"),
        (OK + b"\x00", b"ok"),
        (CHUNKED + b"1\r\na\r\n0\r\n\r\nx", b"a"),
    ],
)
async def test_a_connection_with_anything_behind_a_response_is_not_used_again(
    answer: bytes, body: bytes
) -> None:
    async with asking(answer, OK) as (one, heard):
        assert await one.ask() == (200, body)
        assert await one.ask() == (200, b"ok")
        assert [len(requests) for requests in heard] == [1, 1]


async def is_not_idle(one: Asking) -> None:
    """Its connection was left: what the server did has come."""
    async with asyncio.timeout(60):
        while one.pool._idle[one.origin]:
            await asyncio.sleep(0.01)


async def test_what_comes_unasked_ends_an_idle_connection() -> None:
    async with asking((None, OK, 0.05, OK, None), OK) as (one, heard):
        assert await one.ask() == (200, b"ok")
        await is_not_idle(one)
        assert await one.ask() == (200, b"ok")
        assert [len(requests) for requests in heard] == [1, 1]


@pytest.mark.parametrize("framing", [b"Content-Length: 2", b"Transfer-Encoding: chunked"])
async def test_the_response_to_head_has_no_body(framing: bytes) -> None:
    async with asking(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % framing) as (one, _):
        assert await one.ask(message(b"HEAD")) == (200, b"")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Len", httpx.RemoteProtocolError),
        (b"HTTP/1.1 100 Continue\r\n\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\n\r\nwhole, or cut off", httpx.RemoteProtocolError),
        (CHUNKED + b"5\r\nab", httpx.RemoteProtocolError),
        (CHUNKED + b"1\r\na\r\n", httpx.RemoteProtocolError),
        (CHUNKED + b"1\r\na\r\n0\r\n", httpx.RemoteProtocolError),
        (CHUNKED + b"z\r\n", httpx.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", httpx.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", httpx.RemoteProtocolError),
    ],
)
async def test_a_part_of_a_response_is_an_error(answer: bytes, error: type[Exception]) -> None:
    async with asking((None, answer)) as (one, _):
        with pytest.raises(error):
            await one.ask()


@pytest.mark.parametrize(
    "begin",
    [b"HTTP/1.1 200 OK\r\nA: a", b"HTTP/1.1 100 Go\r\n\r\n" * 50, CHUNKED + b"0\r\nA: a", CHUNKED + b"1;a"],
)
async def test_heads_and_trailers_are_bounded(begin: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_response, "HEAD_LIMIT", 2000)
    more = begin if b"100" in begin else b"a" * 3000
    async with asking((None, begin, 0.02, more, more, None)) as (one, _):
        with pytest.raises(httpx.RemoteProtocolError, match="longer than 2000"):
            await one.ask()


async def test_nobody_listens() -> None:
    one = Asking(9)
    with pytest.raises(httpx.ConnectError):
        await one.ask()


@pytest.mark.parametrize("url", ["ftp://m1/", "m1:80", "http://m1:no", "http://m1:99999", "http://a..b/", ""])
async def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(httpx.UnsupportedProtocol):
        origin_of(url)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://m1:8080", (Origin("http", "m1", 8080), b"m1:8080", b"")),
        ("https://M1.example/at/", (Origin("https", "m1.example", 443), b"M1.example", b"/at")),
        ("http://[::1]:80", (Origin("http", "::1", 80), b"[::1]:80", b"")),
    ],
)
async def test_the_server_of_a_url(url: str, origin: tuple[Origin, bytes, bytes]) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome"])
async def test_a_server_that_says_nothing_more_is_left_in_time(answer: bytes) -> None:
    async with serving((None, answer, None)) as (port, _), new_client(httpx.Timeout(5, read=0.1)) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_a_connection_that_the_server_closed_is_replaced() -> None:
    """Once, and on a new connection: its request came too late for the server."""
    async with asking((None, OK, None), OK) as (one, heard):
        assert await one.ask() == (200, b"ok")
        assert await one.ask() == (200, b"ok"), "the server hung up when it had read the second request"
        assert [len(requests) for requests in heard] == [2, 1]


async def test_a_connection_that_is_about_to_end_is_not_used_again() -> None:
    """The loop tells it that it is lost in its next turn."""
    async with asking((None, OK, None), OK) as (one, heard):
        assert await one.ask() == (200, b"ok")
        [connection] = one.pool._idle[one.origin]
        assert connection._transport is not None
        connection._transport.close()
        assert await one.ask(message(is_repeatable=False)) == (200, b"ok")
        assert len(heard) == 2


async def test_a_connection_that_ended_while_it_was_idle_is_not_used_again() -> None:
    async with asking((None, OK, 0.02), OK) as (one, heard):
        assert await one.ask() == (200, b"ok")
        await is_not_idle(one)
        assert await one.ask(message(is_repeatable=False)) == (200, b"ok")
        assert len(heard) == 2


async def test_a_connection_that_ended_before_it_was_used_is_an_error() -> None:
    connection = HttpConnection(lambda _: None, lambda _: None)
    connection.connection_lost(ConnectionResetError("reset"))
    response = connection.ask(message(), b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(httpx.ReadError, match="reset"):
        await asyncio.wait_for(response.head(), 1)


async def test_a_request_that_must_not_be_repeated_is_not() -> None:
    async with asking((None, OK, None), OK) as (one, heard):
        await one.ask()
        with pytest.raises(httpx.RemoteProtocolError, match="without a response"):
            await one.ask(message(is_repeatable=False))
        assert [len(requests) for requests in heard] == [2]


async def test_a_request_whose_response_had_begun_is_not_repeated() -> None:
    async with asking((None, OK, None, b"HTTP"), OK) as (one, heard):
        await one.ask()
        with pytest.raises(httpx.RemoteProtocolError):
            await one.ask()
        assert [len(requests) for requests in heard] == [2]


async def test_a_new_connection_that_fails_is_not_tried_again() -> None:
    async with asking((None,), OK) as (one, heard):
        with pytest.raises(httpx.RemoteProtocolError):
            await one.ask()
        assert [len(requests) for requests in heard] == [1]


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with asking((None, 0.05, OK, None)) as (one, heard):
        assert await asyncio.gather(*(one.ask() for _ in range(5))) == [(200, b"ok")] * 5
        assert len(heard) == 5


async def test_a_response_that_is_closed_early_ends_its_connection() -> None:
    async with asking((None, CHUNKED + b"1\r\na\r\n", None), OK) as (one, heard):
        response = await one.begin()
        assert await response.piece() == b"a"
        response.close()
        assert await one.ask() == (200, b"ok")
        assert len(heard) == 2
        with pytest.raises(httpx.ReadError):
            await response.piece()


async def test_a_closed_pool_keeps_no_connection() -> None:
    async with asking((None, CHUNKED + b"1\r\na\r\n", 0.1, b"0\r\n\r\n", None, OK), OK) as (one, heard):
        response = await one.begin()
        one.pool.close()
        assert [piece async for piece in response.pieces()] == [b"a"], "what is under way comes to its end"
        assert await one.ask() == (200, b"ok")
        assert len(heard) == 2, "the connection was not kept"


async def test_a_request_that_is_cancelled_ends_its_connection() -> None:
    async with asking((None, 0.2, OK, None)) as (one, heard):
        asked = asyncio.create_task(one.begin())
        await asyncio.sleep(0.1)
        asked.cancel()
        await asyncio.wait({asked})
        assert await one.ask() == (200, b"ok")
        assert len(heard) == 2


async def test_a_reader_that_takes_its_time_holds_the_server_up() -> None:
    """Of 64 MiB only so much is on its way that sockets, and the bound of this side, have room for."""
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(64):
            sent += 1
            yield b"x" * 2**20

    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (64 * 2**20)
    async with serving((None, head, pieces())) as (port, _):
        response = await Asking(port).begin()
        await asyncio.sleep(0.3)
        assert sent < 32
        assert sum([len(piece) async for piece in response.pieces()]) == 64 * 2**20


async def test_an_informational_response_behind_the_one_that_counts_takes_nothing_from_it() -> None:
    async with asking(OK + b"HTTP/1.1 100 Continue\r\n\r\n") as (one, _):
        response = await one.begin()
        assert (b"content-length", b"2") in response.headers


async def test_what_nobody_reads_is_let_go_of_at_once() -> None:
    async with asking(b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000) as (one, _):
        response = await one.begin()
        await asyncio.sleep(0.05)
        response.close()
        assert not response._pieces
        assert response._parser is None, "which knows it, too"


async def test_no_header_brings_a_second_request() -> None:
    async with asking(OK) as (one, heard):
        smuggled = message(body=b"")._replace(headers=[(b"A", b"b\r\n\r\nGET /other HTTP/1.1")])
        with pytest.raises(httpx.LocalProtocolError):
            await one.ask(smuggled)
        assert not heard
