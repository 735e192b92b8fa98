"""HTTP interface of a worker: queries and status.  Writes are answered 403: only masters accept them."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from dataclasses import asdict, replace
from math import inf
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from quadlog.codec.envelope import text_moment
from quadlog.core.model import HASH_SIZE
from quadlog.core.sparql.using import GRAPH, NAMED, options_of
from quadlog.errors import Forbidden, NoSuchControl, QuadlogError, UserError
from quadlog.web.answers import CLIENT, VIA, handle_error, unless_left
from quadlog.web.http_body import form_of, media_type_of, parameters_of, read_body, read_query, text_of
from quadlog.web.http_parameters import merged, only, refuse_others
from quadlog.worker.reads.frames import QueryRequest
from quadlog.worker.reads.reads import Caller, ReadLimits
from quadlog.worker.replica.evaluator_term import EpochFloor, EvaluateRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from quadlog.core.records import Scrub
    from quadlog.quadstore.applied import Applied
    from quadlog.settings import WorkerSettings
    from quadlog.worker.catchup.donor import Donor
    from quadlog.worker.evaluate.dry_runs import DryRuns
    from quadlog.worker.reads.reads import Reads
    from quadlog.worker.repair.fork_backups import ForkBackups
    from quadlog.worker.repair.mender import Mender
    from quadlog.worker.replica.replica import Replica
    from quadlog.worker.seeds.seed_door import SeedDoor

_NO_MATTER = frozenset(("infer",))
"""Parameters of `/statements` that RDF4J's clients send, and that are ignored because nothing is inferred here."""

_BESIDE_A_QUERY = ("default-graph-uri", "named-graph-uri", "timeout")

_CLIENT, _VIA = CLIENT.lower().encode(), VIA.lower().encode()

_WRITES = ["POST", "PUT", "PATCH", "DELETE"]


def make_app(
    replica: Replica,
    reads: Reads,
    mender: Mender,
    dry_runs: DryRuns,
    settings: WorkerSettings,
    *,
    seeds: SeedDoor,
    donor: Donor,
    forks: ForkBackups,
) -> Starlette:
    """Return the ASGI application."""
    read, duty = _ReadDoor(replica, reads, settings), _DutyDoor(replica, mender, seeds, forks)
    trial = _TrialDoor(replica, dry_runs, settings)
    return Starlette(
        routes=[
            Route("/sparql", read.query, methods=["GET", "POST"]),
            Route("/statements", read.statements, methods=["GET"]),
            Route("/queries", read.queries, methods=["GET"]),
            Route("/queries/{id}", read.stop, methods=["DELETE"]),
            Route("/controls", duty.controls, methods=["GET"]),
            Route("/controls/{name}", duty.control, methods=["GET"]),
            Route("/status", duty.status, methods=["GET"]),
            Route("/dry-run", trial.dry_run, methods=["POST"]),
            Route("/evaluate", duty.evaluate, methods=["POST"]),
            Route("/floor", duty.floor, methods=["POST"]),
            Route("/seed", seeds.get, methods=["GET"]),
            Route("/seed", seeds.put, methods=["PUT"]),
            Route("/seed/near", seeds.near, methods=["GET"]),
            Route("/copy", donor.get, methods=["GET"]),
            Route("/copy", donor.post, methods=["POST"]),
            Route("/copy/offer", donor.offer, methods=["GET"]),
            Route("/fork-backup", forks.post, methods=["POST"]),
            Route("/fork-backup/split", forks.split, methods=["POST"]),
            Route("/fork-backup/together", forks.together, methods=["POST"]),
            Route("/rebuild", duty.rebuild, methods=["POST"]),
            Route("/{path:path}", _refuse, methods=_WRITES),
        ],
        exception_handlers={QuadlogError: handle_error},
    )


class _ReadDoor:
    """Handlers for reads, and for the list of reads."""

    def __init__(self, replica: Replica, reads: Reads, settings: WorkerSettings) -> None:
        self._replica, self._reads, self._rows = replica, reads, settings.query_rows
        self._limits = ReadLimits(seconds=settings.query_timeout, memory=settings.query_memory)

    async def query(self, request: Request) -> Response:
        self._replica.refuse_unless_seeded()
        text, parameters = await _query_of(request)
        headers = _headers_of(request)
        question = QueryRequest(
            text=text,
            accept=headers.get(b"accept", b"*/*").decode("latin-1"),
            default=tuple(parameters.get("default-graph-uri", ())),
            named=tuple(parameters.get("named-graph-uri", ())),
            rows=self._rows,
        )
        limits = self._limits
        if "timeout" in parameters:
            limits = replace(limits, seconds=seconds_asked(parameters, limits.seconds))
        return await self._reads.answer(request, question, _caller_of(request, headers), limits)

    async def statements(self, request: Request) -> Response:
        self._replica.refuse_unless_seeded()
        if asked := sorted(set(request.query_params) - _NO_MATTER):
            message = f"all statements are given here, whatever {', '.join(asked)} may be: ask for some by a CONSTRUCT"
            raise UserError(message)
        # An answer with all quads has no time limit: only its memory and its client's patience are limited.
        endless = replace(self._limits, seconds=inf)
        return await self._reads.answer(
            request, QueryRequest(text=None), _caller_of(request, _headers_of(request)), endless
        )

    async def queries(self, request: Request) -> Response:
        del request
        return JSONResponse({"queries": self._reads.listed()})

    async def stop(self, request: Request) -> Response:
        self._reads.stop(request.path_params["id"])
        return Response(status_code=204)


class _DutyDoor:
    """Handlers for the requests of masters that are not reads."""

    def __init__(self, replica: Replica, mender: Mender, seeds: SeedDoor, forks: ForkBackups) -> None:
        self._replica, self._mender, self._seeds, self._forks = replica, mender, seeds, forks

    async def status(self, request: Request) -> Response:
        del request
        return JSONResponse(_status(self._replica) | self._seeds.status() | self._forks.status())

    async def controls(self, request: Request) -> Response:
        del request
        index = _index(self._replica.store.applied)
        found = [asdict(control) for control in self._replica.store.controls.values()]
        return JSONResponse({"controls": found}, headers=index)

    async def control(self, request: Request) -> Response:
        index, name = _index(self._replica.store.applied), request.path_params["name"]
        found = self._replica.store.controls.get(name)
        if found is None:
            message = f"there is no control {name!r} here; GET /controls lists all"
            raise NoSuchControl(message)
        return JSONResponse(asdict(found), headers=index)

    async def evaluate(self, request: Request) -> Response:
        dc, asked = _duty_of(await read_query(request))
        here = self._replica.dc
        if dc != here:
            message = f"this worker is in {here}; the duty was for {dc}: its effects would be void here"
            raise Forbidden(message)
        self._replica.ask_to_evaluate(asked)
        return Response(status_code=202)

    async def floor(self, request: Request) -> Response:
        self._replica.void_behind(_floor_of(await read_query(request)))
        return Response(status_code=202)

    async def rebuild(self, request: Request) -> Response:
        store, reason, is_wanted = _wrong_of(await read_query(request))
        await asyncio.to_thread(self._mender.ask, store, reason, is_wanted=is_wanted)
        return Response(status_code=202)


class _TrialDoor:
    """Handler for dry runs of updates."""

    def __init__(self, replica: Replica, dry_runs: DryRuns, settings: WorkerSettings) -> None:
        self._replica, self._dry_runs, self._most = replica, dry_runs, settings.max_transaction_size

    async def dry_run(self, request: Request) -> Response:
        self._replica.refuse_unless_seeded()
        body = await read_body(request, self._most)
        given, left = request.query_params, threading.Event()
        options = options_of(given.getlist(GRAPH), given.getlist(NAMED))
        media_type, tx_id = media_type_of(request), secrets.token_bytes(16)
        work = asyncio.to_thread(self._dry_runs.run, body, media_type, options, tx_id, left)
        try:
            found = await unless_left(request, work)
        finally:
            left.set()
        return JSONResponse(found.answer(), headers=_index(found.applied))


def _index(applied: Applied) -> dict[str, str]:
    """Return the header with the index and the chain hash (16 hex digits) of the log state that an answer shows."""
    return {"Quadlog-Index": f"{applied.index}:{applied.chain.hex()[:16]}"}


def seconds_asked(parameters: Mapping[str, Sequence[str]], most: float) -> float:
    """Return the time limit of a query in seconds: its parameter `timeout`, but at most `most`.

    Clients that send zero or less mean no limit.

    >>> [seconds_asked({"timeout": [text]}, 60) for text in ("2.5", "90", "0")], seconds_asked({}, 60)
    ([2.5, 60, 60], 60)
    """
    asked = parameters.get("timeout", ["0"])[-1]
    try:
        seconds = float(asked)
    except ValueError:
        message = f"the parameter timeout is a number of seconds, not {asked!r}"
        raise UserError(message) from None
    return min(seconds, most) if seconds > 0 else most


def _headers_of(request: Request) -> dict[bytes, bytes]:
    """Return the first value of each header, by name.

    For three look-ups this takes a third of the time of Starlette's headers.
    """
    return dict(reversed(request.scope["headers"]))


def _caller_of(request: Request, headers: Mapping[bytes, bytes]) -> Caller:
    """Return the caller of a request; a master names in headers the client for which it calls."""
    client, via, agent = (headers.get(name) for name in (_CLIENT, _VIA, b"user-agent"))
    address = request.scope.get("client")
    return Caller(
        client=(address[0] if address else "unknown") if client is None else client.decode("latin-1"),
        via=None if via is None else via.decode("latin-1"),
        agent=None if agent is None else agent.decode("latin-1"),
    )


def _duty_of(body: bytes) -> tuple[str, EvaluateRequest]:
    try:
        duty = json.loads(body)
        term, handover, epoch = duty["term"], duty["handover"], duty["epoch"]
        dc = str(duty["dc"])
        asked = EvaluateRequest(
            bytes.fromhex(term),
            int(handover),
            int(epoch),
            # Missing in what a master of the build before asks, which has no synchronous transactions.
            int(duty.get("decides_to", epoch)),
            duty.get("suspends") is True,
            tuple(map(str, duty.get("sync_graphs", ()))),
        )
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        dc, asked = "", EvaluateRequest(b"")
    if len(asked.term) != HASH_SIZE:
        keys = (
            f'"dc": "…", "term": "{HASH_SIZE} bytes in hex", "handover": its index, "epoch": of its view,'
            ' "decides_to": epoch of the last view with a majority, "suspends": …, "sync_graphs": […]}'
        )
        raise UserError(f"the body is {{{keys}")
    return dc, asked


def _floor_of(body: bytes) -> EpochFloor:
    try:
        asked = json.loads(body)
        return EpochFloor(epoch=int(asked["epoch"]), index=int(asked["index"]))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        message = (
            'the body is {"epoch": of the view that moved the home, "index": of the last effect that counts}'
        )
        raise UserError(message) from error


def _wrong_of(body: bytes) -> tuple[str, str, bool]:
    try:
        asked = json.loads(body)
        return str(asked["store"]), str(asked["reason"]), asked.get("operator", False) is True
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = 'the body is {"store": "as /status shows it", "reason": "…", "operator": true if one asks}'
        raise UserError(message) from error


async def _refuse(request: Request) -> Response:
    del request
    message = "workers take no writes: send updates to a master's /update"
    raise Forbidden(message)


async def _query_of(request: Request) -> tuple[str, Mapping[str, Sequence[str]]]:
    """Return the text of a query and its parameters, sent in any of the protocol's three forms."""
    parameters = parameters_of(request)
    if request.method == "POST":
        body = await read_query(request)
        match media_type_of(request):
            case "application/sparql-query":
                refuse_others(parameters, _BESIDE_A_QUERY)
                return text_of(body), parameters
            case "application/sparql-update":
                return await _refuse_update()
            case "application/x-www-form-urlencoded":
                parameters = merged(parameters, form_of(body))
            case other:
                message = (
                    f"a query comes as application/sparql-query or as a form with 'query', not as '{other}'"
                )
                raise UserError(message)
    if "update" in parameters:
        return await _refuse_update()
    text = only(parameters, "query")
    refuse_others(parameters, ("query", *_BESIDE_A_QUERY))
    return text, parameters


async def _refuse_update() -> tuple[str, Mapping[str, Sequence[str]]]:
    message = "this is an update; send it to a master's /update"
    raise Forbidden(message)


def _status(replica: Replica) -> dict[str, Any]:
    beat = replica.beat()
    return {
        "id": beat.worker,
        "dc": beat.dc,
        "state": beat.state.value.lower() if beat.fork is None else "diverged",
        "fork": beat.fork,
        "evaluating": beat.evaluating,
        "attempt": beat.attempt,
        "applied_index": beat.applied.index,
        "applied_chain": beat.applied.chain.hex(),
        "signature": beat.signature.hex(),
        "quads": beat.quads,
        "void_effects": replica.void_effects(),
        "store": beat.store,
        "scrub": beat.scrub and _scrub(beat.scrub),
        "scrub_failure": beat.scrub_failure,
        "mend": beat.mend,
        "set_aside": beat.set_aside,
    }


def _scrub(scrub: Scrub) -> dict[str, Any]:
    return {
        "index": scrub.index,
        "at": text_moment(scrub.at),
        "expected": scrub.expected.hex(),
        "found": scrub.found.hex(),
        "quads": scrub.quads,
    }
