"""What a read has to show decides which worker is asked: stand-ins that are at different indexes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from quadlog.clock import now
from quadlog.core.consistency import Consistency
from quadlog.core.model import LogPosition
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.errors import QuadlogError, Unavailable
from quadlog.master.clients.barrier import Barrier
from quadlog.master.clients.body_budget import BodyBudget
from quadlog.master.http import reads as reads_module
from quadlog.master.http.read_proxy import ReadProxy
from quadlog.master.http.reads import ReadRouter
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.settings.units import MIB
from quadlog.web.answers import handle_error
from quadlog.web.http_pool import ConnectionPool, Message, Origin, Seconds
from quadlog.web.http_response import HttpResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

SHOWN, AGREED, BARRIER = 5, 7, 9
CHAIN = bytes.fromhex("ab" * 32)


def beat(worker: str, index: int) -> Heartbeat:
    return Heartbeat(
        worker=worker,
        dc="dc1",
        url=f"http://{worker}",
        state=WorkerState.SERVING,
        evaluating=False,
        attempt=1,
        applied=LogPosition(index, bytes(32)),
        signature=bytes(32),
        quads=0,
        sent=0,
    )


class Workers(ConnectionPool):
    """Whoever is asked answers with its name, and with what the read has to show there."""

    async def request(self, origin: Origin, message: Message, seconds: Seconds) -> HttpResponse:
        del seconds
        asked = (
            value for name, value in message.headers if name in {b"quadlog-consistency", b"quadlog-min-index"}
        )
        body = b" ".join((origin.host.encode(), *asked))
        response = HttpResponse(Nobody(), asyncio.get_running_loop(), is_head=False)
        response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        return response


class Nobody:
    """No connection."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def end(self, *, is_reusable: bool) -> None: ...


class Door:
    """A master's, before workers `w4`, `w5`, … at the index in their name."""

    def __init__(self, *indexes: int, default: Consistency = Consistency.SESSION) -> None:
        self.worker_registry = WorkerRegistry(timeout_ms=60_000)
        for index in indexes:
            self.hear(f"w{index}", index)
        self.barriers = 0

        async def give() -> int:
            self.barriers += 1
            return BARRIER

        self.view = SimpleNamespace(
            worker_registry=self.worker_registry,
            shown=SHOWN,
            agreed=AGREED,
            chain_at=lambda index: CHAIN if index <= AGREED else None,
            elsewhere=(),
        )
        settings = SimpleNamespace(repository="main", node_id="m1")
        self.read_proxy = ReadProxy(self.worker_registry)
        self.read_proxy._pool = Workers()
        reads = ReadRouter(
            cast("Any", self.view),
            cast("Any", settings),
            BodyBudget(MIB),
            read_proxy=self.read_proxy,
            barrier=Barrier(give),
            default_consistency=lambda: default,
        )
        app = Starlette(
            routes=[Route("/sparql", reads.answer, methods=["POST"])],
            exception_handlers={QuadlogError: handle_error},
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://m")

    def hear(self, worker: str, index: int) -> None:
        self.worker_registry.on_heartbeat(beat(worker, index), now().steady)

    async def ask(self, **headers: str) -> httpx.Response:
        return await self.client.post(
            "/sparql",
            content=b"ASK {}",
            headers={f"quadlog-{name.replace('_', '-')}": value for name, value in headers.items()},
        )

    async def who(self, **headers: str) -> set[str]:
        """Who answers, if each takes a turn."""
        return {(await self.ask(**headers)).text for _ in range(6)}


@asynccontextmanager
async def door(*indexes: int, default: Consistency = Consistency.SESSION) -> AsyncIterator[Door]:
    made = Door(*indexes, default=default)
    try:
        yield made
    finally:
        await made.client.aclose()


async def test_each_consistency_shows_more() -> None:
    async with door(4, 5, 7, 9) as master:
        assert await master.who(consistency="eventual") == {"w4", "w5", "w7", "w9"}
        assert await master.who() == {"w5", "w7", "w9"}
        assert await master.who(consistency="session") == {"w5", "w7", "w9"}
        assert await master.who(consistency="Local") == {"w7", "w9"}
        assert master.barriers == 0
        assert await master.who(consistency="strict") == {"w9"}
        assert master.barriers == 6
        assert await master.who(consistency="eventual", min_index="6") == {"w7", "w9"}
        assert await master.who(min_index="3") == {"w5", "w7", "w9"}, "it asks for more, never for less"


async def test_the_default_is_a_setting() -> None:
    async with door(4, 9, default=Consistency.EVENTUAL) as master:
        assert await master.who() == {"w4", "w9"}
        assert await master.who(consistency="session") == {"w9"}


async def test_a_read_waits_for_a_worker_that_is_about_to_show_it() -> None:
    async with door(5) as master:
        asking = asyncio.create_task(master.ask(min_index="8"))
        await asyncio.sleep(0.1)
        assert not asking.done()
        master.hear("w5", 8)
        assert (await asking).status_code == 200


async def test_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads_module, "WAIT_S", 0.1)
    async with door(5) as master:
        answer = await master.ask(min_index="8")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert "w5 is at index 5, behind 8" in answer.json()["message"]


async def test_what_no_worker_here_can_show_is_read_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was acknowledged here is not in the own effects topic, which is full."""
    async with door(4) as master:
        master.view.elsewhere = ["http://m2"]
        assert (await master.ask()).text == f"m2 eventual {SHOWN}"
        assert (await master.ask(min_index="8")).text == "m2 eventual 8"
        monkeypatch.setattr(reads_module, "WAIT_S", 0.1)
        assert (await master.ask(via="m3")).status_code == 503, "another one is in the same case"


async def test_another_history_is_said() -> None:
    async with door(5) as master:
        assert (await master.ask(min_index="4:abab")).status_code == 200
        answer = await master.ask(min_index="4:abba")
        assert (answer.status_code, answer.json()["error"]) == (409, "OtherHistory")


async def test_what_is_not_understood_is_refused() -> None:
    async with door(5) as master:
        for headers in ({"consistency": "latest"}, {"min_index": "-1"}, {"min_index": "soon"}):
            assert (await master.ask(**headers)).status_code == 400


async def test_a_barrier_is_younger_than_the_read_and_shared_by_those_that_wait() -> None:
    given: list[asyncio.Future[int]] = []

    async def give() -> int:
        given.append(asyncio.get_running_loop().create_future())
        return await given[-1]

    barrier = Barrier(give)
    first = asyncio.create_task(barrier.index())
    await asyncio.sleep(0.01)
    later = [asyncio.create_task(barrier.index()) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert len(given) == 1
    given[0].set_result(1)
    await asyncio.sleep(0.01)
    assert await first == 1
    assert not any(task.done() for task in later), "what was given before they came says nothing to them"
    given[1].set_result(2)
    assert await asyncio.gather(*later) == [2, 2, 2]
    assert len(given) == 2


async def test_a_barrier_that_fails_fails_for_those_that_share_it_and_for_no_other() -> None:
    given = 0

    async def give() -> int:
        nonlocal given
        given += 1
        await asyncio.sleep(0.01)
        if given == 1:
            raise Unavailable("a master is silent")
        return 3

    barrier = Barrier(give)
    with pytest.raises(Unavailable):
        await barrier.index()
    assert await barrier.index() == 3
