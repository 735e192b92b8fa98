"""`/sparql`: a query goes to the least busy worker that shows what was acknowledged here."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final

from quadlog.answers import Streamed
from quadlog.clock import now
from quadlog.errors import Unavailable, UserError
from quadlog.http_body import read_query
from quadlog.master.passage import NoReply, Passage, Question

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.crew import Worker
    from quadlog.master.node import Node
    from quadlog.master.room import Room
    from quadlog.settings import MasterSettings

PASSED_ON: Final = ("accept", "content-type", "traceparent")
PASSED_BACK: Final = ("content-type", "content-length", "quadlog-index", "retry-after")

WAIT_S: Final = 2.0
"""How long a read waits for a worker that shows what was acknowledged here."""


class Reads:
    """Passes reads on to workers."""

    def __init__(self, node: Node, settings: MasterSettings, room: Room) -> None:
        """`node` knows the workers; `room` is for the bodies of open requests."""
        self._node, self._settings, self._room = node, settings, room
        self._passage = Passage(node.crew)
        self._numbers = count(1)

    async def answer(self, request: Request) -> Response:
        """A SPARQL query, of any form that the protocol knows.  Its body is held until its answer begins."""
        with self._room.lease() as lease:
            return await self._pass_on(request, "/sparql", await read_query(request, lease.grow))

    async def statements(self, request: Request) -> Response:
        """All quads."""
        repository = request.path_params["repository"]
        if repository != self._settings.repository:
            message = f"there is no repository '{repository}' here, only '{self._settings.repository}'"
            raise NoSuchRepository(message)
        return await self._pass_on(request, "/statements", b"")

    async def _pass_on(self, request: Request, path: str, body: bytes) -> Response:
        """To one worker after the other until one answers; after its first byte to no other.

        Raises:
            Unavailable: none did; says why each one failed.

        """
        question = Question(
            method=request.method,
            path=path,
            query_string=request.scope["query_string"],
            headers={name: request.headers[name] for name in PASSED_ON if name in request.headers},
            body=body,
        )
        failures: dict[str, str] = {}
        await self._wait_for_one()
        while worker := self._best(failures):
            worker.asked_last = next(self._numbers)
            try:
                reply = await self._passage.ask(worker, question)
            except NoReply as failure:
                failures[worker.beat.worker] = str(failure)
                continue
            headers = {name: reply.headers[name] for name in PASSED_BACK if name in reply.headers}
            return Streamed(reply.first, reply.rest, status_code=reply.status, headers=headers)
        raise Unavailable(self._why(failures), retry_after=2)

    def _best(self, failures: Container[str]) -> Worker | None:
        found = self._node.crew.for_read(now().steady, self._node.desk.shown)
        return next((worker for worker in found if worker.beat.worker not in failures), None)

    async def _wait_for_one(self) -> None:
        """A little: a worker may be about to apply what was acknowledged here."""
        deadline = now().steady + WAIT_S * 1000
        while not self._best(()) and now().steady < deadline:  # noqa: ASYNC110 - heartbeats come on another thread
            await asyncio.sleep(0.02)

    def _why(self, failures: Mapping[str, str]) -> str:
        """One line a worker."""
        crew, moment, settled = self._node.crew, now().steady, self._node.desk.shown
        lines = [
            f"{worker.beat.worker} {failures.get(worker.beat.worker) or crew.why_not(worker, moment, settled)}"
            for worker in crew.all()
        ]
        return "\n".join(
            ["no worker of this data centre could answer:", *(lines or ["none was ever heard of"])]
        )


class NoSuchRepository(UserError):
    """Another repository than the one that is served here."""

    status = 404
