"""Send updates to all masters concurrently, so that each update is executed exactly once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import httpx

from quadlog.errors import OutcomeUnknown, QuadlogError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from quadlog.demo.cluster import DemoNode
    from quadlog.demo.split import DemoUpdate

AT_ONCE = 8
"""Concurrent updates at each master: enough to fill its rounds, and few enough for steady progress of the bar."""
PATIENCE = 120.0
"""Seconds after which an update that no master acknowledges is given up."""
PAUSE, LONGEST_PAUSE = 0.2, 2.0


async def load(
    http: httpx.AsyncClient,
    masters: Sequence[DemoNode],
    updates: Sequence[DemoUpdate],
    done: Callable[[DemoUpdate], None],
) -> int:
    """Send every update until a master acknowledges it; return the number of failed attempts.

    Raises:
        QuadlogError: a master refused an update, or no master acknowledged it.

    """
    remaining = iter(updates)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_send_each(http, [*masters[n:], *masters[:n]], remaining, done))
                for n in range(len(masters))
                for _ in range(AT_ONCE)
            ]
    except* QuadlogError as several:
        raise several.exceptions[0] from None
    return sum(task.result() for task in tasks)


async def _send_each(
    http: httpx.AsyncClient,
    masters: Sequence[DemoNode],
    remaining: Iterator[DemoUpdate],
    done: Callable[[DemoUpdate], None],
) -> int:
    failed = 0
    for update in remaining:
        failed += await _send(http, masters, update)
        done(update)
    return failed


async def _send(http: httpx.AsyncClient, masters: Sequence[DemoNode], update: DemoUpdate) -> int:
    """Send an update to the first master, then to the others in turn, always with the same key.

    The key makes a retry safe if the outcome of an attempt is unknown: at every master, the update is
    the same transaction.
    """
    began = time.monotonic()
    failed = 0
    while True:
        master = masters[failed % len(masters)]
        problem = await _try(http, master, update)
        if problem is None:
            return failed
        failed += 1
        if time.monotonic() - began > PATIENCE:
            raise OutcomeUnknown(
                f"no master acknowledged update {update.key} in {PATIENCE:.0f} s; the last said: {problem}"
            )
        await asyncio.sleep(min(PAUSE * failed, LONGEST_PAUSE))


async def _try(http: httpx.AsyncClient, master: DemoNode, update: DemoUpdate) -> str | None:
    """Return None if the master acknowledged the update, otherwise the reason why it must be sent again."""
    try:
        response = await http.post(
            f"{master.url}/update",
            content=update.text,
            headers={"Content-Type": "application/sparql-update", "Idempotency-Key": update.key},
        )
    except httpx.TransportError as error:
        return f"{master.id}: {type(error).__name__} {error}"
    said = f"{master.id}: {response.status_code} {response.text[:300]}"
    if response.is_success:
        return None
    if response.is_server_error:
        return said
    raise StateError(f"a master refused update {update.key}, which it must not: {said}")


async def transactions(
    http: httpx.AsyncClient, master: DemoNode, updates: Sequence[DemoUpdate]
) -> dict[str, int | None]:
    """Return the index of each update in a master's log, by key; None if the master has not applied the update."""
    found: dict[str, int | None] = {}
    for update in updates:
        answer = (await http.get(f"{master.url}/tx/{update.key}")).raise_for_status().json()
        found[update.key] = answer["index"] if answer["state"] == "applied" else None
    return found
