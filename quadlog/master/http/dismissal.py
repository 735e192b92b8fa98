"""`DELETE /cluster/workers/{id}`: a worker that will not come back is forgotten, and its alarm with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from quadlog.clock import now
from quadlog.errors import NoSuchWorker, OutcomeUnknown, StillServing

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from quadlog.master.workers.crew import Crew

LOOK_S: Final = 0.01
LOOKS: Final = 500
"""Whoever owns the crew takes it in with its next turn."""


class Dismissal:
    """Of workers, at this master; nothing of it is agreed or written."""

    def __init__(self, crew: Crew, dismiss: Callable[[str], None]) -> None:
        """`crew` knows who was heard; `dismiss` has one forgotten there, soon."""
        self._crew, self._dismiss = crew, dismiss

    async def dismiss(self, request: Request) -> Response:
        """Forget one: 204 when it is no longer known here.

        Raises:
            NoSuchWorker: it was not heard here since this master's start.
            StillServing: it is heard now.
            OutcomeUnknown: this master is too busy to say.

        """
        name, crew = request.path_params["id"], self._crew
        worker = crew.known(name)
        if worker is None:
            raise NoSuchWorker(
                f"no worker {name} was heard in this data centre: see workers in /cluster/status"
            )
        if crew.is_live(worker, now().steady):
            raise StillServing(f"{name} serves: stop it first, then dismiss it")
        self._dismiss(name)
        for _ in range(LOOKS):
            if crew.known(name) is None:
                return Response(status_code=204)
            await asyncio.sleep(LOOK_S)
        raise OutcomeUnknown(
            f"{name} is not dismissed yet, and may be soon: this master is busy, or the worker was heard again; see"
            " workers in /cluster/status",
            ask="/cluster/status",
            retry_after=1,
        )
