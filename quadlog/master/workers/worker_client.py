"""Requests of a master to its workers other than reads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import httpx

from quadlog.master.workers.worker_registry import ProbeResult
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from quadlog.core.records import Handover
    from quadlog.master.workers.worker_registry import Divergence, Worker

KNOCK_S: Final = 0.5
"""Timeout in seconds of a request to a silent worker; one that lives answers within milliseconds."""

ASK_S: Final = 2.0


class WorkerClient:
    """HTTP client for requests to workers.  Any thread may call its methods, which return at once."""

    def __init__(self, soon: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]) -> None:
        """`soon` runs a coroutine on the server's loop; the client connects at the first request."""
        self._soon, self._client = soon, new_client(ASK_S)

    def ask_to_evaluate(
        self, url: str, duty: Handover, *, decides_to: int, suspends: bool, sync_graphs: Sequence[str]
    ) -> None:
        """Ask a worker to evaluate in the term of `duty`.  The request is repeated until the worker's fence arrives.

        `decides_to`: epoch of the last view up to that of the duty that held a majority; `suspends`: the duty's own
        holds none.
        """
        body: dict[str, object] = {
            "dc": duty.dc,
            "term": duty.term.hex(),
            "handover": duty.index,
            "epoch": duty.epoch,
            "decides_to": decides_to,
            "suspends": suspends,
            "sync_graphs": sync_graphs,
        }
        self._post(f"{url}/evaluate", body)

    def tell_floor(self, url: str, floor: tuple[int, int]) -> None:
        """Have a worker void the effects of earlier epochs than that of `floor` after its index.

        The request is repeated until a rewind states the same.
        """
        epoch, index = floor
        self._post(f"{url}/floor", {"epoch": epoch, "index": index})

    def ask_to_mend(self, worker: Worker, wrong: Divergence) -> None:
        """Ask a worker to rebuild its store.  Its heartbeats report the result."""
        body = {"store": wrong.store, "reason": f"{wrong.name}: {wrong.reason}"}
        self._post(f"{worker.beat.url}/rebuild", body)

    def ask_about_fork(
        self, worker: Worker, path: str, body: Mapping[str, object], done: Callable[[int], None]
    ) -> None:
        """Send a worker a request that concerns a fork; `done` gets the status of the response, if there is one."""
        self._post(f"{worker.beat.url}{path}", body, done)

    def knock(self, worker: Worker) -> None:
        """Send a request to a worker whose heartbeats do not arrive any more, and store the result in its `door`."""
        self._soon(lambda: self._knock(worker))

    async def _knock(self, worker: Worker) -> None:
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

    def _post(
        self, url: str, body: Mapping[str, object], done: Callable[[int], None] = lambda _: None
    ) -> None:
        async def post() -> None:
            with suppress(httpx.HTTPError):
                response = await self._client.post(url, json=dict(body))
                done(response.status_code)

        self._soon(post)
