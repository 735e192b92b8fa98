"""`quadlog demo`: start, load, break, mend, ask, prove, show."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import httpx
from rich.console import Console

from quadlog.demo import report
from quadlog.demo.cluster import Cluster, running_cluster
from quadlog.demo.inspect import inspect
from quadlog.demo.load import load
from quadlog.demo.ontology import find_brick, read_turtle
from quadlog.demo.progress import Bars
from quadlog.demo.split import Update, updates_of
from quadlog.demo.watch import settled, watch_workers
from quadlog.errors import StateError
from quadlog.lab.stop import Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from quadlog.lab.stop import StopSignal

KILL_AT, START_AT = 0.35, 0.7
"""Shares of the updates at which a worker is killed and started again."""
PLAIN_WIDTH = 120
"""Columns where the output is no terminal that could say."""
LAB_POLL = 0.5


class Demo:
    """One run."""

    def __init__(self, stop: StopSignal) -> None:
        """`stop` ends it at any time."""
        self._stop = stop
        self._console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
        self._began = self._lap = time.monotonic()
        self._times: dict[str, float] = {}

    def run(self, directory: Path | None) -> int:
        """Run it; return the exit code.

        Raises:
            QuadlogError: it could not be brought to its end; nothing is left running.
            Stopped: it was asked to stop before the cluster served.

        """
        turtle = find_brick().read_bytes()
        triples = read_turtle(turtle)
        updates = updates_of(triples)
        self._console.print(f"Brick: {len(triples):,} triples in {len(updates)} updates")
        with self._console.status("starting three data centres") as status:
            with running_cluster(directory, lambda line: status.update(f"starting: {line.strip()}")) as cluster:
                status.stop()
                self._lap_of("start")
                return asyncio.run(self._with(cluster, turtle, updates))

    async def _with(self, cluster: Cluster, turtle: bytes, updates: Sequence[Update]) -> int:
        """Do the work until it is done, or asked to stop, or the lab ends."""
        self._stop.hand_over_to_loop()
        work = asyncio.create_task(self._work(cluster, turtle, updates))
        others = [asyncio.create_task(self._stop.wait()), asyncio.create_task(_lab_ended(cluster))]
        try:
            await asyncio.wait([work, *others], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            if others[1].done():
                message = f"the lab ended by itself, code {cluster.lab.poll()}"
                raise StateError(message)
            raise Stopped
        finally:
            for task in (work, *others):
                task.cancel()
            await asyncio.gather(work, *others, return_exceptions=True)

    async def _work(self, cluster: Cluster, turtle: bytes, updates: Sequence[Update]) -> int:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(trust_env=False, limits=limits) as http:
            await self._load(http, cluster, updates)
            with self._console.status("asking and comparing"):
                findings = await inspect(http, cluster, turtle, updates)
            self._lap_of("verify")
        found = report.wrong(findings)
        self._show(findings, found, len(updates))
        if sys.stdout.isatty():
            self._show_addresses(cluster)
            await self._stop.wait()
        return 1 if found else 0

    async def _load(self, http: httpx.AsyncClient, cluster: Cluster, updates: Sequence[Update]) -> None:
        with Bars(self._console, updates, cluster.workers) as bars:
            watching = asyncio.create_task(watch_workers(http, cluster, bars.applied))
            breaking = asyncio.create_task(_kill_and_start(cluster, bars))
            try:
                failed = await load(http, cluster.masters, updates, bars.acknowledged)
                self._lap_of("load")
                bars.say(f"all updates acknowledged; {failed} had to be sent again")
                await breaking
                await settled(http, cluster)
                await asyncio.sleep(0)
            finally:
                watching.cancel()
                breaking.cancel()
                await asyncio.gather(watching, breaking, return_exceptions=True)
        self._lap_of("catch-up")

    def _show(self, findings: report.Findings, found: Sequence[str], updates: int) -> None:
        self._console.print(report.question_table(findings), report.worker_table(findings))
        for line in found:
            self._console.print(f"[bold red]wrong:[/] {line}", soft_wrap=True)
        verdict = f"[bold green]{report.VERDICT}" if not found else f"[bold red]{len(found)} things differ"
        self._console.print(f"Verdict: {verdict}")
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._times.items())
        rate = updates / self._times["load"]
        total = time.monotonic() - self._began
        self._console.print(f"{stages}; total {total:.1f} s; {rate:.1f} updates/s while loading")

    def _show_addresses(self, cluster: Cluster) -> None:
        for dc in cluster.dcs:
            self._console.print(f"{dc.name}: Kafka {dc.kafka}, master {dc.master.url} (/sparql, /update, /cluster/status)")
            for worker in dc.workers:
                self._console.print(f"     {worker.id} {worker.url} (/sparql, /status, /statements)")
        self._console.print(f"quadlog lab status|kill|start --dir {cluster.directory} plays with its processes.")
        self._console.print("It stays up until Ctrl-C.")

    def _lap_of(self, stage: str) -> None:
        now = time.monotonic()
        self._times[stage], self._lap = now - self._lap, now


def run_demo(directory: Path | None, stop: StopSignal) -> int:
    """Run the demo; return the exit code."""
    return Demo(stop).run(directory)


async def _kill_and_start(cluster: Cluster, bars: Bars) -> None:
    victim = cluster.workers[0]
    await bars.reached(KILL_AT)
    bars.say(await asyncio.to_thread(cluster.kill, victim))
    await bars.reached(START_AT)
    bars.say(await asyncio.to_thread(cluster.start, victim))


async def _lab_ended(cluster: Cluster) -> None:
    while cluster.lab.poll() is None:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(LAB_POLL)
