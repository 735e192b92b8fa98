"""Supervisor of a lab: starts its processes, watches them, executes commands, and stops everything."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from typing import TYPE_CHECKING, Any

from quadlog.errors import QuadlogError, SetupError, Unavailable, UserError
from quadlog.lab import processes
from quadlog.lab.child import POLL
from quadlog.lab.directory import write_atomically
from quadlog.lab.links.client import SHOW, ask_links
from quadlog.lab.node_files import kafka_of, variables
from quadlog.lab.shape import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from quadlog.lab.child import Child
    from quadlog.lab.directory import LabDirectory
    from quadlog.lab.events import Events

START_TIMEOUT = 120.0
"""Seconds for the whole lab; a laptop with other work needs about 20 s."""
ONE_START_TIMEOUT = 180.0
"""Seconds for one process; a worker that catches up with Spark needs a minute on a busy host."""
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL, for masters and workers, then for brokers, then for the links, so that all have
ended within 10 s."""
KILL_WAIT = 2.0
WATCH_INTERVAL = 0.1
SIGNALS = {name: signal.Signals[f"SIG{name}"] for name in ("STOP", "CONT", "TERM", "KILL")}


class Supervisor:
    """The processes of one lab.  All methods must run in the main thread, because they fork."""

    def __init__(
        self, directory: LabDirectory, children: dict[str, Child], events: Events, ready: Path | None
    ) -> None:
        self._directory = directory
        self._children = children
        self._events = events
        self._ready = ready
        self._everything_served = asyncio.Event()
        self._reported: dict[str, int | None] = {}

    async def start_all(self) -> None:
        """Start the links, then the brokers, then masters and workers; write the READY file.

        Raises:
            SetupError: a process died, or not all were ready in time; some may be running.

        """
        try:
            async with asyncio.timeout(START_TIMEOUT):
                await self._start_each("links")
                await self._start_each("broker")
                await self._start_each("master", "worker")
        except TimeoutError as error:
            missing = [c for c in self._children.values() if c.starting.locked() or not c.is_alive]
            logs = ", ".join(f"{child.node.id} ({child.state}, {child.log})" for child in missing)
            message = f"not everything was ready after {START_TIMEOUT:.0f} s, see the logs of {logs}"
            raise SetupError(message) from error
        self._everything_served.set()
        self._write_ready()

    async def _start_each(self, *kinds: str) -> None:
        """Start all processes of these kinds concurrently; the first failure cancels the others."""
        try:
            async with asyncio.TaskGroup() as group:
                for child in self._children.values():
                    if child.node.kind in kinds:
                        group.create_task(self._start_one(child))
        except* QuadlogError as several:
            raise several.exceptions[0] from None
        for child in self._children.values():
            if child.popen is not None and not child.is_alive:  # it died after it had been ready
                raise child.died("during start")

    async def _start_one(self, child: Child, environment: Mapping[str, str] | None = None) -> float:
        seconds = await child.start(environment)
        self._events.write(_serves(child, seconds))
        return seconds

    async def watch(self) -> None:
        """Report every process that ends, without end; it is not restarted."""
        while True:
            for child in self._children.values():
                if child.is_alive or child.popen is None or child.starting.locked():
                    continue
                if self._reported.get(child.node.id) != child.pid:
                    self._reported[child.node.id] = child.pid
                    by_itself = "" if child.expected else f" by itself, see {child.log}"
                    self._events.write(f"{child.node.id} (pid {child.pid}) {child.state}{by_itself}")
            await asyncio.sleep(WATCH_INTERVAL)

    async def stop_all(self) -> None:
        """Stop masters and workers, then brokers, links, and all other processes with the lab's id."""
        began = time.monotonic()
        everyone = list(self._children.values())
        for kinds in (("master", "worker"), ("broker",), ("links",)):
            await _stop([child for child in everyone if child.node.kind in kinds])
        processes.kill_all(self._directory.record.lab_id)
        self._events.write(f"everything stopped in {time.monotonic() - began:.1f} s")

    # Commands of `quadlog lab kill`, `start` and `status`.

    async def command(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute one command.

        Raises:
            QuadlogError: the command cannot be executed; the message says why.

        """
        match request:
            case {"do": "kill", "id": str(node_id), "signal": str(name)}:
                return {"message": await self._kill(self._child(node_id), name)}
            case {"do": "start", "id": str(node_id)}:
                environment = variables(request.get("environment", ()))
                return {"message": await self._start_again(self._child(node_id), environment)}
            case {"do": "status"}:
                links = await self._links(SHOW) if self._links_run() else []
                return {"lab_id": self._directory.record.lab_id, "nodes": self._status(), "links": links}
            case {"do": "describe"}:
                await self._everything_served.wait()
                return {"lab": self._describe()}
            case {"do": "links", "request": wanted}:
                return {"links": await self._links(wanted)}
            case _:
                raise UserError(f"the lab does not understand {json.dumps(request)[:200]}")

    def _links_run(self) -> bool:
        return LINKS in self._children and self._children[LINKS].state == "running"

    async def _links(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        """Send a request to the links; return their new state."""
        if LINKS not in self._children:
            why = "they share one broker" if self._directory.record.shape.shared_broker else "there is one"
            raise UserError(f"the lab has no links between its data centres: {why}")
        child = self._children[LINKS]
        if not self._links_run():
            raise Unavailable(f"the links are {child.state}: quadlog lab start {LINKS}")
        found = await ask_links(child.ports[0], wanted)
        if wanted != SHOW:
            self._events.write(f"links: {json.dumps(wanted)}")
        return found

    def _child(self, node_id: str) -> Child:
        if node_id not in self._children:
            raise UserError(f"the lab has no {node_id}; it has {', '.join(self._children)}")
        return self._children[node_id]

    async def _kill(self, child: Child, name: str) -> str:
        if name not in SIGNALS:
            raise UserError(f"a lab process can be sent {', '.join(SIGNALS)}, not {name}")
        if not child.is_alive:
            raise UserError(f"{child.node.id} is not running: {child.state}")
        pid = child.pid
        child.signal(SIGNALS[name])
        self._events.write(f"{child.node.id} (pid {pid}) was sent {name}")
        if name in {"TERM", "KILL"} and not await child.gone(10.0):
            return f"{child.node.id} was sent {name} and is still {child.state} after 10 s"
        if name in {"STOP", "CONT"}:
            await asyncio.sleep(POLL)  # the kernel changes the state shortly after the signal
        return f"{child.node.id} was sent {name}: {child.state}"

    async def _start_again(self, child: Child, environment: Mapping[str, str]) -> str:
        if not self._everything_served.is_set():
            raise UserError(f"the lab is still starting, {child.node.id} with it: wait")
        if child.starting.locked() or child.is_alive:
            hint = "; quadlog lab kill --signal CONT lets it go on" if child.state == "stopped" else ""
            raise UserError(f"{child.node.id} is there already, pid {child.pid}, {child.state}{hint}")
        try:
            async with asyncio.timeout(ONE_START_TIMEOUT):
                seconds = await self._start_one(child, environment)
        except TimeoutError as error:
            late = f"not ready after {ONE_START_TIMEOUT:.0f} s"
            raise SetupError(f"{child.node.id} is {child.state} and {late}: see {child.log}") from error
        finally:
            self._write_ready()
        return _serves(child, seconds)

    def _status(self) -> list[dict[str, Any]]:
        return [
            {
                "id": child.node.id,
                "kind": child.node.kind,
                "pid": child.pid,
                "state": child.state,
                "port": child.ports[0],
            }
            for child in self._children.values()
        ]

    def _write_ready(self) -> None:
        if self._ready is not None:
            write_atomically(self._ready, json.dumps(self._describe(), indent=1) + "\n")

    def _describe(self) -> dict[str, Any]:
        record = self._directory.record
        shape = record.shape

        def of(kind: str, dc: str) -> list[dict[str, Any]]:
            found = [c for c in self._children.values() if c.node.kind == kind and c.node.dc == dc]
            return [{"id": child.node.id, "url": child.address, "pid": child.pid} for child in found]

        dcs = [
            {
                "name": dc,
                "kafka": kafka_of(self._directory, dc, seen_from=dc),
                "broker_pid": None if record.brokers else self._children[shape.broker_of(dc)].pid,
                "masters": of("master", dc),
                "workers": of("worker", dc),
            }
            for dc in shape.dc_names
        ]
        links = self._children.get(LINKS)
        return {
            "repository": record.repository,
            "dcs": dcs,
            "ports": record.ports,
            "links": {"id": LINKS, "address": links.address, "pid": links.pid} if links else None,
        }


def _serves(child: Child, seconds: float) -> str:
    return f"{child.node.id} serves at {child.address}, pid {child.pid}, ready in {seconds:.1f} s"


async def _stop(children: Iterable[Child]) -> None:
    alive = [child for child in children if child.is_alive]
    for number in (signal.SIGTERM, signal.SIGCONT):  # a suspended process handles SIGTERM after SIGCONT
        for child in alive:
            child.signal(number)
    await asyncio.gather(*(child.gone(GRACE) for child in alive))
    for child in alive:
        child.signal(signal.SIGKILL)
    await asyncio.gather(*(child.gone(KILL_WAIT) for child in alive))
