"""Requests as they are on the wire: an application gets all of a body, or nothing is done."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quadlog.errors import QuadlogError, QueryStopped
from quadlog.kafka.ports import free_ports
from quadlog.web.answers import StreamedResponse, handle_error, unless_left
from quadlog.web.http10 import Http10Buffering
from quadlog.web.http_body import read_body
from quadlog.web.http_protocol import HEAD_LIMIT
from quadlog.web.http_rules import HttpRules
from quadlog.web.server import Server
from tests.support.clusters.cluster import until
from tests.support.raw_http import H2C, connected, exchange, parts_of, request, status_of, until_closed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator

    from starlette.requests import Request

CLOSE = {"Connection": "close"}
UPGRADE_AND_CLOSE = H2C | {"Connection": "close, Upgrade, HTTP2-Settings"}
BODY = bytes(range(256)) * 40


class Door:
    """An application that notes which bodies it was given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.pieces = self.waiting = 0
        self.url = ""
        self.app = Starlette(
            routes=[
                Route("/body", self.body, methods=["GET", "POST", "PUT"]),
                Route("/long", self.long, methods=["GET"]),
                Route("/stopped", self.stopped, methods=["GET"]),
                Route("/waits", self.waits, methods=["GET"]),
                Route("/none", self.nothing, methods=["POST"]),
            ],
            exception_handlers={QuadlogError: handle_error},
        )

    async def body(self, request: Request) -> Response:
        self.bodies.append(await read_body(request, 10**6))
        headers = [(name, value) for name, value in request.headers.items() if name != "host"]
        return JSONResponse({"size": len(self.bodies[-1]), "headers": headers})

    async def stopped(self, request: Request) -> Response:
        del request

        async def rest() -> AsyncGenerator[bytes]:
            yield b"a part"
            raise QueryStopped("it took too long")

        return StreamedResponse(b"", rest())

    async def waits(self, request: Request) -> Response:
        self.waiting += 1
        try:
            await unless_left(request, asyncio.Event().wait())
        finally:
            self.waiting -= 1
        return Response()

    async def nothing(self, request: Request) -> Response:
        del request
        return Response(status_code=403)

    async def long(self, request: Request) -> Response:
        fails_at = int(request.query_params.get("fails-at", "-1"))

        async def pieces() -> AsyncIterator[bytes]:
            for number in range(100):
                if number == fails_at:
                    raise OSError("the test says so")
                self.pieces += 1
                yield b"%09d\n" % number * 1000

        return StreamingResponse(pieces(), media_type="text/plain")


@pytest.fixture(scope="module")
def running() -> Iterator[Door]:
    door, [port] = Door(), free_ports(1)
    door.url, server = f"http://127.0.0.1:{port}", Server("127.0.0.1", port)
    with server.early(door.app), server._socket:
        yield door


@pytest.fixture
def door(running: Door) -> Door:
    running.bodies, running.pieces = [], 0
    return running


@pytest.mark.parametrize("expect", [{}, {"Expect": "100-continue"}], ids=["", "expect"])
@pytest.mark.parametrize("chunk", [0, 1000, 7], ids=["length", "chunks", "small chunks"])
@pytest.mark.parametrize("split", [None, 100], ids=["at once", "in parts"])
def test_an_offer_to_upgrade_is_declined_and_the_body_is_read(
    door: Door, chunk: int, split: int | None, expect: dict[str, str]
) -> None:
    sent = request("POST", "/body", UPGRADE_AND_CLOSE | expect, BODY, chunk=chunk)
    with connected(door.url) as one:
        for at in range(0, len(sent), split or len(sent)):
            one.sendall(sent[at : at + (split or len(sent))])
        answer = until_closed(one)
    answer = answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert status_of(answer) == 200, answer
    assert door.bodies == [BODY]
    assert not {"upgrade"} & {name for name, _ in json.loads(parts_of(answer)[1])["headers"]}


def test_requests_with_and_without_offers_follow_each_other_on_one_connection(door: Door) -> None:
    offers = [request("POST", "/body", H2C, BODY[:size], chunk=chunk) for size in (1, 99) for chunk in (0, 5)]
    plain = request("GET", "/body", {})
    last = request("POST", "/body", CLOSE, b"last")
    answer = exchange(door.url, plain.join([*offers, last]))
    assert answer.count(b"HTTP/1.1 200 OK") == 2 * len(offers) + 1
    assert door.bodies == [BODY[:1], b"", BODY[:1], b"", BODY[:99], b"", BODY[:99], b"", b"last"]


SMUGGLED = [
    ("Content-Length: 5\r\nContent-Length: 5", b"hello"),
    ("Content-Length: 5\r\nContent-Length: 6", b"hello!"),
    ("Content-Length: 5, 5", b"hello"),
    ("Content-Length: +5", b"hello"),
    ("Content-Length:", b"hello"),
    ("Content-Length : 5", b"hello"),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5", b"5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: gzip, chunked", b"5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked, identity", b"5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: xchunked", b"5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", b"5\nhello\n0\n\n"),
    ("Transfer-Encoding: chunked", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked", b"5\r\nhello0\r\n\r\n"),
    ("Transfer-Encoding: chunked", b"4\r\nhello\r\n0\r\n\r\n"),
    ("A: b\r\n folded: x\r\nContent-Length: 5", b"hello"),
]


@pytest.mark.parametrize(("framing", "body"), SMUGGLED)
@pytest.mark.parametrize("offer", ["", "Connection: Upgrade\r\nUpgrade: h2c\r\n"], ids=["", "upgrade"])
def test_where_a_body_ends_has_to_be_plain(door: Door, framing: str, body: bytes, offer: str) -> None:
    behind = request("POST", "/body", CLOSE, b"smuggled")
    head = f"POST /body HTTP/1.1\r\nHost: quadlog\r\n{offer}{framing}\r\n\r\n".encode()
    answer = exchange(door.url, head + body + behind)
    assert status_of(answer) == 400
    assert answer.count(b"HTTP/1.1 400") == 1, "what follows is no request"
    assert b"HTTP/1.1 200" not in answer
    assert door.bodies == []


@pytest.mark.parametrize(
    "sent",
    [
        request("POST", "/body", {}, b"hello", chunk=5, version="1.0"),
        b"POST /body HTTP/1.0\r\n\r\nhello",
        b"POST /body HTTP/1.1\r\nHost: quadlog\r\nConnection: close\r\n\r\n",
        b"CONNECT quadlog:80 HTTP/1.1\r\nHost: quadlog\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /body HTTP/1.1\r\nHost: quadlog\r\nA: " + b"a" * (HEAD_LIMIT + 300_000),
    ],
    ids=["chunks of 1.0", "1.0 without length", "nothing", "CONNECT", "HTTP/2", "endless headers"],
)
def test_what_is_no_whole_request_is_refused(door: Door, sent: bytes) -> None:
    assert status_of(exchange(door.url, sent)) == 400
    assert door.bodies == []


@pytest.mark.parametrize(
    "behind",
    [
        b"no request\r\n\r\n",
        b"POST /body HTTP/1.1\r\nHost: quadlog\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["no request", "a bad chunk"],
)
def test_a_refusal_is_never_the_answer_to_another_request(door: Door, behind: bytes) -> None:
    sent = request("POST", "/body", {}, b"done")
    assert status_of(exchange(door.url, sent + behind)) == 0
    until(lambda: door.bodies == [b"done"])


def test_blanks_around_a_header_are_none_of_it(door: Door) -> None:
    sent = request("POST", "/body", CLOSE | {"Content-Length": "05 \t", "Idempotency-Key": " k "}) + b"hello"
    answer = exchange(door.url, sent)
    assert status_of(answer) == 200, answer
    assert dict(json.loads(parts_of(answer)[1])["headers"])["idempotency-key"] == "k"
    assert door.bodies == [b"hello"]


def test_a_coded_body_is_refused(door: Door) -> None:
    sent = request("POST", "/body", CLOSE | {"Content-Encoding": "gzip"}, b"hello")
    assert status_of(exchange(door.url, sent)) == 400
    assert door.bodies == []
    sent = request("POST", "/body", CLOSE | {"Content-Encoding": "identity"}, b"hello")
    assert status_of(exchange(door.url, sent)) == 200


def test_an_answer_ends_when_its_client_leaves_though_another_request_waits(door: Door) -> None:
    with connected(door.url) as one:
        one.sendall(request("GET", "/waits", {}) + request("GET", "/body", {}))
        until(lambda: door.waiting == 1)
    until(lambda: door.waiting == 0, 5)
    assert door.bodies == [], "the other one is not begun for nobody"


@pytest.mark.parametrize(
    "target", ["/body?a=%ff", "/body?a=%C3", "/b%ffdy", "/body?%ED%A0%80=1", "/body?a=\xe9"]
)
def test_urls_are_utf_8(door: Door, target: str) -> None:
    assert status_of(exchange(door.url, request("GET", target, {}))) == 400
    assert door.bodies == []


def test_a_trailer_is_no_header(door: Door) -> None:
    sent = request("POST", "/body", CLOSE, b"hello", chunk=5)
    answer = exchange(door.url, sent.removesuffix(b"\r\n") + b"Idempotency-Key: k\r\n\r\n")
    assert "idempotency-key" not in dict(json.loads(parts_of(answer)[1])["headers"])
    assert door.bodies == [b"hello"]


def test_a_connection_ends_where_nobody_knows_whether_the_body_follows(door: Door) -> None:
    sent = request("POST", "/none", {"Expect": "100-continue", "Content-Length": "5"})
    with connected(door.url) as one:
        one.sendall(sent)
        answer = until_closed(one)
    assert status_of(answer) == 403
    assert parts_of(answer)[0]["connection"] == "close"
    assert door.bodies == []


def test_of_requests_that_are_cut_anywhere_none_is_done_in_part(door: Door) -> None:
    chance = random.Random(27)
    whole = [
        request("POST", "/body", headers, BODY[:200], chunk=chunk)
        for headers in (CLOSE, UPGRADE_AND_CLOSE)
        for chunk in (0, 64)
    ]
    for _ in range(200):
        sent = chance.choice(whole)
        with connected(door.url) as one:
            one.sendall(sent[: chance.randrange(len(sent))])
            one.shutdown(1)
            assert status_of(until_closed(one)) in {0, 400}
    assert door.bodies == []
    assert all(status_of(exchange(door.url, sent)) == 200 for sent in whole)


def test_announced_and_received_length_are_compared_whatever_the_server_does() -> None:
    door = Door()
    seen = []

    async def ask(length: str | None, body: bytes) -> int:
        headers = [] if length is None else [(b"content-length", length.encode())]
        scope = {
            "type": "http", "method": "PUT", "path": "/body", "raw_path": b"/body", "query_string": b"",
            "headers": headers, "http_version": "1.1",
        }  # fmt: skip

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, object]) -> None:
            seen.append(message.get("status"))

        await HttpRules(door.app)(scope, receive, send)  # type: ignore[arg-type]
        status = seen[0]
        seen.clear()
        assert isinstance(status, int)
        return status

    async def scenario() -> None:
        assert await ask("5", b"") == 400
        assert await ask("5", b"hell") == 400
        assert await ask("5", b"hello!") == 400
        assert await ask(None, b"") == 400
        assert await ask("0", b"") == 200
        assert await ask("5", b"hello") == 200

    asyncio.run(scenario())
    assert door.bodies == [b"", b"hello"]


def test_http_1_0_gets_a_length_and_no_chunks(door: Door) -> None:
    answer = exchange(door.url, request("GET", "/long", {}, version="1.0"))
    headers, body = parts_of(answer)
    assert (status_of(answer), headers["content-length"]) == (200, "1000000")
    assert "transfer-encoding" not in headers
    assert body == b"".join(b"%09d\n" % number * 1000 for number in range(100))


@pytest.mark.parametrize("fails_at", [0, 1, 50, 99])
def test_http_1_0_gets_an_error_where_an_answer_fails(door: Door, fails_at: int) -> None:
    answer = exchange(door.url, request("GET", f"/long?fails-at={fails_at}", {}, version="1.0"))
    assert status_of(answer) in {500, 503}, answer[:200]
    assert len(parts_of(answer)[1]) == int(parts_of(answer)[0]["content-length"])


def test_http_1_0_gets_the_error_that_broke_the_answer_off(door: Door) -> None:
    """One that no other node answers better says so."""
    answer = exchange(door.url, request("GET", "/stopped", {}, version="1.0"))
    assert status_of(answer) == 503
    assert b"QueryStopped" in parts_of(answer)[1]
    assert "retry-after" not in parts_of(answer)[0]


def test_answers_to_http_1_0_have_a_limit_together() -> None:
    door = Door()
    gathering = Http10Buffering(room=500_000)
    seen = []

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, object]) -> None:
        seen.append(message)

    scope = {
        "type": "http", "method": "GET", "path": "/long", "raw_path": b"/long", "query_string": b"",
        "headers": [], "http_version": "1.0",
    }  # fmt: skip
    asyncio.run(gathering.answer(door.app, scope, receive, send))  # type: ignore[arg-type]
    assert seen[0]["status"] == 503
    assert gathering.room == 500_000
    assert door.pieces < 60, "the rest is not made"


def test_head_is_get_without_a_body(door: Door) -> None:
    get, head = (exchange(door.url, request(method, "/body", CLOSE)) for method in ("GET", "HEAD"))
    (expected, _), (headers, body) = parts_of(get), parts_of(head)
    for one in (expected, headers):
        del one["date"]  # the second may have changed in between
    assert (headers, body) == (expected, b"")
    door.pieces = 0
    answer = exchange(door.url, request("HEAD", "/long", CLOSE))
    assert (status_of(answer), parts_of(answer)[1]) == (200, b"")
    assert door.pieces <= 2, "what makes the answer ends"
