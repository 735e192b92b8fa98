"""Requests of a master to its workers other than reads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import httpx

from quadlog.master.workers.worker_registry import ProbeResult
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from quadlog.master.workers.worker_registry import Divergence, Worker

KNOCK_S: Final = 0.5
"""Timeout in seconds of a request to a silent worker; one that lives answers within milliseconds."""

ASK_S: Final = 2.0


class WorkerClient:
    """HTTP client for requests to workers.  Used in the server's loop only."""

    def __init__(self) -> None:
        """Create the client; it connects at the first request."""
        self._client = new_client(ASK_S)

    async def ask_to_evaluate(self, url: str, duty: Mapping[str, str | int | Sequence[str]]) -> None:
        """Ask a worker to evaluate.  The request is repeated until the worker's fence arrives."""
        with suppress(httpx.HTTPError):
            await self._client.post(f"{url}/evaluate", json=dict(duty))

    async def tell_floor(self, url: str, floor: Mapping[str, int]) -> None:
        """Inform a worker which effects are void.  The request is repeated until a rewind states the same."""
        with suppress(httpx.HTTPError):
            await self._client.post(f"{url}/floor", json=dict(floor))

    async def ask_to_mend(self, worker: Worker, wrong: Divergence) -> None:
        """Ask a worker to rebuild its store.  Its heartbeats report the result."""
        with suppress(httpx.HTTPError):
            body = {"store": wrong.store, "reason": f"{wrong.name}: {wrong.reason}"}
            await self._client.post(f"{worker.beat.url}/rebuild", json=body)

    async def ask_about_fork(
        self, worker: Worker, path: str, body: Mapping[str, object], done: Callable[[int], None]
    ) -> None:
        """Send a worker a request that concerns a fork; `done` gets the status of the response, if there is one."""
        with suppress(httpx.HTTPError):
            response = await self._client.post(f"{worker.beat.url}{path}", json=dict(body))
            done(response.status_code)

    async def knock(self, worker: Worker) -> None:
        """Send a request to a worker whose heartbeats do not arrive any more, and store the result in its `door`."""
        beat = worker.beat
        try:
            await self._client.get(f"{beat.url}/status", timeout=KNOCK_S)
            door = ProbeResult.ANSWERS
        except (httpx.NetworkError, httpx.RemoteProtocolError):
            door = ProbeResult.REFUSED
        except httpx.HTTPError:
            door = ProbeResult.HANGS
        if worker.beat is beat:  # otherwise a heartbeat arrived meanwhile
            worker.door = door
