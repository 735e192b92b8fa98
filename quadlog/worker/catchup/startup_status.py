"""Startup status: reports of a worker that catches up before it serves, to its masters and over HTTP."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, Self

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from quadlog.clock import now
from quadlog.core.effects.signature import as_bytes
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.errors import QuadlogError, Unavailable
from quadlog.set_aside import told_set_aside
from quadlog.web.answers import handle_error
from quadlog.worker.repair.mender import QUADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from quadlog.core.records import CatchUpProgress
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.web.server import Server

_RETRY_S: Final = 5
_METHODS: Final = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class StartupStatus:
    """Heartbeats and HTTP interface of a worker that catches up.

    Nothing is reported before the first `report`: a worker that continues where it was serves at once.  Each
    request is answered 503, `GET /status` with what is known: a client that waits for this worker continues to
    wait.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        store: QuadStore,
        server: Server,
        say: Callable[[Heartbeat], None],
    ) -> None:
        """Prepare; nothing is reported yet.  `server` has the port, `say` sends a heartbeat."""
        self._settings, self._server, self._say = settings, server, say
        self._applied, self._store = store.applied, store.name
        self._look: Callable[[], CatchUpProgress] | None = None
        self._ended = threading.Event()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Return this object; its reports end with the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving, after the last heartbeat was sent."""
        self._ended.set()
        self._open.close()

    def report(self, look: Callable[[], CatchUpProgress]) -> None:
        """Report from now on what `look` returns; it may be called on any thread."""
        is_first, self._look = self._look is None, look
        if is_first:
            routes = [
                Route("/status", self._status, methods=["GET"]),
                Route("/{path:path}", self._refuse, methods=_METHODS),
            ]
            app = Starlette(routes=routes, exception_handlers={QuadlogError: handle_error})
            self._open.enter_context(self._server.early(app))
            thread = threading.Thread(target=self._beat, name="startup-status", daemon=True)
            thread.start()
            self._open.callback(thread.join)

    def _beat(self) -> None:
        while not self._ended.is_set():
            self._say(self._heartbeat())
            self._ended.wait(self._settings.heartbeat)

    def _heartbeat(self) -> Heartbeat:
        settings, applied, look = self._settings, self._applied, self._look
        return Heartbeat(
            worker=settings.node_id,
            dc=settings.dc,
            url=settings.worker_url,
            state=WorkerState.STARTING,
            evaluating=False,
            attempt=applied.attempt,
            applied=applied.point,
            signature=as_bytes(applied.signature),
            quads=applied.quads,
            sent=now().wall,
            store=self._store,
            epoch=applied.rewound,
            catching_up=look() if look is not None else None,
            set_aside=told_set_aside(settings.data_dir / QUADS),
        )

    async def _status(self, request: Request) -> Response:
        del request
        beat = self._heartbeat()
        said = {
            "id": beat.worker,
            "dc": beat.dc,
            "state": "catching up",
            "evaluating": False,
            "attempt": beat.attempt,
            "applied_index": beat.applied.index,
            "applied_chain": beat.applied.chain.hex(),
            "signature": beat.signature.hex(),
            "quads": beat.quads,
            "store": beat.store,
            "catching_up": beat.catching_up and asdict(beat.catching_up),
        }
        return JSONResponse(said, status_code=503, headers={"Retry-After": str(_RETRY_S)})

    async def _refuse(self, request: Request) -> Response:
        del request
        how = self._heartbeat().catching_up
        raise Unavailable(f"this worker catches up ({how}): ask another one", retry_after=_RETRY_S)
