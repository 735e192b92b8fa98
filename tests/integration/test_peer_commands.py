"""`quadlog peer …` at a door that answers as a master does."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from quadlog.cli import app
from quadlog.errors import NoSuchPeer, OutcomeUnknown, QuadlogError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

M4 = {"id": "m4", "dc": "dc4", "url": "http://m4", "peer": True, "decided": False, "reachable": True}
LINE = "m4  dc4  http://m4  peer, not decided yet"


class Master(HTTPServer):
    """Notes what it is asked."""

    def __init__(self, status: int, said: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.status, self.said = status, said
        self.asked: list[tuple[str, str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Door(BaseHTTPRequestHandler):
    server: Master

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.server.asked.append((self.command, self.path, body))
        self.send_response(self.server.status)
        self.send_header("Quadlog-Index", "7:abc")
        self.end_headers()
        self.wfile.write(json.dumps(self.server.said).encode())

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as http.server wants them

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Nothing."""


@contextmanager
def master(status: int, said: dict[str, Any]) -> Iterator[Master]:
    server = Master(status, said)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(*arguments: str) -> str:
    """What the command says; its error is raised."""
    done = CliRunner().invoke(app, ["peer", *arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


def test_each_command_is_one_request() -> None:
    with master(200, {"peers": [M4]}) as one:
        assert run("list", "--at", f"{one.url}/") == f"{LINE}\n"
        assert (
            run("add", "m4", "dc4", "--at", one.url)
            == f"agreed at index 7:abc: m4 of dc4 is a peer\n{LINE}\n"
        )
        assert run("remove", "m/4", "--at", one.url).startswith(
            "agreed at index 7:abc: m/4 is no peer any more"
        )
    assert [(method, path) for method, path, _ in one.asked] == [
        ("GET", "/cluster/peers"),
        ("POST", "/cluster/peers"),
        ("DELETE", "/cluster/peers/m%2F4"),
    ]
    assert [json.loads(body or b"null") for *_, body in one.asked] == [None, {"id": "m4", "dc": "dc4"}, None]


def test_what_a_master_refuses_is_the_commands_error() -> None:
    refusal = {"error": "NoSuchPeer", "message": "m5 is not a peer", "definite": True}
    with master(404, refusal) as one, pytest.raises(NoSuchPeer, match="m5 is not a peer"):
        run("remove", "m5", "--at", one.url)
    with master(502, {"detail": "a proxy"}) as one, pytest.raises(Unavailable, match="answered 502"):
        run("list", "--at", one.url)
    with (
        master(502, {"detail": "a proxy"}) as one,
        pytest.raises(OutcomeUnknown, match="may have been taken"),
    ):
        run("remove", "m5", "--at", one.url)


def test_nobody_answers() -> None:
    with master(200, {}) as one:
        url = one.url
    with pytest.raises(Unavailable, match="cannot be reached"):
        run("add", "m4", "dc4", "--at", url)
    with pytest.raises(QuadlogError, match="cannot be reached"):
        run("list", "--at", "nowhere")


def test_who_is_left_is_named_with_force_and_only_then() -> None:
    with master(200, {"peers": [M4]}) as one:
        named = ("--survivor", "m1", "--survivor", "m/3")
        run("remove", "m4", "--force", *named, "--at", one.url)
        for wrong in (["--force"], named):
            with pytest.raises(SystemExit):
                run("remove", "m4", *wrong, "--at", one.url)
    assert [path for _, path, _ in one.asked] == ["/cluster/peers/m4?survivor=m1&survivor=m%2F3"]
