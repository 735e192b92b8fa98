"""`quadlog demo`: starts a cluster, loads data, kills and restarts a worker, and verifies all workers."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import httpx
from rich.console import Console

from quadlog.demo import report
from quadlog.demo.cluster import running_cluster
from quadlog.demo.cut import Story
from quadlog.demo.load import load
from quadlog.demo.ontology import find_brick, read_turtle
from quadlog.demo.progress import Bars
from quadlog.demo.split import updates_of
from quadlog.demo.survey import survey
from quadlog.demo.watch import evaluating_worker, settle, watch_workers
from quadlog.errors import StateError
from quadlog.lab.stop import Stopped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from quadlog.demo.cluster import DemoCluster
    from quadlog.demo.split import DemoUpdate
    from quadlog.lab.stop import StopSignal

KILL_AT, START_AT = 0.35, 0.7
"""Shares of the updates at which a worker is killed and started again."""
PLAIN_WIDTH = 120
"""Columns of the output if it is not a terminal."""
LAB_POLL = 0.5
ANSWER_TIMEOUT = 40.0
"""Seconds until a request fails; a master answers an update within 30 s (its `request-timeout`)."""


class Demo:
    """One run of the demo."""

    def __init__(self, stop: StopSignal) -> None:
        """`stop` ends the run at any time."""
        self._stop = stop
        self._console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
        self._began = self._lap = time.monotonic()
        self._times: dict[str, float] = {}

    def run(self, directory: Path | None) -> int:
        """Run the demo; return the exit code.

        Raises:
            QuadlogError: the run failed; no process is left running.
            Stopped: a stop was requested before the end; no process is left running.

        """
        turtle = find_brick().read_bytes()
        updates = updates_of(read_turtle(turtle))
        triples = sum(update.triples for update in updates)
        self._say(f"Brick: {triples:,} triples, {len(updates)} updates. Starting three data centres.")
        with running_cluster(directory, self._say) as cluster:
            self._lap_of("start")
            self._say("Everything serves. Loading through all three masters at once.")
            try:
                return asyncio.run(self._with(cluster, turtle, updates))
            finally:
                self._stop.request()  # a signal must not interrupt the clean-up

    async def _with(self, cluster: DemoCluster, turtle: bytes, updates: Sequence[DemoUpdate]) -> int:
        """Run `_work`, unless a stop is requested or the lab ends; on a terminal, keep the cluster up afterwards."""
        self._stop.hand_over_to_loop()
        work = asyncio.create_task(self._work(cluster, turtle, updates))
        asked = asyncio.create_task(self._stop.wait())
        lab = asyncio.create_task(_lab_ended(cluster))
        try:
            await asyncio.wait({work, asked, lab}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                code = work.result()
                if not sys.stdout.isatty():
                    return code
                self._show_addresses(cluster)
                await asyncio.wait({asked, lab}, return_when=asyncio.FIRST_COMPLETED)
                if asked.done():
                    return code
            if asked.done():
                raise Stopped
            raise StateError(f"the lab ended by itself, code {lab.result()}")
        finally:
            for task in (work, asked, lab):
                task.cancel()
            await asyncio.gather(work, asked, lab, return_exceptions=True)

    async def _work(self, cluster: DemoCluster, turtle: bytes, updates: Sequence[DemoUpdate]) -> int:
        """Load the updates, verify all workers and print the report; return the exit code."""
        async with httpx.AsyncClient(trust_env=False, timeout=ANSWER_TIMEOUT) as http:
            await self._load(http, cluster, updates)
            with self._console.status("asking every worker, comparing every dump with the file"):
                try:
                    findings = await survey(http, cluster, turtle, updates)
                except httpx.HTTPError as error:
                    raise StateError(f"the cluster was at rest, and a request failed: {error!r}") from error
            self._lap_of("verify")
        found = report.wrong(findings)
        self._show(findings, found, len(updates))
        return 1 if found else 0

    async def _load(
        self, http: httpx.AsyncClient, cluster: DemoCluster, updates: Sequence[DemoUpdate]
    ) -> None:
        with Bars(self._console, updates, cluster.workers) as bars:
            watching = asyncio.create_task(watch_workers(http, cluster, bars.applied))
            breaking = asyncio.create_task(self._kill_and_start(http, cluster, bars))
            try:
                failed = await load(http, cluster.masters, updates, bars.acknowledged)
                self._lap_of("load")
                self._say(f"All updates are acknowledged, {failed} had to be sent again.")
                await breaking
                await settle(http, cluster, bars.applied)
                self._lap_of("catch-up")
                await Story(http, cluster, self._say).tell()
                await settle(http, cluster, bars.applied)
            finally:
                watching.cancel()
                breaking.cancel()
                await asyncio.gather(watching, breaking, return_exceptions=True)
        self._lap_of("split")

    async def _kill_and_start(self, http: httpx.AsyncClient, cluster: DemoCluster, bars: Bars) -> None:
        """Kill the evaluating worker, on which all others depend, and restart it later."""
        await bars.reached(KILL_AT)
        victim = await evaluating_worker(http, cluster)
        self._say(f"{victim.id} evaluates for all: {await asyncio.to_thread(cluster.kill, victim)}")
        await bars.reached(START_AT)
        self._say(await asyncio.to_thread(cluster.start, victim))

    def _show(self, findings: report.Findings, found: Sequence[str], updates: int) -> None:
        self._console.print(report.question_table(findings), report.worker_table(findings))
        for line in found:
            self._say(f"wrong: {line}")
        verdict = (
            f"[bold green]{report.VERDICT}" if not found else "[bold red]not what it should be, see above"
        )
        self._console.print(f"Verdict: {verdict}")
        stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self._times.items())
        rate = updates / self._times["load"]
        total = time.monotonic() - self._began
        self._console.print(f"{stages}; total {total:.1f} s; {rate:.1f} updates/s while loading")

    def _show_addresses(self, cluster: DemoCluster) -> None:
        for dc in cluster.dcs:
            self._say(f"{dc.name}  master {dc.master.url}/sparql, /update, /cluster/status; Kafka {dc.kafka}")
            for worker in dc.workers:
                self._say(f"     {worker.id} {worker.url}/sparql, /status, /statements")
        self._say(f"Break it: quadlog lab kill|start|status --dir {cluster.directory}")
        self._say("It stays up until Ctrl-C.")

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)

    def _lap_of(self, stage: str) -> None:
        now = time.monotonic()
        self._times[stage], self._lap = now - self._lap, now


def run_demo(directory: Path | None, stop: StopSignal) -> int:
    """Run the demo; return the exit code."""
    return Demo(stop).run(directory)


async def _lab_ended(cluster: DemoCluster) -> int:
    while (code := cluster.lab.poll()) is None:  # noqa: ASYNC110 - Popen provides no event
        await asyncio.sleep(LAB_POLL)
    return code
