"""What it costs that a read can be killed: threads on the worker's store, processes on copies.

    python -m tests.bench.killable [--quads 200000] [--seconds 5]

One worker without Kafka and HTTP, 50 updates a second, and clients that ask small queries back to back.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request

from quadlog.settings.units import MIB
from quadlog.worker.reads.frames import QueryRequest
from quadlog.worker.reads.process_pool import ReadingProcessPool
from quadlog.worker.reads.reads import Caller, ReadLimits, Reads
from quadlog.worker.reads.scheduler import Scheduler
from tests.support.workers.rehearsal import Log, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

Ask: TypeAlias = "Callable[[str], Awaitable[bytes]]"

LIMITS = ReadLimits(seconds=60, memory=1024 * MIB)
CALLER = Caller(client="bench", via=None, agent=None)
UPDATES = 50


@asynccontextmanager
async def by_processes(worker: Worker, copies: Path) -> AsyncIterator[Ask]:
    readers = ReadingProcessPool(worker.store, worker.feed, copies, most=16)
    reads = Reads(Scheduler(readers, worker.feed), "w1")
    beside = [asyncio.create_task(readers.run()), asyncio.create_task(reads.run())]

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    request = Request({"type": "http"}, receive)

    async def ask(text: str) -> bytes:
        answer = await reads.answer(request, QueryRequest(text=text), CALLER, LIMITS)
        return bytes(answer.body)

    try:
        yield ask
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)


@asynccontextmanager
async def by_threads(worker: Worker, copies: Path) -> AsyncIterator[Ask]:
    """A thread a read, as it was before reads could be killed."""
    del copies

    async def ask(text: str) -> bytes:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes] = loop.create_future()

        def run() -> None:
            output = BytesIO()
            worker.store.query(text).write_to(output)
            loop.call_soon_threadsafe(done.set_result, output.getvalue())

        threading.Thread(target=run, daemon=True).start()
        return await done

    yield ask


def cpu() -> float:
    """Seconds of this process and of what it started."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name == str(os.getpid()) or fields[1] == str(os.getpid()):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def measured(ask: Ask, texts: list[str], seconds: float, clients: int) -> str:
    took: list[float] = []
    deadline = time.perf_counter() + seconds

    async def client(number: int) -> None:
        while (began := time.perf_counter()) < deadline:
            assert await ask(texts[(number * 7919 + len(took)) % len(texts)])
            took.append(time.perf_counter() - began)

    before, began = cpu(), time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    elapsed = time.perf_counter() - began
    took.sort()
    p50, p99 = (1000 * took[int(len(took) * share)] for share in (0.5, 0.99))
    return (
        f"{clients} clients: p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  {len(took) / elapsed:6.0f} reads/s"
        f"  {1e6 * (cpu() - before) / max(len(took), 1):6.0f} us of CPU a read, updates included"
    )


def updating(worker: Worker, stop: threading.Event) -> None:
    number = 0
    while not stop.wait(1 / UPDATES):
        number += 1
        data = " ".join(f"<urn:new:{number}> <urn:q{n}> {number} ." for n in range(5))
        worker.log.agree(f"INSERT DATA {{ {data} }}")
        worker.catch_up()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quads", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        worker = Worker(Path(directory), Log(), "w1")
        worker.take_over()
        for start in range(0, options.quads, 20_000):
            data = "\n".join(f"<urn:s{n // 5}> <urn:p{n % 5}> {n} ." for n in range(start, start + 20_000))
            worker.log.agree(f"INSERT DATA {{ {data} }}")
            worker.catch_up()
        texts = [f"SELECT * {{ <urn:s{n}> ?p ?o }}" for n in range(0, options.quads // 5, 97)]
        stop = threading.Event()
        thread = threading.Thread(target=updating, args=(worker, stop))
        thread.start()

        async def run() -> None:
            for name, ways in (("threads", by_threads), ("processes", by_processes)):
                async with ways(worker, Path(directory) / "copies") as ask:
                    began = time.perf_counter()
                    await ask(texts[0])
                    print(f"{name}: first answer after {1000 * (time.perf_counter() - began):.0f} ms")
                    for clients in (1, 4):
                        await measured(ask, texts, 1, clients)
                        print("  ", await measured(ask, texts, options.seconds, clients))

        try:
            for _ in range(2):
                asyncio.run(run())
        finally:
            stop.set()
            thread.join()
        worker.close()


if __name__ == "__main__":
    main()
