"""ASGI application of a master: SPARQL 1.1 Protocol, transactions, status, schemas."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from quadlog.clock import now
from quadlog.codec.envelope import text_id
from quadlog.core.model import id_of_key
from quadlog.errors import QuadlogError, UserError
from quadlog.master.clients.approving import approve
from quadlog.master.clients.barrier import Barrier
from quadlog.master.clients.body_budget import BodyBudget
from quadlog.master.clients.pending_requests import TxState
from quadlog.master.clients.promotion import promote
from quadlog.master.clients.write_guards import urls_of, write_obstacle
from quadlog.master.events import PromotionAsked, WorkerDismissed
from quadlog.master.http import registry
from quadlog.master.http.cluster_settings import ClusterSettingsHandler
from quadlog.master.http.controls import change_control
from quadlog.master.http.dismissal import dismiss
from quadlog.master.http.introduction import Introduction
from quadlog.master.http.peers import PeersHandler
from quadlog.master.http.proposals import Proposals
from quadlog.master.http.queries import Queries
from quadlog.master.http.read_proxy import ReadProxy
from quadlog.master.http.reads import ReadRouter
from quadlog.master.http.statements import Statements
from quadlog.master.http.status import cluster_status
from quadlog.master.http.updates import UpdateHandler
from quadlog.master.recovery.log_door import LogDoor
from quadlog.master.split_reports.splits_handler import SplitsHandler
from quadlog.settings import Role
from quadlog.web.answers import handle_error
from quadlog.web.http_body import parameters_of
from quadlog.web.http_parameters import refuse_others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from quadlog.core.agreement.cluster_view import ClusterView
    from quadlog.master.node.node import Node
    from quadlog.master.seeds.seeding import Seeding
    from quadlog.settings import MasterSettings
    from quadlog.web.http_direct import Endpoint


ON_A_BRANCH: Final = "applied on a branch"
"""State of a transaction that only a side without a majority has agreed on."""

STATEMENTS: Final = "/repositories/{repository}/statements"


def make_app(
    node: Node, settings: MasterSettings, *, peers: Mapping[str, str], seeding: Seeding | None = None
) -> Starlette:
    """Return the ASGI application; `peers` maps the id of every master, this one included, to its data centre."""
    body_budget = BodyBudget(settings.max_open_requests_size)
    read_proxy, proposals = ReadProxy(node.worker_registry), Proposals(node, settings)
    reads = ReadRouter(
        node,
        settings,
        body_budget,
        read_proxy=read_proxy,
        barrier=Barrier(proposals.barrier),
        default_consistency=lambda: node.cluster.settings.read_consistency,
    )
    queries = Queries(node.worker_registry, read_proxy)
    controls = partial(change_control, proposals=proposals, settings=settings, body_budget=body_budget)
    dismissal = partial(
        dismiss, worker_registry=node.worker_registry, forget=lambda name: node.put(WorkerDismissed(name))
    )
    doors = PeersHandler(node, proposals, settings, peers, Introduction(urls_of(settings)))
    shared = ClusterSettingsHandler(node, proposals, settings)
    splits = SplitsHandler(node.split_reporter, settings.node_id, settings.dc)
    promotion = partial(
        promote,
        current=lambda: node.cluster,
        settings=settings,
        ask=lambda until: node.put(PromotionAsked(until)),
    )
    approval = partial(
        approve,
        current=lambda: node.cluster,
        settings=settings,
        index_of=node.store.index_of,
        propose=proposals.configure,
    )
    updates = UpdateHandler(proposals, settings, body_budget, reads.dry_run)
    statements = Statements(updates, settings, body_budget)

    async def status(request: Request) -> Response:
        del request
        return JSONResponse(cluster_status(node, settings, peers))

    async def transaction(request: Request) -> Response:
        return _transaction(node, settings.repository, request.path_params["name"])

    async def ready(request: Request) -> Response:
        return _ready(node, settings, reads_only=_asks_for_reads(request))

    return Starlette(
        routes=[
            Route("/update", updates.answer, methods=["POST"]),
            *reading_routes(reads, queries, dismissal),
            Route(STATEMENTS, statements.change, methods=["POST", "PUT", "DELETE"]),
            Route("/controls/{name}", controls, methods=["PUT", "DELETE"]),
            Route("/tx/{name:path}", transaction, methods=["GET"]),
            Route("/cluster/status", status, methods=["GET"]),
            Route("/cluster/log", LogDoor(node.store).answer, methods=["GET"]),
            Route("/cluster/peers", doors.listed, methods=["GET"]),
            Route("/cluster/peers", doors.add, methods=["POST"]),
            Route("/cluster/peers/{id}", doors.remove, methods=["DELETE"]),
            Route("/cluster/promote", promotion, methods=["POST"]),
            Route("/cluster/splits/approve", approval, methods=["POST"]),
            Route("/cluster/settings", shared.listed, methods=["GET"]),
            Route("/cluster/settings/{name}", shared.one, methods=["GET"]),
            Route("/cluster/settings/{name}", shared.change, methods=["PUT"]),
            Route("/cluster/splits", splits.listed, methods=["GET"]),
            Route("/cluster/splits/{name}", splits.one, methods=["GET"]),
            Route("/cluster/splits/{name}", splits.drop, methods=["DELETE"]),
            Route("/healthz/ready", ready, methods=["GET"]),
            *(seeding.routes() if seeding else ()),
        ],
        exception_handlers={QuadlogError: handle_error},
    )


def reading_routes(reads: ReadRouter, queries: Queries, dismissal: Endpoint) -> list[BaseRoute]:
    """Return the routes that a muted master has, too: reads, workers, liveness and schemas."""
    return [
        Route("/sparql", reads.answer, methods=["GET", "POST"]),
        Route(STATEMENTS, reads.statements, methods=["GET"]),
        Route("/controls", reads.controls, methods=["GET"]),
        Route("/controls/{name}", reads.controls, methods=["GET"]),
        Route("/queries", queries.listed, methods=["GET"]),
        Route("/queries/{id}", queries.stop, methods=["DELETE"]),
        Route("/cluster/workers/{id}", dismissal, methods=["DELETE"]),
        Route("/healthz/started", _fine, methods=["GET"]),
        Route("/healthz/alive", _fine, methods=["GET"]),
        Mount("/registry", routes=registry.ROUTES),
    ]


async def _fine(request: Request) -> Response:
    """Answer that the process serves HTTP."""
    del request
    return PlainTextResponse("ok\n")


def _asks_for_reads(request: Request) -> bool:
    """Return whether a request for readiness has `for=reads`.

    Raises:
        UserError: it has another parameter, or another value.

    """
    given = parameters_of(request)
    refuse_others(given, ("for",))
    values = given.get("for", ())
    if any(value != "reads" for value in values):
        raise UserError(f"for is reads, or is left out for reads and writes, not {' and '.join(values)}")
    return bool(values)


def _ready(node: Node, settings: MasterSettings, *, reads_only: bool) -> Response:
    """Return 200 if a worker here shows what was acknowledged here, and writes can be agreed; else 503.

    A witness is therefore never ready: no client must be sent there.  `reads_only`: writes are not asked for.
    """
    takes_writes = node.cluster.is_peer and settings.role is not Role.READ_ONLY
    why = write_obstacle(node.cluster, now().steady) if takes_writes and not reads_only else None
    if node.worker_registry.for_read(now().steady, node.pending_requests.shown):
        if why is None:
            return PlainTextResponse("ok\n")
        message = f"takes no writes, and serves reads: {why}\n"
        return PlainTextResponse(message, 503, {"Retry-After": str(why.retry_after)})
    if settings.role is Role.READ_ONLY:
        message = (
            "read-only, without workers: serves no clients; /healthz/alive says whether it serves its peers\n"
        )
        return PlainTextResponse(message, 503)
    message = f"no worker in service at index {node.pending_requests.shown} or later\n"
    return PlainTextResponse(message, 503, {"Retry-After": "1"})


def transaction_ids(repository: str, name: str) -> list[bytes]:
    """Return the ids that `/tx/{name}` may mean: those of a shown id and of an Idempotency-Key."""
    ids = [id_of_key(repository, name)]
    try:
        given = bytes.fromhex(name.replace("-", ""))
    except ValueError:
        return ids
    return [given, *ids] if len(given) == len(ids[0]) else ids


def _is_on_branch(cluster: ClusterView, index: int | None) -> bool:
    """Return whether only a side without a majority has agreed on an entry, so that it may have to wait again."""
    fork = cluster.standing.fork
    is_branch = cluster.may_agree and not cluster.has_majority
    return is_branch and fork is not None and index is not None and index > fork


def _transaction(node: Node, repository: str, name: str) -> Response:
    answers: list[dict[str, Any]] = []
    for transaction_id in transaction_ids(repository, name):
        found = node.pending_requests.state_of(transaction_id, queued=node.is_queued(transaction_id))
        state: str = found.state.value
        if found.state is TxState.APPLIED and _is_on_branch(node.cluster, found.index):
            state = ON_A_BRANCH
        answer: dict[str, Any] = {"id": text_id(transaction_id), "state": state}
        if found.index is not None:
            answer |= {"index": found.index, "chain": found.chain.hex() if found.chain else None}
        if found.reason is not None:
            answer["reason"] = found.reason
        answers.append(answer)
    known = [answer for answer in answers if answer["state"] != "unknown"]
    return JSONResponse((known or answers)[0], headers={"Cache-Control": "no-store"})
