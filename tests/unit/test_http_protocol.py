"""The head of an answer goes out with what follows it, and no later than the next turn of the loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from uvicorn.server import ServerState

from quadlog.http_protocol import Http1Protocol
from quadlog.server import config_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


class Sent(asyncio.Transport):
    """What was sent, in pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self._is_closing = False

    def write(self, data: Any) -> None:  # noqa: ANN401 - as asyncio has it
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self._is_closing = True

    def is_closing(self) -> bool:
        return self._is_closing


def connected(app: ASGIApp) -> tuple[Http1Protocol, Sent]:
    """The server's side of a connection."""
    config, sent = config_of(app, shutdown_s=1), Sent()
    config.load()
    protocol = Http1Protocol(config=config, server_state=ServerState(), app_state={})
    protocol.connection_made(sent)
    return protocol, sent


def asked(app: ASGIApp, request: bytes) -> Sent:
    """What is sent behind this request."""
    protocol, sent = connected(app)
    protocol.data_received(request)
    return sent


async def turns() -> None:
    """Enough for what can go on by itself."""
    for _ in range(10):
        await asyncio.sleep(0)


async def start(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})


async def end(send: Send) -> None:
    await send(
        {"type": "http.response.body", "body": memoryview(b"body")}
    )  # bytes of any kind, as Starlette sends them


async def test_an_answer_is_one_piece() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await start(send)
        await end(send)

    sent = asked(app, GET)
    await turns()
    assert sent.pieces == [HEAD + b"body"]
    assert not sent.is_closing()


async def test_a_head_does_not_wait_for_its_body() -> None:
    more = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await start(send)
        await more.wait()
        await end(send)

    sent = asked(app, GET)
    await turns()
    assert sent.pieces == [HEAD]
    more.set()
    await turns()
    assert sent.pieces == [HEAD, b"body"]


async def test_the_answer_to_head_is_its_head() -> None:
    """Nothing follows that it could wait for."""
    ended: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await start(send)
        await end(send)
        ended.extend(sent.pieces)

    sent = asked(app, GET.replace(b"GET", b"HEAD"))
    await turns()
    assert ended == sent.pieces == [HEAD]


async def test_100_continue_is_sent_before_the_body_is_waited_for() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await receive()
        await start(send)
        await end(send)

    protocol, sent = connected(app)
    protocol.data_received(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n")
    await turns()
    assert sent.pieces == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    protocol.data_received(b"x")
    await turns()
    assert sent.pieces[1:] == [HEAD + b"body"]


async def test_a_head_is_sent_before_its_connection_is_closed() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await start(send)
        raise RuntimeError("between head and body")

    sent = asked(app, GET)
    await turns()
    assert (sent.pieces, sent.is_closing()) == ([HEAD], True)


async def test_nothing_of_a_request_waits_for_the_garbage_collector() -> None:
    """Its search holds up all requests that are under way."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await start(send)
        await end(send)

    protocol, _ = connected(app)
    gc.disable()
    try:
        protocol.data_received(GET)
        first = weakref.ref(protocol.cycle)
        await turns()
        protocol.data_received(GET)
        await turns()
        assert first() is None
    finally:
        gc.enable()
