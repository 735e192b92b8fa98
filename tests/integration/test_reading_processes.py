"""The processes that read: replaced, shared, gone by themselves, with their worker, or for want of readers."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from math import inf
from typing import TYPE_CHECKING

import pytest

from quadlog.settings.units import MIB
from quadlog.web.answers import FINAL
from quadlog.worker.reads import process_pool as readers_module
from quadlog.worker.reads import reading_process as reader_module
from quadlog.worker.reads.feed import Feed
from tests.support.workers.served import ENDLESS, OF_X, Served, gone, lives, served, suspend

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.worker.reads.reading_process import ReadingProcess

pytestmark = pytest.mark.anyio


async def test_a_process_that_lacks_more_than_is_kept_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "TELL_S", 3600)
    async with served(tmp_path, most=1) as here:
        feed = Feed(here.worker.store.applied.index, kept=1000)
        here.worker.replica._following._feed = here.readers._feed = here.scheduler._feed = feed
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers.idle
        for number in range(10):
            here.update(f"INSERT DATA {{ <urn:x> <urn:n> {number} }}")
        answer = await here.ask("SELECT * { <urn:x> <urn:n> ?n }")
        assert len(answer.json()["results"]["bindings"]) == 10
        await gone(first.pid)


async def test_what_a_process_had_before_is_not_the_querys_and_a_fat_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each effect that it follows leaves memory behind; under load it is never seen idle."""
    monkeypatch.setattr(readers_module, "TELL_S", 3600)
    monkeypatch.setattr(reader_module, "WORN_AFTER_MS", 0)
    monkeypatch.setattr(reader_module, "WORN_MEMORY", 40 * MIB)
    long = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    async with served(tmp_path, quads=90, most=1, query_memory=25 * MIB, query_timeout=280) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers.idle
        grown, number = first.memory() + 30 * MIB, 0
        while first.memory() < grown:
            rows = " ".join(f"<urn:{number}> <urn:n> '{'x' * 500}{n}' ." for n in range(1000))
            here.update(f"INSERT DATA {{ GRAPH <urn:g> {{ {rows} }} }}")
            assert (await here.ask("ASK {}")).status_code == 200
            number += 1
        assert here.readers.idle == [first]
        assert (await here.ask(long)).status_code == 200
        while here.readers.idle == [first]:
            here.update(f"INSERT DATA {{ GRAPH <urn:g> {{ <urn:x> <urn:n> '{'x' * 500_000}{number}' }} }}")
            assert (await here.ask("ASK {}")).status_code == 200
            number += 1
            assert number < 100
        await gone(first.pid)


async def test_where_nobody_reads_no_process_follows_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To follow costs CPU in every worker.  Without writes the process stays, and with a read there is one again."""
    monkeypatch.setattr(readers_module, "IDLE_MS", 300)
    async with served(tmp_path, most=2) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        await asyncio.sleep(1)
        [first] = here.readers.idle
        here.update("INSERT DATA { <urn:x> <urn:n> 1 }")
        await gone(first.pid)
        here.update("INSERT DATA { <urn:x> <urn:n> 2 }")
        assert here.worker.feed.behind(1) is None, "nothing is kept for nobody"
        assert not here.readers.idle
        answer = await here.ask("SELECT * { <urn:x> <urn:n> ?n }")
        assert len(answer.json()["results"]["bindings"]) == 2
        here.update("INSERT DATA { <urn:x> <urn:n> 3 }")
        answer = await here.ask("SELECT * { <urn:x> <urn:n> ?n }")
        assert len(answer.json()["results"]["bindings"]) == 3


async def one_idle(here: Served) -> ReadingProcess:
    deadline = time.monotonic() + 30
    while len(here.readers.idle) != 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    return here.readers.idle[0]


async def test_before_the_first_read_no_process_follows_a_worker_that_is_catching_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is there again when it has caught up, or is asked."""
    monkeypatch.setattr(readers_module, "HURRY", 3)

    async def write() -> None:
        for _ in range(10):
            here.update("INSERT DATA { <urn:x> <urn:n> 1 }")
        await asyncio.sleep(0.01)

    async with served(tmp_path, most=2) as here:
        first = await one_idle(here)
        while lives(first.pid):
            await write()
        assert (here.readers.idle, here.readers.starting) == ([], 0)
        second = await one_idle(here)
        assert (await here.ask("ASK { <urn:x> <urn:n> 1 }")).json()["boolean"] is True
        assert second in here.readers.idle
        monkeypatch.setattr(readers_module, "IDLE_MS", inf)
        for _ in range(100):
            await write()
        assert second in here.readers.idle, "it is asked, and told of all"


async def test_an_idle_process_that_died_is_not_asked(tmp_path: Path) -> None:
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [first] = here.readers.idle
        first.kill()
        await asyncio.to_thread(first._process.wait)
        assert (await here.ask("ASK {}")).status_code == 200


async def test_when_all_are_busy_a_read_is_told_to_go_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path, most=2) as here:
        asking = [asyncio.create_task(here.ask(ENDLESS)) for _ in range(2)]
        while len({read["pid"] for read in await here.listed()}) < 2:
            await asyncio.sleep(0.01)
        here.scheduler.turn_s = 2
        answer = await here.ask("ASK {}")
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "free for 2 s: 2 of 2 are busy" in answer.json()["message"]
        assert "quadlog-final" not in answer.headers
        for read in await here.listed():
            await here.client.delete(f"/queries/{read['id']}")
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {503}


async def test_errors_and_answers_side_by_side_share_processes(tmp_path: Path) -> None:
    """A process that answered one read may be another one's at once: nobody ends it for the first."""
    async with served(tmp_path, most=2) as here:
        await here.ask("ASK {}")
        texts = ("ASK {}", "SELECT", "SELECT * { ?s ?p ?o }", "SELECT * { ?s ?p ?o FILTER(1/0) }") * 25
        answers = await asyncio.gather(*map(here.ask, texts))
        assert [answer.status_code for answer in answers] == [200, 400, 200, 200] * 25
        assert next(here.readers._numbers) == 3, "two were started, and none anew"


async def test_a_process_that_is_being_started_is_waited_for(tmp_path: Path) -> None:
    """On a machine that is very busy its start takes long, and another worker's would, too."""
    async with served(tmp_path, most=2) as here:
        here.scheduler.turn_s = 0.01
        answers = await asyncio.gather(here.ask("ASK {}"), here.ask("ASK {}"))
        assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.waits
async def test_without_room_for_a_copy_a_read_is_told_why_at_once(tmp_path: Path) -> None:
    (tmp_path / "copies").touch()
    async with served(tmp_path) as here:
        began = time.monotonic()
        answer = await here.ask("ASK {}")
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "no reading process could be started" in answer.json()["message"]
        assert time.monotonic() - began < 1.9, "not its whole turn"
        (tmp_path / "copies").unlink()
        await asyncio.sleep(2.3)
        assert (await here.ask("ASK {}")).status_code == 200


async def test_a_read_is_told_that_a_process_ended_before_it_was_ready(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        asked = asyncio.create_task(here.ask("ASK {}"))
        while not asked.done():
            for reader in here.readers._unready:
                reader.kill()
            await asyncio.sleep(0.001)
        answer = await asked
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "could be started: it ended at once, see the log" in answer.json()["message"]


@pytest.mark.parametrize("most", [1, 2])
async def test_a_query_is_for_another_worker_where_this_one_stops(tmp_path: Path, most: int) -> None:
    """It is not the query that ended its process: under way or waiting for one, another worker may answer it."""
    async with served(tmp_path, most=most) as here:
        asked = [asyncio.create_task(here.ask(ENDLESS)) for _ in range(2)]
        async with asyncio.timeout(30):
            while len(await here.listed()) < most:
                await asyncio.sleep(0.01)
        here.beside[0].cancel()
        answers = await asyncio.gather(*asked)
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "ask another" in answer.json()["message"]
        assert FINAL not in answer.headers


async def test_a_query_is_for_the_next_process_where_one_fails_before_it_begins(tmp_path: Path) -> None:
    """Its disk is full: it cannot follow the effects."""
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [reader] = here.readers.idle
        await suspend(reader.pid)
        resource.prlimit(reader.pid, resource.RLIMIT_FSIZE, (0, 0))
        here.update("INSERT DATA { <urn:x> <urn:p> 1 }")
        asking = asyncio.create_task(here.ask(OF_X))
        assert (await here.one_listed())["pid"] == reader.pid
        os.kill(reader.pid, signal.SIGCONT)
        rows = (await asking).json()["results"]["bindings"]
        assert [row["o"]["value"] for row in rows] == ["1"]
        await gone(reader.pid)


async def test_a_query_is_for_another_worker_where_its_process_fails_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with an exit status, which is not the fault of the query."""

    async def fate(reader: ReadingProcess) -> int:
        del reader
        return 1

    monkeypatch.setattr(reader_module.ReadingProcess, "fate", fate)
    async with served(tmp_path, most=1) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        os.kill((await here.one_begun())["pid"], signal.SIGKILL)
        answer = await asking
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert "ended with status 1" in answer.json()["message"]
        assert FINAL not in answer.headers


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_query_whose_process_is_killed_is_for_nobody_else(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with served(tmp_path, most=1) as here:
        asking = asyncio.create_task(here.ask(ENDLESS))
        os.kill((await here.one_begun())["pid"], number)
        answer = await asking
        assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
        assert f"signal {number}" in answer.json()["message"]
        assert answer.headers[FINAL] == "true"


async def test_whatever_keeps_a_process_from_starting_takes_up_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pyoxigraph says a `RuntimeError` where a block on disk is wrong; the next copy may come off."""
    monkeypatch.setattr(readers_module, "AGAIN_S", 0.05)
    async with served(tmp_path, most=1) as here:
        store, copy, failing = (
            here.worker.store,
            here.worker.store.copy_to,
            [RuntimeError("a block is wrong")],
        )

        def copy_to(path: Path) -> None:
            if failing:
                path.mkdir()
                raise failing.pop()
            copy(path)

        monkeypatch.setattr(store, "copy_to", copy_to)
        for reader in here.readers.idle:
            reader.kill()
        answer = await here.ask("ASK {}")
        assert (answer.status_code, failing) == (503, [])
        assert "a block is wrong" in answer.json()["message"]
        await asyncio.sleep(0.1)
        assert (await here.ask("ASK {}")).status_code == 200
