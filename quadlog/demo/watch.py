"""What masters and workers say of themselves, and waiting until they say the same."""

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
"""Seconds that a worker which was away has to catch up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Of a worker's `/status`."""

    evaluating: bool
    applied: int
    quads: int
    signature: str


async def worker_status(http: httpx.AsyncClient, worker: DemoNode) -> WorkerStatus | None:
    """Return what a worker says; None if it does not answer."""
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
    """Return how far a master's agreed log goes; None if it does not answer."""
    try:
        response = await http.get(f"{master.url}/cluster/status")
        return int(response.raise_for_status().json()["agreed_index"])
    except httpx.HTTPError:
        return None


async def watch_workers(
    http: httpx.AsyncClient, cluster: DemoCluster, show: Callable[[str, int | None], None]
) -> None:
    """Show every worker's applied index for ever, None for one that is down."""
    while True:
        for worker in cluster.workers:
            show(worker.id, await applied_index(http, worker))
        await asyncio.sleep(INTERVAL)


async def applied_index(http: httpx.AsyncClient, worker: DemoNode) -> int | None:
    """Return how far a worker is; None if it does not answer."""
    status = await worker_status(http, worker)
    return status.applied if status else None


async def evaluating_worker(http: httpx.AsyncClient, cluster: DemoCluster) -> DemoNode:
    """Return the worker that says it evaluates.

    Raises:
        StateError: none does.

    """
    for worker in cluster.workers:
        status = await worker_status(http, worker)
        if status and status.evaluating:
            return worker
    message = "no worker says that it evaluates: see /status of each"
    raise StateError(message)


async def settle(
    http: httpx.AsyncClient, cluster: DemoCluster, show: Callable[[str, int | None], None]
) -> None:
    """Wait until all masters agree on the index and all workers have applied it.

    Raises:
        StateError: they do not; names the index of each worker.

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
            message = f"masters and workers are not at one index after {SETTLE_TIMEOUT:.0f} s: {each}"
            raise StateError(message)
        await asyncio.sleep(INTERVAL)
