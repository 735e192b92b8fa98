"""`/sparql`: a query goes to the least busy worker that shows what was acknowledged here."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx
from starlette.responses import StreamingResponse

from quadlog.clock import now
from quadlog.errors import Unavailable, UserError
from quadlog.http_body import read_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.crew import Worker
    from quadlog.master.node import Node
    from quadlog.settings import MasterSettings

PASSED_ON: Final = ("accept", "content-type", "traceparent")
PASSED_BACK: Final = ("content-type", "quadlog-index", "retry-after")

WAIT_S: Final = 2.0
"""How long a read waits for a worker that shows what was acknowledged here."""


class Reads:
    """Passes reads on to workers."""

    def __init__(self, node: Node, settings: MasterSettings) -> None:
        """`node` knows the workers."""
        self._node, self._settings = node, settings
        # No time limit on reading: a query runs as long as its client waits.
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=2.0), limits=httpx.Limits(), trust_env=False
        )

    async def answer(self, request: Request) -> Response:
        """A SPARQL query, of any form that the protocol knows."""
        body = await read_body(request, self._settings.max_transaction_size)
        return await self._pass_on(request, "/sparql", body)

    async def statements(self, request: Request) -> Response:
        """All quads."""
        repository = request.path_params["repository"]
        if repository != self._settings.repository:
            message = f"there is no repository '{repository}' here, only '{self._settings.repository}'"
            raise NoSuchRepository(message)
        return await self._pass_on(request, "/statements", b"")

    async def _pass_on(self, request: Request, path: str, body: bytes) -> Response:
        """To one worker after the other until one answers.

        Raises:
            Unavailable: none did; says why each one failed.

        """
        failures: list[str] = []
        for worker in await self._candidates():
            worker.reading += 1
            try:
                answer = await self._ask(worker, request, path, body)
            except httpx.HTTPError as error:
                worker.reading -= 1
                self._node.crew.forget(worker)
                failures.append(f"{worker.beat.worker}: {type(error).__name__} {error}".strip())
                continue
            if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                worker.reading -= 1
                failures.append(
                    f"{worker.beat.worker}: {(await answer.aread()).decode(errors='replace').strip()}"
                )
                await answer.aclose()
                continue
            headers = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
            return StreamingResponse(_relay(answer, worker), answer.status_code, headers)
        message = "; ".join(failures) or (
            f"no worker of this data centre is in service at index {self._node.desk.settled} or later"
        )
        raise Unavailable(message, retry_after=2)

    async def _candidates(self) -> list[Worker]:
        """Workers to try, in order; waits a little for one."""
        deadline = now().steady + WAIT_S * 1000
        while True:
            moment = now().steady
            found = self._node.crew.for_read(moment, self._node.desk.settled)
            if found or moment > deadline:
                return found
            await asyncio.sleep(0.02)

    async def _ask(self, worker: Worker, request: Request, path: str, body: bytes) -> httpx.Response:
        url = httpx.URL(worker.beat.url + path, query=request.scope["query_string"])
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        passed = self._client.build_request(request.method, url, headers=headers, content=body or None)
        return await self._client.send(passed, stream=True)


class NoSuchRepository(UserError):
    """Another repository than the one that is served here."""

    status = 404


async def _relay(answer: httpx.Response, worker: Worker) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        worker.reading -= 1
        await answer.aclose()
