"""A worker's door: queries and status.  Whatever writes is 403: writes go to a master."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from quadlog.answers import handle_error
from quadlog.core.model import HASH_SIZE
from quadlog.errors import Forbidden, QuadlogError, UserError
from quadlog.http_body import form_of, media_type_of, read_body, text_of
from quadlog.quadquery import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.requests import Request

    from quadlog.worker.replica import Replica

QUERY_LIMIT = 16 * 1024 * 1024
"""Bytes of a query's text."""

_WRITES = ["POST", "PUT", "PATCH", "DELETE"]


def make_app(replica: Replica) -> Starlette:
    """The ASGI application."""

    async def query(request: Request) -> Response:
        text, parameters = await _query_of(request)
        dataset = Dataset(
            default=tuple(parameters.get("default-graph-uri", ())),
            named=tuple(parameters.get("named-graph-uri", ())),
        )
        applied = replica.store.applied
        answer = await asyncio.to_thread(
            replica.store.query, text, accept=request.headers.get("accept", "*/*"), dataset=dataset
        )
        return Response(
            answer.body, media_type=answer.media_type, headers=_index(applied.index, applied.chain)
        )

    async def statements(request: Request) -> Response:
        del request
        applied = replica.store.applied
        dump: Iterator[bytes] = await asyncio.to_thread(replica.store.dump)
        return StreamingResponse(
            dump, media_type="application/n-quads", headers=_index(applied.index, applied.chain)
        )

    async def status(request: Request) -> Response:
        del request
        return JSONResponse(_status(replica))

    async def evaluate(request: Request) -> Response:
        dc, term = _duty_of(await read_body(request, QUERY_LIMIT))
        if dc != replica.dc:
            message = f"this worker is in {replica.dc}; the duty was for {dc}: its effects would be void here"
            raise Forbidden(message)
        replica.ask_to_evaluate(term)
        return Response(status_code=202)

    return Starlette(
        routes=[
            Route("/sparql", query, methods=["GET", "POST"]),
            Route("/statements", statements, methods=["GET"]),
            Route("/status", status, methods=["GET"]),
            Route("/evaluate", evaluate, methods=["POST"]),
            Route("/{path:path}", _refuse, methods=_WRITES),
        ],
        exception_handlers={QuadlogError: handle_error},
    )


def _index(index: int, chain: bytes) -> dict[str, str]:
    return {"Quadlog-Index": f"{index}:{chain.hex()[:16]}"}


def _duty_of(body: bytes) -> tuple[str, bytes]:
    try:
        duty = json.loads(body)
        dc, term = str(duty["dc"]), bytes.fromhex(duty["term"])
    except (ValueError, TypeError, KeyError):
        dc, term = "", b""
    if len(term) != HASH_SIZE:
        message = f'the body is {{"dc": "…", "term": "{HASH_SIZE} bytes in hex"}}'
        raise UserError(message)
    return dc, term


async def _refuse(request: Request) -> Response:
    del request
    message = "workers take no writes: send updates to a master's /update"
    raise Forbidden(message)


async def _query_of(request: Request) -> tuple[str, Mapping[str, Sequence[str]]]:
    """The query's text and the parameters beside it, in any of the protocol's three forms."""
    parameters: dict[str, list[str]] = {}
    for name, value in request.query_params.multi_items():
        parameters.setdefault(name, []).append(value)
    if request.method == "POST":
        body = await read_body(request, QUERY_LIMIT)
        match media_type_of(request):
            case "application/sparql-query":
                return text_of(body), parameters
            case "application/sparql-update":
                return await _refuse_update()
            case "application/x-www-form-urlencoded":
                parameters = form_of(body)
            case other:
                message = (
                    f"a query comes as application/sparql-query or as a form with 'query', not as '{other}'"
                )
                raise UserError(message)
    if "update" in parameters:
        return await _refuse_update()
    queries = parameters.get("query", [])
    if len(queries) != 1:
        message = f"exactly one 'query' is needed, there are {len(queries)}"
        raise UserError(message)
    return queries[0], parameters


async def _refuse_update() -> tuple[str, Mapping[str, Sequence[str]]]:
    message = "this is an update; send it to a master's /update"
    raise Forbidden(message)


def _status(replica: Replica) -> dict[str, Any]:
    beat = replica.beat()
    return {
        "id": beat.worker,
        "dc": beat.dc,
        "state": beat.state.value.lower(),
        "evaluating": beat.evaluating,
        "attempt": beat.attempt,
        "applied_index": beat.applied.index,
        "applied_chain": beat.applied.chain.hex(),
        "signature": beat.signature.hex(),
        "quads": beat.quads,
        "void_effects": replica.void_effects(),
    }
