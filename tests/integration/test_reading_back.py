"""Reads while their worker goes back to another history."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.worker.reads import process_pool as readers_module
from quadlog.worker.reads.feed import Feed
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.workers.rehearsal import TERM, Log, Worker
from tests.support.workers.served import OF_X, gone, served
from tests.support.workers.sides import copy_of, say, write_cut, write_rewind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


def gives_way(worker: Worker, path: Path, before: Log) -> None:
    """Its side does, to one that had the same as `before`, and made five more entries of that."""
    theirs = copy_of(before)
    other = Worker(path, theirs, "theirs")
    other.catch_up()
    other.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    other.catch_up()
    say(theirs, other, [f"INSERT DATA {{ <urn:x> <urn:theirs> {number} }}" for number in range(5)])
    other.close()
    write_cut(worker.log, theirs)
    write_rewind(worker.log, theirs, 1)


async def test_while_the_worker_goes_back_nobody_has_what_it_has() -> None:
    feed = Feed(5)
    assert feed.behind(5, 0) == []
    feed.begin_back()
    assert not feed.is_of(0)
    assert feed.behind(5, 0) is None
    feed.end_back(3)
    assert feed.behind(5, 0) is None
    assert feed.behind(3, 1) == []


async def test_what_is_undone_is_in_no_answer_and_reads_wait_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers_module, "TELL_S", 3600)
    async with served(tmp_path, most=2) as here:
        worker, before = here.worker, copy_of(here.worker.log)
        for number in range(3):
            here.update(f"INSERT DATA {{ <urn:x> <urn:ours> {number} }}")
        assert len((await here.ask(OF_X)).json()["results"]["bindings"]) == 3
        processes = [reader.pid for reader in here.readers.idle]
        gives_way(worker, tmp_path, before)
        commit, may_commit = worker.store.apply, threading.Event()

        def slow(*args: Any, **named: Any) -> None:  # noqa: ANN401
            assert may_commit.wait(60)
            commit(*args, **named)

        monkeypatch.setattr(worker.store, "apply", slow)
        goes_back = asyncio.create_task(asyncio.to_thread(worker.catch_up))
        while not worker.feed.is_going_back:
            await asyncio.sleep(0.01)
        read = asyncio.create_task(here.ask(OF_X))
        await asyncio.sleep(0.5)
        assert not read.done()
        may_commit.set()
        answer = await read
        rows = answer.json()["results"]["bindings"]
        assert {row["p"]["value"] for row in rows} <= {"urn:theirs"}
        assert int(answer.headers["Quadlog-Index"].partition(":")[0]) == 1 + len(rows)
        await goes_back
        assert len((await here.ask(OF_X)).json()["results"]["bindings"]) == 5
        assert processes
        for pid in processes:
            await gone(pid)


async def test_a_copy_of_what_was_undone_since_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made just before, and its process starts just behind."""
    async with served(tmp_path, most=1) as here:
        worker, before = here.worker, copy_of(here.worker.log)
        for number in range(8):
            here.update(f"INSERT DATA {{ <urn:x> <urn:ours> {number} }}")
        gives_way(worker, tmp_path, before)
        copy, is_copied, may_start = worker.store.copy_to, asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def slow(path: Path) -> None:
            copy(path)
            loop.call_soon_threadsafe(is_copied.set)
            assert may_start.wait(60)

        monkeypatch.setattr(worker.store, "copy_to", slow)
        for reader in here.readers.idle:
            reader.kill()
        read = asyncio.create_task(here.ask(OF_X))
        await is_copied.wait()
        worker.catch_up()
        may_start.set()
        rows = (await read).json()["results"]["bindings"]
        assert [row["p"]["value"] for row in rows] == ["urn:theirs"] * 5
