"""`DELETE /cluster/workers/{id}`: forgets a worker that will not return, and clears its alarm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from quadlog.clock import now
from quadlog.errors import NoSuchWorker, OutcomeUnknown, StillServing

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from quadlog.master.workers.worker_registry import WorkerRegistry

LOOK_S: Final = 0.01
LOOKS: Final = 500
"""Number of checks whether the worker is forgotten: the owner of the registry forgets it in its next turn."""


async def dismiss(
    request: Request, *, worker_registry: WorkerRegistry, forget: Callable[[str], None]
) -> Response:
    """Forget a worker; answer 204 when this master no longer knows it.

    Dismissals are neither agreed nor stored.  `forget` has the registry forget a worker soon.

    Raises:
        NoSuchWorker: the worker was not heard here since this master started.
        StillServing: the worker is heard now.
        OutcomeUnknown: this master is too busy to confirm.

    """
    name = request.path_params["id"]
    worker = worker_registry.known(name)
    if worker is None:
        raise NoSuchWorker(f"no worker {name} was heard in this data centre: see workers in /cluster/status")
    if worker_registry.is_live(worker, now().steady):
        raise StillServing(f"{name} serves: stop it first, then dismiss it")
    forget(name)
    for _ in range(LOOKS):
        if worker_registry.known(name) is None:
            return Response(status_code=204)
        await asyncio.sleep(LOOK_S)
    raise OutcomeUnknown(
        f"{name} is not dismissed yet, and may be soon: this master is busy, or the worker was heard again; see"
        " workers in /cluster/status",
        ask="/cluster/status",
        retry_after=1,
    )
