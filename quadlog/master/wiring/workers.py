"""Requests of a node to the workers of its data centre."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.master.node.fork_requests import ForkRequests
from quadlog.master.workers.worker_watch import WorkerActions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog.core.records import Handover
    from quadlog.master.wiring.world import World
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry


def worker_actions_of(world: World, sow: Callable[[Worker], None]) -> WorkerActions:
    """Build the actions on a worker that is silent, wrong or without a seed."""
    soon, doors = world.server.call_soon, world.worker_client
    return WorkerActions(
        knock=lambda worker: soon(lambda: doors.knock(worker)),
        mend=lambda worker, wrong: soon(lambda: doors.ask_to_mend(worker, wrong)),
        sow=sow,
    )


def fork_requests_of(world: World, worker_registry: WorkerRegistry) -> ForkRequests:
    """Build the requests to workers around a split."""
    soon, doors = world.server.call_soon, world.worker_client
    return ForkRequests(
        worker_registry,
        lambda worker, path, body, done: soon(lambda: doors.ask_about_fork(worker, path, body, done)),
    )


def tell_floor(world: World, url: str, floor: tuple[int, int]) -> None:
    """Have a worker void the effects of earlier views after that index."""
    epoch, index = floor
    world.server.call_soon(lambda: world.worker_client.tell_floor(url, {"epoch": epoch, "index": index}))


def appoint(
    world: World, url: str, duty: Handover, *, decides_to: int, suspends: bool, sync_graphs: Sequence[str]
) -> None:
    """Ask a worker to evaluate; see `Appoint`."""
    body: dict[str, str | int | Sequence[str]] = {
        "dc": duty.dc,
        "term": duty.term.hex(),
        "handover": duty.index,
        "epoch": duty.epoch,
        "decides_to": decides_to,
        "suspends": suspends,
        "sync_graphs": sync_graphs,
    }
    world.server.call_soon(lambda: world.worker_client.ask_to_evaluate(url, body))
