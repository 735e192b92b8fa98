"""The local socket of a server, and the clients that find it, or use TCP."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from quadlog.kafka.ports import free_ports
from quadlog.web import local_socket
from quadlog.web.http_pool import ConnectionPool, Seconds, origin_of
from quadlog.web.server import Server
from tests.support.asking import message

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def way(request: Request) -> Response:
    return PlainTextResponse("local" if request.client is None else "TCP")


def way_to(port: int, url: str) -> str:
    """Return how a request came to a server at a port whose address is a URL."""
    server, ways = Server("127.0.0.1", port), list[str]()

    async def ask() -> None:
        pool, (origin, _, _) = ConnectionPool(local_socket.connected), origin_of(f"http://127.0.0.1:{port}")
        try:
            for _ in range(2):
                response = await pool.request(origin, message(), Seconds(connect=5, read=5))
                ways.append((await response.piece()).decode())
        finally:
            pool.close()
            server.leave()

    server.call_soon(ask)
    assert server.run(Starlette(routes=[Route("/x", way)]), local_url=url) == 0
    [one] = set(ways)
    return one


@pytest.fixture
def port() -> int:
    [port] = free_ports(1)
    return port


def test_a_client_on_the_same_machine_uses_it_and_it_ends_with_its_server(port: int) -> None:
    for _ in range(2):
        assert way_to(port, f"http://127.0.0.1:{port}") == "local"
        assert local_socket.connected(origin_of(f"http://127.0.0.1:{port}")[0]) is None


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1", "http://127.0.0.1:{port}/w1", "https://127.0.0.1:{port}", "127.0.0.1:{port}"],
    ids=["another port", "a path", "TLS", "no URL"],
)
def test_a_proxy_in_front_of_a_server_is_not_bypassed(url: str, port: int) -> None:
    assert way_to(port, url.format(port=port)) == "TCP"


def test_the_server_of_another_user_is_not_used(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert way_to(port, f"http://127.0.0.1:{port}") == "TCP"


def test_a_name_that_is_taken_is_reported_and_the_server_serves(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    with socket.socket(socket.AF_UNIX) as taken:
        taken.bind(f"\0quadlog 127.0.0.1:{port}")
        with capture_logs() as logs:
            assert way_to(port, url) == "TCP"
    assert [(line["event"], line["url"]) for line in logs] == [("local_socket_refused", url)]


def test_a_name_that_is_too_long_is_reported_and_the_server_serves(port: int) -> None:
    with capture_logs() as logs:
        assert way_to(port, f"http://{'a.' * 60}a:{port}") == "TCP"
    assert [line["event"] for line in logs] == ["local_socket_refused"]
