"""Processes that hang, and clients that do not take their answers: neither harms any other query."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.worker.reads import process_pool as readers_module
from quadlog.worker.reads import reading_process as reader_module
from quadlog.worker.reads import scheduler as scheduler_module
from quadlog.worker.reads.frames import FrameKind, framed, headers_frame
from quadlog.worker.reads.reader_process import GATHERED
from tests.support.workers.served import OF_X, Served, gone, lives, served, suspend
from tests.support.workers.slow_client import SlowClient

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.worker.reads.reading_process import ReadingProcess

pytestmark = pytest.mark.anyio


async def next_of(here: Served) -> ReadingProcess:
    """The process that is asked next."""
    async with asyncio.timeout(60):
        while here.readers.starting:
            await asyncio.sleep(0.01)
    return here.readers.idle[-1]


async def test_what_a_process_does_not_begin_is_asked_at_another_one(tmp_path: Path) -> None:
    """It hangs before that, for ever: then it is none of those that are asked."""
    async with served(tmp_path, most=4, quick=2) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        hung = await next_of(here)
        await suspend(hung.pid)
        for _ in range(3):
            assert (await here.ask("ASK {}", timeout="20")).status_code == 200
        await gone(hung.pid)


async def test_who_gives_up_at_a_process_that_hangs_leaves_it_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "HELD_MS", inf)
    async with served(tmp_path, most=4, quick=2) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        hung = await next_of(here)
        await suspend(hung.pid)
        assert (await here.ask("ASK {}", timeout="1")).json()["error"] == "QueryStopped"
        await gone(hung.pid)
        assert (await here.ask("ASK {}", timeout="20")).status_code == 200


MUCH = 20_000


@pytest.mark.parametrize("solutions", [300, 1200, MUCH])
async def test_a_short_query_does_not_wait_for_the_client_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solutions: int
) -> None:
    """Wherever in its process's pipe it stands when that one has to wait."""
    monkeypatch.setattr(scheduler_module, "SLOW_MS", inf)
    async with served(tmp_path, most=4, quick=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        for _ in range(5):
            client = SlowClient(here, f"SELECT * {{ ?a ?b ?c . ?d ?e ?f }} LIMIT {solutions}")
            await asyncio.sleep(0)
            async with asyncio.timeout(20):
                assert (await here.ask("ASK {}")).status_code == 200
            async with asyncio.timeout(
                60
            ):  # what is more than the socket holds waits in its process, and not here
                while solutions == MUCH and not any(reader._is_paused for reader in here.readers.busy):
                    await asyncio.sleep(0.01)
            client.goes_on.set()
            await client.task
            assert client.taken > 100 * solutions


async def test_who_gives_up_behind_an_answer_that_is_on_its_way_does_not_break_it_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "SLOW_MS", inf)
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [reader] = here.readers.idle
        await suspend(reader.pid)
        first = asyncio.create_task(here.ask(OF_X))
        second = asyncio.create_task(here.ask("ASK {}"))
        while len(reader.calls) < 2:
            await asyncio.sleep(0.01)
        assert reader.tickets.withdraw() == {2, 3}, "as if the process had begun both"
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert lives(reader.pid)
        answer = framed(FrameKind.PIECE, b"x" * GATHERED) + framed(FrameKind.END, b"")
        reader._channel.data_received(headers_frame({"Content-Type": "text/plain"}) + answer)
        assert (await first).content == b"x" * GATHERED
        await gone(reader.pid)
        assert (await here.ask("ASK {}")).status_code == 200


class Hanging:
    """Starts processes as `subprocess` does; suspends what it started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begins, self.is_on = subprocess.Popen, True
        self.pids: list[int] = []
        monkeypatch.setattr("quadlog.worker.reads.reading_process.subprocess.Popen", self)

    def __call__(self, *what: Any, **how: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        process = self.begins(*what, **how)
        if self.is_on:
            os.kill(process.pid, signal.SIGSTOP)
            self.pids.append(process.pid)
        return process


async def test_a_start_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "READY_S", 0.5)
    monkeypatch.setattr(readers_module, "AGAIN_S", 0.1)
    hanging = Hanging(monkeypatch)
    async with served(tmp_path, most=2) as here:
        assert "was not ready after 0.5 s" in (await here.ask("ASK {}")).json()["message"]
        await gone(hanging.pids[0])
        hanging.is_on = False
        monkeypatch.setattr(reader_module, "READY_S", 60.0)
        async with asyncio.timeout(60):
            while (await here.ask("ASK {}")).status_code != 200:
                await asyncio.sleep(0.1)


async def test_a_start_that_hangs_does_not_hold_the_stop_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging(monkeypatch)
    async with served(tmp_path, most=2) as here:
        asking = asyncio.create_task(here.ask("ASK {}"))
        while not hanging.pids:
            await asyncio.sleep(0.01)
        here.beside[0].cancel()
        async with asyncio.timeout(20):
            assert "this worker stops" in (await asking).json()["message"]
            await asyncio.gather(here.beside[0], return_exceptions=True)
        await gone(hanging.pids[0])


async def test_a_signal_to_all_of_a_group_ends_no_query(tmp_path: Path) -> None:
    """A service manager's stop goes to reading processes, too; their worker answers what is under way."""
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        [reader] = here.readers.idle
        for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(reader.pid, one)
        assert (await here.ask("ASK {}")).status_code == 200
        assert here.readers.idle == [reader]
