"""A process takes its port before it takes part in anything."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from quadlog.errors import SetupError
from quadlog.kafka.ports import free_ports
from quadlog.web import server as serving
from quadlog.web.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_taken_port_is_said_before_anything_is_begun() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            SetupError, match=rf"127\.0\.0\.1:{port} cannot be listened on: Address already in use"
        ):
            Server("127.0.0.1", port)


def test_what_is_asked_before_it_serves_is_done_then() -> None:
    server, done = Server("127.0.0.1", 0), list[str]()

    async def note(what: str) -> None:
        done.append(what)
        if what == "while it serves":
            server.leave()
        else:
            server.call_soon(lambda: note("while it serves"))

    server.call_soon(lambda: note("before"))
    assert server.run(None) == 0
    server.call_soon(lambda: note("after"))
    assert done == ["before", "while it serves"]


def test_what_fails_on_the_loop_is_told_and_ends_nothing() -> None:
    """Whoever asked for it is on another thread and does not wait."""
    server, done = Server("127.0.0.1", 0), list[str]()

    async def fail() -> None:
        raise KeyError("of nobody")

    async def leave() -> None:
        done.append("served on")
        server.leave()

    server.call_soon(fail)
    server.call_soon(leave)
    with capture_logs() as logs:
        assert server.run(None) == 0
    assert done == ["served on"]
    assert [(line["event"], repr(line["exc_info"])) for line in logs] == [
        ("scheduled_task_failed", "KeyError('of nobody')")
    ]


@pytest.fixture
def _signals() -> Iterator[None]:
    """Are handled as before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_told_to_stop_before_it_serves_stops(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a moment when nobody but us can hear it."""
    server = Server("127.0.0.1", 0)
    monkeypatch.setattr(serving, "collect_seldom", lambda: signal.raise_signal(number))
    served_on = threading.Timer(5.0, server.fail, ("it served on",))
    served_on.start()
    assert server.run(None) == 0
    served_on.cancel()


def test_a_connection_is_kept_for_longer_than_clients_keep_theirs() -> None:
    """Five seconds, usually: at that very moment a request would be lost."""
    [port] = free_ports(1)
    server, answers = Server("127.0.0.1", port), list[bytes]()
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for idle_s in (5.5, 0.0):
                writer.write(b"GET / HTTP/1.1\r\nHost: quadlog\r\n\r\n")
                answers.append(await reader.readuntil(b"here"))
                await asyncio.sleep(idle_s)
        finally:
            writer.close()
            server.leave()

    server.call_soon(ask)
    assert server.run(app) == 0
    assert [answer.split()[1] for answer in answers] == [b"200", b"200"]
