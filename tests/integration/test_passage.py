"""A read passed on to workers that answer, refuse, break off or say nothing: stand-ins on real sockets."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from quadlog.clock import now
from quadlog.core.consistency import Consistency
from quadlog.core.model import START
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.errors import QuadlogError, Unavailable
from quadlog.master.clients.body_budget import BodyBudget
from quadlog.master.http.read_proxy import ReadProxy, ReadReply, ReadRequest
from quadlog.master.http.reads import ReadRouter, _passed_back
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.settings.units import MIB
from quadlog.web.answers import handle_error
from tests.support.raw_servers import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.waits

TIMEOUT = 0.6
"""worker-timeout, in seconds."""
LONG_MS = 60_000.0
"""Where nobody is silent."""

OK = b"HTTP/1.1 200 OK\r\nQuadlog-Index: 0:ab\r\nContent-Length: 2\r\n\r\nok"
REFUSES = b"HTTP/1.1 503 No\r\nContent-Length: 19\r\n\r\n" + b'{"message": "busy"}'
STOPPED = REFUSES.replace(b"Content", b"Quadlog-Final: true\r\nContent")
FORBIDS = b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"
BREAKS_OFF = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HANGS = b""


@asynccontextmanager
async def master(
    *says: bytes | None, lives: bool = False, timeout_ms: float = TIMEOUT * 1000
) -> AsyncIterator[tuple[httpx.AsyncClient, WorkerRegistry]]:
    """A master's door before workers w1, w2, … that say this; None: nobody listens.

    A worker that says nothing hangs; with `lives` it still answers `/status`.
    """
    servers: list[asyncio.Server] = []
    connections: set[asyncio.StreamWriter] = set()
    worker_registry = WorkerRegistry(timeout_ms=timeout_ms)

    async def serve(what: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if what == HANGS and not (lives and b"/status" in head):
                await reader.read()
            else:
                writer.write(what or OK)
        finally:
            writer.close()

    for number, what in enumerate(says, 1):
        port = 9
        if what is not None:
            server = await asyncio.start_server(partial(serve, what), "127.0.0.1", 0)
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
        worker_registry.on_heartbeat(heartbeat(f"w{number}", port), now().steady)
    view = SimpleNamespace(worker_registry=worker_registry, shown=0, elsewhere=())
    settings = SimpleNamespace(repository="main", node_id="m1")
    reads = ReadRouter(
        cast("Any", view),
        cast("Any", settings),
        BodyBudget(MIB),
        read_proxy=ReadProxy(worker_registry),
        barrier=cast("Any", None),
        default_consistency=lambda: Consistency.SESSION,
    )
    app = Starlette(
        routes=[Route("/sparql", reads.answer, methods=["POST"])],
        exception_handlers={QuadlogError: handle_error},
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://m") as client:
        yield client, worker_registry
    await reads._read_proxy._client.aclose()
    for server in servers:
        server.close()
    await asyncio.gather(*(writer.wait_closed() for writer in connections), return_exceptions=True)


def heartbeat(name: str, port: int) -> Heartbeat:
    return Heartbeat(
        worker=name,
        dc="dc1",
        url=f"http://127.0.0.1:{port}",
        state=WorkerState.SERVING,
        evaluating=False,
        attempt=1,
        applied=START,
        signature=bytes(32),
        quads=0,
        sent=0,
    )


async def ask(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/sparql", content=b"ASK {}", timeout=10)


def test_the_next_one_is_asked_until_one_answers() -> None:
    async def scenario() -> None:
        async with master(None, REFUSES, BREAKS_OFF, OK, timeout_ms=LONG_MS) as (client, worker_registry):
            answer = await ask(client)
            assert (answer.status_code, answer.text, answer.headers["quadlog-index"]) == (200, "ok", "0:ab")
            assert [worker.reading for worker in worker_registry.all()] == [0, 0, 0, 0]
            assert [worker.failed_at > 0 for worker in worker_registry.all()] == [True, False, True, False]

    asyncio.run(scenario())


def test_what_is_wrong_with_the_query_is_not_tried_elsewhere() -> None:
    async def scenario() -> None:
        async with master(FORBIDS, OK, timeout_ms=LONG_MS) as (client, _):
            answer = await ask(client)
            assert (answer.status_code, answer.text) == (403, "no")

    asyncio.run(scenario())


def test_a_query_that_was_stopped_is_not_begun_again_elsewhere() -> None:
    async def scenario() -> None:
        async with master(STOPPED, OK, timeout_ms=LONG_MS) as (client, _):
            answer = await ask(client)
            assert (answer.status_code, answer.headers["quadlog-final"]) == (503, "true")
            assert answer.json()["message"] == "busy"

    asyncio.run(scenario())


def test_when_all_fail_each_says_why() -> None:
    async def scenario() -> None:
        async with master(None, REFUSES, BREAKS_OFF, OK, timeout_ms=LONG_MS) as (client, worker_registry):
            worker_registry.all()[3].heard_at -= LONG_MS + 4000
            answer = await ask(client)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
            title, first, second, third, fourth = answer.json()["message"].split("\n")
            assert "no worker" in title
            assert first.startswith("w1 failed: ConnectError")
            assert second == "w2 answered 503: busy"
            assert third.startswith("w3 failed: RemoteProtocolError")
            assert fourth.startswith("w4 is down: last heard of 6")
            assert [worker.reading for worker in worker_registry.all()] == [0, 0, 0, 0]

    asyncio.run(scenario())


def test_one_that_hangs_is_left_when_it_counts_as_down() -> None:
    async def scenario() -> None:
        async with master(HANGS, OK) as (client, worker_registry):
            began = time.monotonic()
            asking = asyncio.create_task(ask(client))
            for _ in range(10):  # the other one is heard all the time
                await asyncio.sleep(TIMEOUT / 5)
                worker_registry.all()[1].heard_at = now().steady
            answer = await asking
            assert (answer.status_code, answer.text) == (200, "ok")
            assert TIMEOUT <= time.monotonic() - began < TIMEOUT * 2 + 0.5 + 0.5

    asyncio.run(scenario())


def test_one_whose_heartbeats_stay_away_may_take_its_time_while_it_lives() -> None:
    """Kafka is away, say: a long query goes on."""

    async def scenario() -> None:
        async with master(HANGS, lives=True) as (client, worker_registry):
            asking = asyncio.create_task(ask(client))
            await asyncio.sleep(TIMEOUT * 3)
            assert not asking.done()
            assert [worker.reading for worker in worker_registry.all()] == [1]
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert [worker.reading for worker in worker_registry.all()] == [0]

    asyncio.run(scenario())


BEGINS = BREAKS_OFF + b"1\r\na\r\n"
QUESTION = ReadRequest(method="POST", path="/sparql", query_string=b"", headers=[], body=b"ASK {}")


def test_one_that_hangs_in_the_middle_of_an_answer_breaks_it_off() -> None:
    async def scenario() -> None:
        async with serving((None, BEGINS, None), (None, None)) as (port, _):
            worker_registry = WorkerRegistry(timeout_ms=TIMEOUT * 1000)
            worker_registry.on_heartbeat(heartbeat("w1", port), now().steady)
            [worker] = worker_registry.all()
            reply = await ReadProxy(worker_registry).ask(worker, QUESTION)
            assert (reply.first, worker.reading) == (b"a", 1)
            assert reply.rest is not None
            with pytest.raises(Unavailable, match="in the middle of an answer w1 is down: last heard of 1"):
                await anext(reply.rest)
            await reply.rest.aclose()
            assert (worker.reading, worker.failed_at > 0) == (0, True)

    asyncio.run(scenario())


@pytest.mark.parametrize("waits_again", [False, True])
@pytest.mark.parametrize("lives", [False, True])
def test_a_proof_that_fails_ends_only_the_wait_that_it_began_in(*, lives: bool, waits_again: bool) -> None:
    """Something came meanwhile: the next wait has a proof of its own."""

    async def scenario() -> None:
        proofs, is_proving, goes_on = iter([False, lives]), asyncio.Event(), asyncio.Event()

        async def later() -> AsyncIterator[bytes]:
            await is_proving.wait()
            yield b"1\r\nb\r\n"
            if lives:
                await asyncio.sleep(TIMEOUT * 2)
                yield b"0\r\n\r\n"
            await asyncio.sleep(60)

        async def proof(_: object) -> bool:
            is_proving.set()
            await goes_on.wait()
            return next(proofs)

        async with serving((None, BEGINS, later())) as (port, _):
            worker_registry = WorkerRegistry(timeout_ms=TIMEOUT * 1000)
            worker_registry.on_heartbeat(heartbeat("w1", port), now().steady)
            read_proxy = ReadProxy(worker_registry)
            read_proxy.lives = proof  # type: ignore[method-assign, assignment]
            reply = await read_proxy.ask(worker_registry.all()[0], QUESTION)
            assert reply.rest is not None
            assert await anext(reply.rest) == b"b"
            if not waits_again:
                goes_on.set()
                await asyncio.sleep(0.05)
            waiting = asyncio.ensure_future(anext(reply.rest))
            await asyncio.sleep(0.05)
            goes_on.set()
            async with asyncio.timeout(20):
                with pytest.raises(StopAsyncIteration if lives else Unavailable):
                    await waiting
            await reply.rest.aclose()

    asyncio.run(scenario())


def test_the_answer_to_head_says_nothing_of_a_length_that_nobody_knows() -> None:
    for length in ([], [(b"content-length", b"7")]):
        reply = ReadReply(status=200, headers=length, first=b"", rest=None)
        assert _passed_back("HEAD", reply).headers.get("content-length") == ("7" if length else None)
    assert _passed_back("GET", reply).headers["content-length"] == "7"


def test_a_client_that_leaves_before_the_rest_is_begun_frees_its_worker() -> None:
    async def scenario() -> None:
        async with serving((None, BEGINS, None)) as (port, heard):
            worker_registry = WorkerRegistry(timeout_ms=60_000)
            worker_registry.on_heartbeat(heartbeat("w1", port), now().steady)
            [worker], read_proxy = worker_registry.all(), ReadProxy(worker_registry)
            for number in (1, 2):
                reply = await read_proxy.ask(worker, QUESTION)
                assert reply.rest is not None
                await reply.rest.aclose()
                assert worker.reading == 0
                assert len(heard) == number, "the connection with the rest of an answer is not used again"

    asyncio.run(scenario())
