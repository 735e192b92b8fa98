"""HTTP application of a muted master: reads and status; it refuses writes, and names the place to send them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from quadlog.clock import now
from quadlog.errors import QuadlogError
from quadlog.master.clients.barrier import Barrier
from quadlog.master.clients.body_budget import BodyBudget
from quadlog.master.clients.write_guards import muted
from quadlog.master.http.app import STATEMENTS, reading_routes
from quadlog.master.http.dismissal import dismiss
from quadlog.master.http.queries import Queries
from quadlog.master.http.read_proxy import ReadProxy
from quadlog.master.http.reads import ReadRouter
from quadlog.master.http.status import workers_status
from quadlog.web.answers import handle_error

if TYPE_CHECKING:
    from starlette.requests import Request

    from quadlog.master.muted.muted_state import MutedState
    from quadlog.settings import MasterSettings

CHANGES = (
    ("/update", ["POST"]),
    (STATEMENTS, ["POST", "PUT", "DELETE"]),
    ("/controls/{name}", ["PUT", "DELETE"]),
    ("/tx/{name:path}", ["GET"]),
    ("/cluster/peers", ["GET", "POST"]),
    ("/cluster/peers/{id}", ["DELETE"]),
    ("/cluster/promote", ["POST"]),
    ("/cluster/settings", ["GET"]),
    ("/cluster/settings/{name}", ["GET", "PUT"]),
    ("/cluster/log", ["GET"]),
    ("/cluster/splits", ["GET"]),
    ("/cluster/splits/approve", ["POST"]),
    ("/cluster/splits/{name}", ["GET", "DELETE"]),
    ("/cluster/seed", ["GET", "POST"]),
    ("/cluster/seed/files", ["GET", "PUT"]),
)
"""Paths that only masters that vote can serve."""


def make_app(muted_state: MutedState, settings: MasterSettings) -> Starlette:
    """Create the ASGI application."""
    read_proxy = ReadProxy(muted_state.worker_registry)
    body_budget = BodyBudget(settings.max_open_requests_size)

    async def refuse(request: Request) -> NoReturn:
        del request
        raise muted(settings)

    async def no_barrier() -> int:
        raise muted(settings)

    reads = ReadRouter(
        muted_state,
        settings,
        body_budget,
        read_proxy=read_proxy,
        barrier=Barrier(no_barrier),
        default_consistency=lambda: settings.read_consistency,
    )
    queries = Queries(muted_state.worker_registry, read_proxy)
    dismissal = partial(dismiss, worker_registry=muted_state.worker_registry, forget=muted_state.dismiss)

    async def status(request: Request) -> Response:
        del request
        return JSONResponse(muted_status(muted_state, settings))

    async def ready(request: Request) -> Response:
        del request
        if muted_state.worker_registry.for_read(now().steady, muted_state.shown):
            return PlainTextResponse("ok\n")
        return PlainTextResponse("no worker in service\n", 503, {"Retry-After": "1"})

    return Starlette(
        routes=[
            *reading_routes(reads, queries, dismissal),
            Route("/cluster/status", status, methods=["GET"]),
            Route("/healthz/ready", ready, methods=["GET"]),
            *(Route(path, refuse, methods=methods) for path, methods in CHANGES),
        ],
        exception_handlers={QuadlogError: handle_error},
    )


def muted_status(muted_state: MutedState, settings: MasterSettings) -> dict[str, Any]:
    """Return the status; a key that `/cluster/status` of other masters also has means the same."""
    moment, since, seed = now().steady, muted_state.unheard_since, muted_state.ledger.seed
    return {
        "node": settings.node_id,
        "dc": settings.dc,
        "repository": settings.repository,
        "kafka": settings.kafka,
        "role": settings.role.value,
        "follows": {
            "dc": settings.source,
            "reached": since is None,
            "silent_s": None if since is None else round((moment - since) / 1000, 1),
            "records_behind": dict(muted_state.behind),
        },
        "agreed_index": muted_state.agreed,
        "decided_index": muted_state.ledger.index,
        "seed": seed and {"signature": seed.signature.hex(), "quads": seed.quads},
        "workers": workers_status(muted_state.worker_registry, moment),
        "alarms": [alarm.as_json() for alarm in muted_state.alarms()],
    }
