"""`/queries`: reads in progress at the workers of this data centre, whichever master passed them on."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
from starlette.responses import JSONResponse, Response

from quadlog.errors import NoSuchQuery, OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from starlette.requests import Request

    from quadlog.master.http.read_proxy import ReadProxy
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry


class Queries:
    """Lists and ends reads."""

    def __init__(self, worker_registry: WorkerRegistry, read_proxy: ReadProxy) -> None:
        self._worker_registry, self._read_proxy = worker_registry, read_proxy

    async def listed(self, request: Request) -> Response:
        """Return all reads in progress, the oldest first, and the workers that did not answer."""
        del request
        workers = self._worker_registry.all()
        answers = await asyncio.gather(*map(self._of, workers))
        queries: list[dict[str, Any]] = []
        unreachable: dict[str, str] = {}
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, str):
                unreachable[worker.beat.worker] = answer
            else:
                queries += answer
        queries.sort(key=lambda query: query["since"])
        return JSONResponse({"queries": queries, "unreachable": unreachable})

    async def _of(self, worker: Worker) -> list[dict[str, Any]] | str:
        try:
            answer = await self._read_proxy.call(worker, "GET", "/queries")
            found: list[dict[str, Any]] = answer.raise_for_status().json()["queries"]
        except (httpx.HTTPError, ValueError, KeyError) as error:
            return f"{type(error).__name__} {error}".strip()
        return found

    async def stop(self, request: Request) -> Response:
        """End a read.

        Raises:
            NoSuchQuery: no read with this id is in progress.
            Unavailable: its worker cannot be reached.
            OutcomeUnknown: its worker does not answer.

        """
        query_id: str = request.path_params["id"]
        name = query_id.rsplit("-", 2)[0]
        worker = self._worker_registry.known(name)
        if worker is None:
            raise NoSuchQuery(f"no worker of this data centre has given the id {query_id}")
        try:
            answer = await self._read_proxy.call(worker, "DELETE", f"/queries/{quote(query_id, safe='')}")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            message = f"{name} could not be asked to end {query_id}: {type(error).__name__} {error}".strip()
            raise Unavailable(message, retry_after=2) from error
        except httpx.HTTPError as error:
            message = (
                f"{name} was asked to end {query_id} and does not answer: {type(error).__name__} {error}"
            )
            raise OutcomeUnknown(f"{message}; see /queries", ask="/queries", retry_after=2) from error
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise NoSuchQuery(f"no query {query_id} is under way at {name}: it ended, or the id is wrong")
        kept = {
            name: answer.headers[name] for name in ("content-type", "retry-after") if name in answer.headers
        }
        return Response(answer.content, answer.status_code, kept)
