"""The cluster under load: closed loops at its masters, and how soon its workers are there."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.bench import machines
from tests.bench.figures import Latencies, Run
from tests.bench.generator import NO_CONTENT, Connection, closed_loop
from tests.bench.workload import Workload, setup, texts

if TYPE_CHECKING:
    from pathlib import Path

CATCH_UP_S = 60.0
"""After that a run has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCentre:
    """Where one is reached."""

    name: str
    kafka: str
    masters: list[str]
    workers: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A lab that runs, as its READY file names it."""

    repository: str
    lab_id: str
    dcs: list[DataCentre]

    @classmethod
    def of(cls, ready: Path) -> Self:
        """Read a READY file."""
        found: dict[str, Any] = json.loads(ready.read_text())
        return cls(
            repository=found["repository"],
            lab_id=machines.lab_of(found["dcs"][0]["masters"][0]["pid"]),
            dcs=[
                DataCentre(
                    name=dc["name"],
                    kafka=dc["kafka"],
                    masters=[master["url"] for master in dc["masters"]],
                    workers=[worker["url"] for worker in dc["workers"]],
                )
                for dc in found["dcs"]
            ],
        )

    @property
    def masters(self) -> list[str]:
        """URLs: the first of each data centre, then the second, so that few clients meet all."""
        rows = max(len(dc.masters) for dc in self.dcs)
        return [dc.masters[row] for row in range(rows) for dc in self.dcs if row < len(dc.masters)]

    def catch_up(self) -> float:
        """Seconds until all workers are where the masters are.

        Raises:
            TimeoutError: they never were.

        """
        began = time.monotonic()
        workers = [url for dc in self.dcs for url in dc.workers]
        with httpx.Client(timeout=10, trust_env=False) as http:
            while True:
                agreed = {http.get(f"{url}/cluster/status").json()["agreed_index"] for url in self.masters}
                applied = {http.get(f"{url}/status").json()["applied_index"] for url in workers}
                if agreed == applied and len(agreed) == 1:
                    return time.monotonic() - began
                if time.monotonic() - began > CATCH_UP_S:
                    message = f"after {CATCH_UP_S:.0f} s masters are at {agreed}, workers at {applied}"
                    raise TimeoutError(message)

    def measure(self, workload: Workload, *, clients: int, seconds: float, warm_up_s: float) -> Run:
        """One closed loop, after a shorter one that is not counted."""
        prefix = f"urn:bench:{uuid.uuid4()}:"
        self._prepare(workload, prefix)
        updates = texts(workload, prefix)
        if warm_up_s:
            asyncio.run(closed_loop(self.masters, updates, clients=clients, seconds=warm_up_s))
        before = machines.cpu_s(self.lab_id)
        sent = asyncio.run(closed_loop(self.masters, updates, clients=clients, seconds=seconds))
        catch_up_s = self.catch_up()
        spent = machines.spent_between(before, machines.cpu_s(self.lab_id))
        done = len(sent.latencies)
        if not done:
            message = f"not one of the updates was acknowledged: {sent.errors}"
            raise RuntimeError(message)
        return Run(
            clients=clients,
            updates=done,
            seconds=sent.seconds,
            latencies=Latencies.of(sent.latencies),
            errors=sent.errors,
            generator_cpu=sent.cpu_s / sent.seconds,
            cpu_ms={kind: 1000 * cpu / done for kind, cpu in machines.by_process(spent).items()},
            threads_ms={": ".join(kind): 1000 * cpu / done for kind, cpu in sorted(spent.items())},
            catch_up_s=catch_up_s,
        )

    def _prepare(self, workload: Workload, prefix: str) -> None:
        text = setup(workload, prefix)
        if text is not None:
            status, message = asyncio.run(_once(self.masters[0], text))
            if status != NO_CONTENT:
                raise RuntimeError(f"the workload could not be prepared: {status} {message}")
        self.catch_up()


async def _once(master: str, text: str) -> tuple[int, str]:
    connection = await Connection.to(master)
    answer = await connection.update(text)
    await connection.close()
    return answer.status, answer.body.decode(errors="replace")
