"""Long queries hold some processes, leave the others to short ones, and give way."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quadlog.worker.reads import process_pool as readers_module
from quadlog.worker.reads import scheduler as scheduler_module
from quadlog.worker.reads.giving_way import NICE
from quadlog.worker.reads.lanes import LONG_MS
from tests.support.workers.served import (
    ENDLESS,
    Answering,
    Served,
    asking,
    listed,
    only,
    served,
    suspend,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


pytestmark = pytest.mark.anyio


@pytest.fixture
async def one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A worker with one process; what is in its pipe stays there."""
    for name in ("SLOW_MS", "LONG_MS", "HELD_MS"):
        monkeypatch.setattr(scheduler_module, name, inf)
    async with served(tmp_path, most=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        yield here


async def test_behind_a_long_query_a_short_one_is_asked_at_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, most=4, quick=1) as here:
        assert (await here.ask("ASK {}")).status_code == 200
        with monkeypatch.context() as not_yet_long:
            for name in ("SLOW_MS", "LONG_MS", "HELD_MS"):
                not_yet_long.setattr(scheduler_module, name, inf)
            long = asking(here, ENDLESS)
            first = await here.one_listed()
            short = asking(here, "ASK {}")
            behind = (await listed(here, 2))[1]
            assert behind["pid"] == first["pid"]
        assert (await short).status_code == 200
        assert [read["pid"] for read in await here.listed()] == [first["pid"]]
        assert not long.done()
        long.cancel()


async def test_a_long_query_gives_way_to_all_others(tmp_path: Path) -> None:
    async with served(tmp_path, most=4, quick=1) as here:
        long = asking(here, ENDLESS)
        first = await here.one_begun()
        usual = os.getpriority(os.PRIO_PROCESS, 0)
        async with asyncio.timeout(30):
            while min(usual + NICE, 19) not in priorities(first["pid"]):
                await asyncio.sleep(0.01)
        assert usual in priorities(first["pid"]), "whoever answers the next one"
        long.cancel()


def priorities(pid: int) -> set[int]:
    """Of a process's threads; one may end while they are listed."""
    found = set[int]()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            found.add(os.getpriority(os.PRIO_PROCESS, int(thread.name)))
    return found


def other(number: int) -> str:
    """Endless, in other words each time."""
    return f"{ENDLESS} # {number}"


async def test_long_queries_hold_so_many_processes_and_leave_the_others_to_short_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "LONG_MS", 100)  # it hardly runs where other tests hold the cores
    async with served(tmp_path, most=4, query_timeout=600) as here:
        here.scheduler.turn_s = 100
        assert here.readers.most_long == 3
        long = [asking(here, other(number)) for number in range(3)]
        async with asyncio.timeout(100):
            while here.readers.longs < 3:
                await asyncio.sleep(0.05)
        more = asking(here, other(3))
        async with asyncio.timeout(100):
            while not here.readers.lanes.is_known(other(3)):
                assert (await here.ask("ASK {}")).status_code == 200
        here.scheduler.turn_s = 5
        while not more.done():
            answer = await here.ask("ASK {}")
            assert answer.status_code == 200, answer.text
        answer = await more
        assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
        assert int(answer.headers["retry-after"]) > 0
        assert "3 of 3 with long queries" in answer.json()["message"]
        started = next(here.readers._numbers)
        here.scheduler.turn_s = 0.5
        assert (await here.ask(other(3))).status_code == 503, "it is known as a long one"
        assert next(here.readers._numbers) == started + 1, "no process ended for it"
        assert not any(task.done() for task in long)
        here.scheduler.turn_s = 30
        waits = asking(here, other(3))
        long[0].cancel()
        await asyncio.wait({waits}, timeout=1)
        async with asyncio.timeout(30):
            while len(await here.listed()) < 3:
                await asyncio.sleep(0.05)
        assert here.readers.longs == 3, "it has the place that got free"
        for task in (*long, waits):
            task.cancel()


async def test_a_long_query_begins_before_short_ones_that_wait(one: Served) -> None:
    """They would keep all processes busy: it gets the first one that has nothing in its pipe."""
    text = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    one.readers.lanes.learn(text, is_long=True)
    await suspend(only(one).pid)
    order: list[Answering] = []
    first = [asking(one, "ASK {}") for _ in range(2)]
    await listed(one, 2)
    long, waiting = asking(one, text), [asking(one, "ASK {}") for _ in range(3)]
    while len(one.readers.lanes) < 4:
        await asyncio.sleep(0.01)
    for task in (*first, long, *waiting):
        task.add_done_callback(order.append)
    os.kill(only(one).pid, signal.SIGCONT)
    await asyncio.gather(*first, long, *waiting)
    assert order.index(long) == 2


async def test_a_long_query_that_was_short_this_time_is_a_short_one(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took little CPU: on a busy machine that may take long on a clock."""
    monkeypatch.setattr(readers_module, "HELD_MS", inf)
    one.readers.lanes.learn("ASK {}", is_long=True)
    await suspend(only(one).pid)
    again = asking(one, "ASK {}")
    await one.one_listed()
    await asyncio.sleep(1.2 * LONG_MS / 1000)
    os.kill(only(one).pid, signal.SIGCONT)
    assert (await again).status_code == 200
    assert not one.readers.lanes.is_known("ASK {}")


@pytest.mark.parametrize("name", ["LONG_MS", "HELD_MS"])
async def test_a_long_query_that_was_long_again_stays_a_long_one(
    one: Served, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It took much CPU, or waited for long."""
    for unlimited in ("LONG_MS", "HELD_MS"):
        monkeypatch.setattr(readers_module, unlimited, inf)
    monkeypatch.setattr(readers_module, name, 0.001)
    one.readers.lanes.learn("ASK {}", is_long=True)
    assert (await one.ask("ASK {}")).status_code == 200
    assert one.readers.lanes.is_known("ASK {}")


async def test_a_long_query_without_a_place_does_not_wait_for_a_process_that_starts(one: Served) -> None:
    one.readers.lanes.learn("ASK {}", is_long=True)
    one.readers.most_long, one.readers.starting, one.scheduler.turn_s = 0, 1, 0.1
    answer = await asyncio.wait_for(one.ask("ASK {}"), scheduler_module.START_S / 2)
    one.readers.starting = 0
    assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
    assert "was free for 0.1 s" in answer.json()["message"]


async def test_what_waits_for_a_core_takes_no_place_from_others_and_keeps_its_process(
    one: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a short query may be under way for seconds."""
    monkeypatch.setattr(scheduler_module, "HELD_MS", 50.0)
    pid, one.readers.most_long = only(one).pid, 0
    held = asking(one, ENDLESS)
    await one.one_begun()
    await asyncio.sleep(0.5)
    assert (only(one).pid, only(one).is_long) == (pid, False)
    one.readers.most_long = 1
    async with asyncio.timeout(30):
        while not only(one).is_long:
            await asyncio.sleep(0.01)
    assert only(one).pid == pid
    assert not one.readers.lanes.is_known(ENDLESS)
    held.cancel()
