"""A worker without Kafka behind its door, with processes that read."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager, suppress
from fcntl import ioctl
from http import HTTPStatus
from math import inf
from pathlib import Path
from termios import FIONREAD
from typing import TYPE_CHECKING, Any

import httpx

from quadlog.worker.app import make_app
from quadlog.worker.catchup.donor import Donor
from quadlog.worker.evaluate.dry_runs import DryRuns
from quadlog.worker.reads.process_pool import ReadingProcessPool
from quadlog.worker.reads.reads import Reads
from quadlog.worker.reads.scheduler import Scheduler
from quadlog.worker.repair.fork_backups import ForkBackups
from quadlog.worker.repair.mender import Mender
from quadlog.worker.seeds.seed_door import SeedDoor
from quadlog.worker.seeds.seedbed import Seedbed
from tests.support.workers.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from quadlog.worker.reads.reading_process import ReadingProcess


ENDLESS = "SELECT (COUNT(*) AS ?n) {" + "".join(f" ?a{n} ?b{n} ?c{n} ." for n in range(9)) + " }"
"""200 to the power of 9."""


OF_X = "SELECT * { <urn:x> ?p ?o }"


class Served:
    """A worker without Kafka, and its door."""

    def __init__(
        self, worker: Worker, readers: ReadingProcessPool, scheduler: Scheduler, app: ASGIApp
    ) -> None:
        self.worker, self.readers, self.scheduler, self.app = worker, readers, scheduler, app
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://w1", timeout=60
        )

        self.beside: list[asyncio.Task[None]] = []

    async def ask(self, text: str, **parameters: str) -> httpx.Response:
        return await self.client.get("/sparql", params={"query": text, **parameters})

    async def ready(self) -> None:
        """A process is there: the time that the next query has is for its answer."""
        async with asyncio.timeout(120):
            while (await self.ask("ASK {}")).status_code != HTTPStatus.OK:
                pass

    async def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.client.get("/queries")).json()["queries"]
        return found

    async def one_listed(self) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while not (found := await self.listed()):
                await asyncio.sleep(0.01)
        return found[0]

    async def one_begun(self) -> dict[str, Any]:
        """As soon as its process has taken the ticket of what it was asked."""
        read = await self.one_listed()
        [reader] = [reader for reader in self.readers.busy if reader.pid == read["pid"]]
        async with asyncio.timeout(30):
            while any(ioctl(reader.tickets.inlet, FIONREAD, bytes(4))):
                await asyncio.sleep(0.01)
        return read

    def update(self, text: str) -> None:
        self.worker.log.agree(text)
        self.worker.catch_up()


Answering = asyncio.Task[httpx.Response]


def asking(here: Served, text: str, **parameters: str) -> Answering:
    return asyncio.create_task(here.ask(text, **parameters))


async def listed(here: Served, number: int) -> list[dict[str, Any]]:
    """As soon as so many reads are with processes."""
    async with asyncio.timeout(30):
        while len(found := await here.listed()) < number:
            await asyncio.sleep(0.01)
    return found


def only(here: Served) -> ReadingProcess:
    """Its process."""
    [reader] = (*here.readers.idle, *here.readers.busy)
    return reader


@asynccontextmanager
async def served(
    path: Path,
    *,
    quads: int = 200,
    most: int = 4,
    quick: int = 4,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[Served]:
    worker = Worker(path, Log(), "w1")
    worker.take_over()
    data = " ".join(f"<urn:s{n}> <urn:p> 'value {n}' ." for n in range(quads))
    worker.log.agree(f"INSERT DATA {{ {data} }}")
    worker.catch_up()
    readers = ReadingProcessPool(worker.store, worker.feed, path / "copies", most=most, quick=quick)
    # Where the processes of other tests hold the cores, a start may take longer than a client would wait.
    scheduler = Scheduler(readers, worker.feed, turn_s=30, start_s=100)
    reads = Reads(scheduler, "w1")
    limits = worker.settings.model_copy(update=settings)
    beside = [asyncio.create_task(readers.run()), asyncio.create_task(reads.run())]
    try:
        mender = Mender(
            limits,
            TOPICS,
            worker.replica.health,
            store=worker.store.name,
            leave=lambda: None,
            is_copied=lambda: False,
        )
        here = Served(
            worker,
            readers,
            scheduler,
            make_app(
                worker.replica,
                reads,
                mender,
                DryRuns(worker.store, limits),
                limits,
                seeds=SeedDoor(Seedbed(path, worker.store, worker.replica.health, lambda: None)),
                donor=Donor(worker.store, path / "copies-out", bandwidth=inf),
                forks=ForkBackups(path, worker.store, lambda: None),
            ),
        )
        here.beside = beside
        async with here.client:
            yield here
    finally:
        for task in beside:
            if not task.cancelling():  # they end once: a second time would break that off
                task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        worker.close()
        assert not [path for path in (path / "copies").glob("*") if path.is_dir()]


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def gone(pid: int) -> None:
    """Its CPU and its memory are free."""
    async with asyncio.timeout(10):
        while lives(pid):
            await asyncio.sleep(0.01)


async def suspend(pid: int) -> None:
    """All its threads stand still: when the signal is sent, only one of them does soon."""
    os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(60):
        while _states(pid) != {"T"}:
            await asyncio.sleep(0.01)


def _states(pid: int) -> set[str]:
    """Of a process's threads; none where one ends meanwhile."""
    with suppress(OSError):
        stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
        return {stat.rpartition(")")[2].split()[0] for stat in stats}
    return set()
