"""Status of masters and workers, and waiting until all report the same index."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx

from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.demo.cluster import DemoCluster, DemoNode

INTERVAL = 0.25
SETTLE_TIMEOUT = 120.0
"""Seconds that a restarted worker has to catch up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Fields of the `/status` of a worker."""

    evaluating: bool
    applied: int
    quads: int
    signature: str


async def worker_status(http: httpx.AsyncClient, worker: DemoNode) -> WorkerStatus | None:
    """Return the status of a worker; None if it does not answer."""
    try:
        response = await http.get(f"{worker.url}/status")
        said = response.raise_for_status().json()
    except httpx.HTTPError:
        return None
    return WorkerStatus(
        evaluating=said["evaluating"],
        applied=said["applied_index"],
        quads=said["quads"],
        signature=said["signature"],
    )


async def agreed_index(http: httpx.AsyncClient, master: DemoNode) -> int | None:
    """Return the index of the last entry in a master's agreed log; None if the master does not answer."""
    try:
        response = await http.get(f"{master.url}/cluster/status")
        return int(response.raise_for_status().json()["agreed_index"])
    except httpx.HTTPError:
        return None


async def watch_workers(
    http: httpx.AsyncClient, cluster: DemoCluster, show: Callable[[str, int | None], None]
) -> None:
    """Show the applied index of every worker until cancelled; None for a worker that does not answer."""
    while True:
        for worker in cluster.workers:
            show(worker.id, await applied_index(http, worker))
        await asyncio.sleep(INTERVAL)


async def applied_index(http: httpx.AsyncClient, worker: DemoNode) -> int | None:
    """Return the applied index of a worker; None if it does not answer."""
    status = await worker_status(http, worker)
    return status.applied if status else None


async def evaluating_worker(http: httpx.AsyncClient, cluster: DemoCluster) -> DemoNode:
    """Return the worker that reports that it evaluates.

    Raises:
        StateError: no worker reports it.

    """
    for worker in cluster.workers:
        status = await worker_status(http, worker)
        if status and status.evaluating:
            return worker
    raise StateError("no worker says that it evaluates: see /status of each")


async def settle(
    http: httpx.AsyncClient, cluster: DemoCluster, show: Callable[[str, int | None], None]
) -> None:
    """Wait until all masters have agreed the same index and all workers have applied it.

    Raises:
        StateError: the indexes differ after `SETTLE_TIMEOUT`; the message has the index of each master and worker.

    """
    deadline = time.monotonic() + SETTLE_TIMEOUT
    while True:
        indexes = {master.id: await agreed_index(http, master) for master in cluster.masters}
        for worker in cluster.workers:
            indexes[worker.id] = await applied_index(http, worker)
            show(worker.id, indexes[worker.id])
        if None not in indexes.values() and len(set(indexes.values())) == 1:
            return
        if time.monotonic() > deadline:
            each = ", ".join(f"{name} {index}" for name, index in indexes.items())
            raise StateError(f"masters and workers are not at one index after {SETTLE_TIMEOUT:.0f} s: {each}")
        await asyncio.sleep(INTERVAL)
