"""Which process is asked what: short questions share processes, and none harms another."""

from __future__ import annotations

import asyncio
import os
import signal
from math import inf
from typing import TYPE_CHECKING

import pytest

from quadlog.web.answers import FINAL
from quadlog.worker.reads import reading_process as reader_module
from quadlog.worker.reads import scheduler as scheduler_module
from quadlog.worker.reads.frames import FrameKind, framed, headers_frame
from quadlog.worker.reads.reader_process import GATHERED
from quadlog.worker.reads.scheduler import DEPTH
from tests.support.workers.served import (
    ENDLESS,
    OF_X,
    Served,
    asking,
    gone,
    listed,
    lives,
    only,
    served,
    suspend,
)
from tests.support.workers.slow_client import SlowClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


pytestmark = pytest.mark.anyio


@pytest.fixture
async def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker with one process; what is in its pipe stays there."""
    for name in ("SLOW_MS", "LONG_MS", "HELD_MS"):
        monkeypatch.setattr(scheduler_module, name, inf)
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        yield here


async def test_short_queries_share_few_processes(tmp_path: Path) -> None:
    async with served(tmp_path, most=16, quick=2) as here:
        for _ in range(5):
            answers = await asyncio.gather(*(here.ask("SELECT * { ?s ?p ?o }") for _ in range(40)))
            assert {answer.status_code for answer in answers} == {200}
        assert next(here.readers._numbers) <= 3


async def test_a_process_has_its_next_questions_before_it_has_answered_and_no_more(one: Served) -> None:
    await suspend(only(one).pid)
    answers = [asking(one, "ASK {}") for _ in range(DEPTH + 3)]
    await listed(one, DEPTH)
    await asyncio.sleep(0.1)
    assert len(await one.listed()) == DEPTH
    os.kill(only(one).pid, signal.SIGCONT)
    assert {answer.status_code for answer in await asyncio.gather(*answers)} == {200}
    assert next(one.readers._numbers) == 2, "all by the one process"


async def test_questions_are_spread_over_the_processes_and_none_waits_while_one_is_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "SLOW_MS", inf)
    monkeypatch.setattr(scheduler_module, "HELD_MS", inf)
    async with served(tmp_path, most=8, quick=2) as here:
        async with asyncio.timeout(30):
            while len(here.readers.idle) < 2:
                await here.ask("ASK {}")
        held, other = here.readers.idle
        await suspend(held.pid)
        await suspend(other.pid)
        answers = [asking(here, "ASK {}") for _ in range(6)]
        await listed(here, 6)
        assert (len(held.calls), len(other.calls)) == (3, 3)
        began = held.calls[0].began
        os.kill(other.pid, signal.SIGCONT)
        async with asyncio.timeout(30):
            while sum(answer.done() for answer in answers) < 5:
                await asyncio.sleep(0.01)
        assert (len(held.calls), len(other.calls)) == (1, 0)
        assert held.calls[0].began == began, "otherwise nobody notices that it stands still"
        os.kill(held.pid, signal.SIGCONT)
        assert {answer.status_code for answer in await asyncio.gather(*answers)} == {200}


async def test_a_question_in_the_pipe_shows_what_is_committed_when_it_is_asked(one: Served) -> None:
    await suspend(only(one).pid)
    before = asking(one, OF_X)
    await listed(one, 1)
    one.update("INSERT DATA { <urn:x> <urn:p> 1 }")
    after = asking(one, OF_X)
    await listed(one, 2)
    os.kill(only(one).pid, signal.SIGCONT)
    index = [int((await answer).headers["quadlog-index"].partition(":")[0]) for answer in (before, after)]
    assert index == [index[1] - 1, one.worker.store.applied.index]
    assert len((await after).json()["results"]["bindings"]) == 1
    assert next(one.readers._numbers) == 2


async def test_where_no_process_gets_on_there_is_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it takes long until a query has had the CPU time of a long one."""
    for name in ("LONG_MS", "HELD_MS"):
        monkeypatch.setattr(scheduler_module, name, inf)
    async with served(tmp_path, most=4, quick=1) as here:
        long = asking(here, ENDLESS)
        await here.one_begun()
        here.scheduler.turn_s = 1
        assert (await here.ask("ASK {}")).status_code == 200
        assert (here.readers.longs, next(here.readers._numbers)) == (0, 3)
        long.cancel()


async def test_a_query_that_is_ended_takes_none_with_it(one: Served) -> None:
    long, first = asking(one, ENDLESS), await one.one_begun()
    short = asking(one, "ASK {}")
    await listed(one, 2)
    await one.client.delete(f"/queries/{first['id']}")
    assert (await long).json()["error"] == "QueryStopped"
    assert (await short).status_code == 200
    await gone(first["pid"])


async def test_a_process_that_is_killed_fails_what_it_had_begun_alone(one: Served) -> None:
    long, first = asking(one, ENDLESS), await one.one_begun()
    short = asking(one, "ASK {}")
    await listed(one, 2)
    os.kill(first["pid"], signal.SIGKILL)
    assert (await short).status_code == 200
    assert ((await long).json()["error"], (await long).headers[FINAL]) == ("QueryStopped", "true")


async def test_a_process_that_dies_before_it_began_costs_no_query(one: Served) -> None:
    reader = only(one)
    await suspend(reader.pid)
    answers = [asking(one, "ASK {}") for _ in range(2)]
    await listed(one, 2)
    os.kill(reader.pid, signal.SIGKILL)
    assert {answer.status_code for answer in await asyncio.gather(*answers)} == {200}


async def test_what_was_taken_back_is_not_answered_in_the_place_of_another_question(one: Served) -> None:
    await suspend(only(one).pid)
    first, second = asking(one, "SELECT (1 AS ?n) {}"), asking(one, "SELECT (2 AS ?n) {}")
    await one.client.delete(f"/queries/{(await listed(one, 2))[0]['id']}")
    assert (await first).json()["error"] == "QueryStopped"
    os.kill(only(one).pid, signal.SIGCONT)
    assert (await second).json()["results"]["bindings"][0]["n"]["value"] == "2"
    assert next(one.readers._numbers) == 2, "no process ended for that"


@pytest.mark.parametrize("how", ["deleted", "left"])
async def test_a_query_that_did_not_begin_is_ended_without_its_process(one: Served, how: str) -> None:
    long, first = asking(one, ENDLESS), await one.one_begun()
    short = asking(one, "ASK {}")
    behind = (await listed(one, 2))[1]
    if how == "left":
        short.cancel()
    else:
        await one.client.delete(f"/queries/{behind['id']}")
        assert (await short).json()["error"] == "QueryStopped"
    async with asyncio.timeout(10):
        while len(await one.listed()) > 1:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert lives(first["pid"])
    assert not long.done()
    long.cancel()
    await gone(first["pid"])


async def test_a_process_that_has_begun_the_next_question_does_not_wait_for_a_client(one: Served) -> None:
    """All of the answer before is on its way then, and the next one behind it."""
    reader = only(one)
    await suspend(reader.pid)
    client = SlowClient(one, OF_X)
    await listed(one, 1)
    short = asking(one, "ASK {}")
    await listed(one, 2)
    assert reader.tickets.withdraw() == {2, 3}, "as if the process had begun both"
    head = headers_frame({"Content-Type": "text/plain"})
    reader._channel.data_received(head + framed(FrameKind.PIECE, b"x" * GATHERED) * 10)
    assert not reader._is_paused
    reader._channel.data_received(
        framed(FrameKind.END, b"") + head + framed(FrameKind.PIECE, b"yes") + framed(FrameKind.END, b"")
    )
    assert (await short).content == b"yes"
    client.goes_on.set()
    await client.task
    assert client.taken == 10 * GATHERED
    one.readers.discard(reader)


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_dump_is_that_of_a_copy_that_was_just_made(one: Served, is_old: bool) -> None:  # noqa: FBT001
    """An older one does not show what was changed behind the store's back since."""
    reader = only(one)
    if is_old:
        reader.born -= scheduler_module.FRESH_MS
    assert (await one.client.get("/statements")).status_code == 200
    if is_old:
        await gone(reader.pid)
    assert (reader in one.readers.idle) is not is_old


async def _repeat(here: Served) -> None:
    while True:
        assert (await here.ask("ASK {}")).status_code == 200


async def test_a_worn_process_is_replaced_while_it_is_never_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "WORN_BYTES", 0)
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        first = only(here)
        short = [asyncio.create_task(_repeat(here)) for _ in range(4)]
        here.update("INSERT DATA { <urn:x> <urn:p> 1 }")
        await gone(first.pid)
        assert (await here.ask("ASK {}")).status_code == 200
        assert not any(task.done() for task in short), "none of them failed"
        for task in short:
            task.cancel()


async def test_a_slow_client_holds_up_its_process_and_no_memory(one: Served) -> None:
    client = SlowClient(one, "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }")
    await listed(one, 1)
    [call] = only(one).calls
    async with asyncio.timeout(30):
        while call.waiting <= GATHERED or not only(one)._is_paused:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        waiting = call.waiting
        await asyncio.sleep(0.2)
        assert call.waiting == waiting < 500_000, "the process waits"
        client.goes_on.set()
        while client.taken <= 2_000_000:
            await asyncio.sleep(0.01)
    client.task.cancel()


async def test_an_answer_that_waits_for_its_client_holds_up_no_other_one(one: Served) -> None:
    """Its process has done with it: the rest is at the worker."""
    client = SlowClient(one, "SELECT * { ?a ?b ?c . ?d ?e ?f } LIMIT 200")
    async with asyncio.timeout(30):
        while not client.taken or one.readers.busy:
            await asyncio.sleep(0.01)
    assert client.taken < 30_000
    assert (await one.ask("ASK {}")).status_code == 200
    client.goes_on.set()
    await client.task
    assert client.taken > 40_000
    assert next(one.readers._numbers) == 2


async def test_a_process_whose_answer_came_whole_is_heard_again(one: Served) -> None:
    """More than may wait for the client came in one read, and the end with it."""
    reader = only(one)
    await suspend(reader.pid)
    client = SlowClient(one, OF_X)
    await listed(one, 1)
    reader.tickets.withdraw()  # as if the process had begun it
    pieces = framed(FrameKind.PIECE, b"x" * GATHERED) * 10
    reader._channel.data_received(
        headers_frame({"Content-Type": "text/plain"}) + pieces + framed(FrameKind.END, b"")
    )
    assert not reader._is_paused
    client.goes_on.set()
    await client.task
    assert client.taken == 10 * GATHERED
    one.readers.discard(reader)
