"""`/sparql`: passes a query to the least busy worker that shows what the query requires."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote, urlencode

from quadlog.clock import now
from quadlog.core.consistency import Consistency, ReadRequirement, wanted
from quadlog.core.sparql.using import GRAPH, NAMED
from quadlog.errors import NoSuchRepository, OtherHistory, Unavailable
from quadlog.master.http.read_proxy import NoReadReply, ReadRequest
from quadlog.web.answers import CLIENT, VIA, CompleteResponse, StreamedResponse, unless_left
from quadlog.web.http_body import read_query
from quadlog.web.http_response import NO_BODY

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.master.clients.barrier import Barrier
    from quadlog.master.clients.body_budget import BodyBudget
    from quadlog.master.http.read_proxy import ReadProxy, ReadReply
    from quadlog.master.http.updates import UpdateRequest
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry
    from quadlog.settings import MasterSettings

LENGTH: Final = b"content-length"
PASSED_ON: Final = frozenset({b"accept", b"content-type", b"traceparent", b"user-agent"})
PASSED_BACK: Final = frozenset(
    {
        b"content-type",
        LENGTH,
        b"quadlog-index",
        b"quadlog-final",
        b"retry-after",
        b"quadlog-signature",
        b"quadlog-quads",
    }
)
CLIENT_NAME: Final = CLIENT.lower().encode()
VIA_NAME: Final = VIA.lower().encode()

WAIT_S: Final = 2.0
"""Seconds that a read waits for a worker that shows what it requires."""

AGAIN_S: Final = 0.005
"""Seconds between two checks: a worker's heartbeat follows an applied batch within some milliseconds."""


class ReadView(Protocol):
    """What a master must know to pass reads on."""

    @property
    def worker_registry(self) -> WorkerRegistry:
        """The workers of this data centre."""
        ...

    @property
    def shown(self) -> int:
        """Index that a read of consistency `session` must show."""
        ...

    @property
    def agreed(self) -> int:
        """Index of the last entry that this master knows to be agreed, and that may be evaluated."""
        ...

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash of the entry at an index; None if it is not known."""
        ...

    @property
    def elsewhere(self) -> Sequence[str]:
        """URLs of masters of other data centres that may show what no worker here can show.

        Empty if they are not needed.
        """
        ...


class ReadRouter:
    """Passes reads on to workers."""

    def __init__(
        self,
        read_view: ReadView,
        settings: MasterSettings,
        body_budget: BodyBudget,
        *,
        read_proxy: ReadProxy,
        barrier: Barrier,
        default_consistency: Callable[[], Consistency],
    ) -> None:
        """`default_consistency` returns the consistency of a read that asks for none."""
        self._default_consistency: Final = default_consistency
        self._read_view, self._settings, self._body_budget = read_view, settings, body_budget
        self._read_proxy, self._barrier = read_proxy, barrier
        self._numbers = count(1)

    async def answer(self, request: Request) -> Response:
        """Answer a SPARQL query of any form that the protocol knows.  Its body is held until its answer begins."""
        with self._body_budget.lease() as grow:
            return await self._pass_on(request, "/sparql", await read_query(request, grow))

    async def statements(self, request: Request) -> Response:
        """Return all quads."""
        refuse_other_repository(request, self._settings.repository)
        return await self._pass_on(request, "/statements", b"")

    async def controls(self, request: Request) -> Response:
        """Return all controls, or the one that the path names."""
        name = request.path_params.get("name")
        path = "/controls" if name is None else f"/controls/{quote(name, safe='')}"
        return await self._pass_on(request, path, b"", query_string=b"")

    async def dry_run(self, request: Request, asked: UpdateRequest) -> Response:
        """Return what an update would do.

        This is a read like any other, of a state that shows what was acknowledged here.
        """
        given = [(name, value) for name in (GRAPH, NAMED) for value in asked.given.get(name, ())]
        query = urlencode(given).encode()
        return await self._pass_on(
            request, "/dry-run", asked.body, query_string=query, media_type=asked.media_type
        )

    async def _pass_on(
        self,
        request: Request,
        path: str,
        body: bytes,
        *,
        query_string: bytes | None = None,
        media_type: str | None = None,
    ) -> Response:
        """Pass a read to one worker after the other until one answers; after its first byte, to no other.

        Raises:
            Unavailable: no worker answered; lists the reason for each.
            OtherHistory: the read requires a state that is not part of the log.

        """
        question = ReadRequest(
            method=request.method if media_type is None else "POST",
            path=path,
            query_string=request.scope["query_string"] if query_string is None else query_string,
            headers=self._headers(request, media_type),
            body=body,
        )
        failures: dict[str, str] = {}
        asked = _wanted_by(request, self._default_consistency())
        self._refuse_other_history(asked)
        at_least = await self._needed(asked)
        elsewhere = self._read_view.elsewhere
        if elsewhere and VIA in request.headers:
            elsewhere = ()
        worker = self._best(failures, at_least)
        if worker is None and not elsewhere:
            worker = await self._awaited(at_least)
        self._refuse_other_history(asked)  # may be known only now
        while worker is not None:
            worker.asked_last = next(self._numbers)
            try:
                reply = await unless_left(request, self._read_proxy.ask(worker, question))
            except NoReadReply as failure:
                failures[worker.beat.worker] = str(failure)
                worker = self._best(failures, at_least)
            else:
                return _passed_back(request.method, reply)
        for url in elsewhere:
            try:
                reply = await unless_left(request, self._ask_elsewhere(url, question, at_least))
                return _passed_back(request.method, reply)
            except NoReadReply as failure:
                failures[url] = str(failure)
        raise Unavailable(self._why(failures, at_least), retry_after=2)

    def _headers(self, request: Request, media_type: str | None) -> list[tuple[bytes, bytes]]:
        """Return the client's headers that describe its read, and the client's address.

        `media_type` replaces the client's Content-Type unless None.
        """
        headers = [
            header
            for header in request.scope["headers"]
            if header[0] in PASSED_ON
            and header[1].isascii()
            and (media_type is None or header[0] != b"content-type")
        ]
        if media_type is not None:
            headers.append((b"content-type", media_type.encode()))
        client = request.scope.get("client")
        headers.append((CLIENT_NAME, client[0].encode() if client else b"unknown"))
        headers.append((VIA_NAME, self._settings.node_id.encode()))
        return headers

    async def _ask_elsewhere(self, url: str, question: ReadRequest, at_least: int) -> ReadReply:
        """Pass a read to another data centre's master, whose workers show what it requires."""
        path, query = question.path, question.query_string
        if path == "/statements":
            path = f"/repositories/{self._settings.repository}/statements"
        elif path == "/dry-run":
            path, query = "/update", b"&".join(filter(None, [b"dry-run=true", query]))
        headers = [
            *question.headers,
            (b"quadlog-consistency", Consistency.EVENTUAL.encode()),
            (b"quadlog-min-index", b"%d" % at_least),
        ]
        return await self._read_proxy.ask_master(
            url, question._replace(path=path, query_string=query, headers=headers)
        )

    async def _needed(self, asked: ReadRequirement) -> int:
        """Return the index that a worker must show.

        Raises:
            NoMajority: the read is strict, and the view holds no majority.
            Unavailable: the read is strict, and its barrier was not agreed in time, or no worker here showed the
                index in time.

        """
        match asked.consistency:
            case Consistency.EVENTUAL:
                index = 0
            case Consistency.SESSION:
                index = self._read_view.shown
            case Consistency.LOCAL:
                index = self._read_view.agreed
            case Consistency.STRICT:
                # A read that requires less than `session` would be wrong whatever the barrier says.
                index = max(await self._barrier.index(), self._read_view.shown)
        return max(index, asked.index)

    def _refuse_other_history(self, asked: ReadRequirement) -> None:
        """Refuse a read if the requested index has another chain here.

        Raises:
            OtherHistory: the chains differ.

        """
        chain = self._read_view.chain_at(asked.index) if asked.chain else None
        if chain is not None and not chain.hex().startswith(asked.chain):
            raise OtherHistory(
                f"index {asked.index} has the chain {chain.hex()[:16]} here, not {asked.chain}: what was read or"
                " written there is not part of this log; ask /tx/ what became of it"
            )

    def _best(self, failures: Container[str], at_least: int) -> Worker | None:
        found = self._read_view.worker_registry.for_read(now().steady, at_least)
        return next((worker for worker in found if worker.beat.worker not in failures), None)

    async def _awaited(self, at_least: int) -> Worker | None:
        """Wait for a worker that applies the index soon; return None if there is none after `WAIT_S`."""
        deadline = now().steady + WAIT_S * 1000
        # Heartbeats arrive on another thread.
        while (worker := self._best((), at_least)) is None and now().steady < deadline:  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)
        return worker

    def _why(self, failures: Mapping[str, str], at_least: int) -> str:
        """Return the reasons why no worker answered, one line for each."""
        worker_registry, moment = self._read_view.worker_registry, now().steady
        others = [f"{url} {failures[url]}" for url in self._read_view.elsewhere if url in failures]
        lines = [
            f"{(name := worker.beat.worker)} {failures.get(name) or worker_registry.why_not(worker, moment, at_least)}"
            for worker in worker_registry.all()
        ]
        return "\n".join(
            ["no worker of this data centre could answer:", *(lines or ["none was ever heard of"]), *others]
        )


def _passed_back(method: str, reply: ReadReply) -> Response:
    passed = [header for header in reply.headers if header[0] in PASSED_BACK]
    if reply.rest is None:
        # A worker may answer HEAD without a length: the answer to GET has a body, and HEAD does not report
        # its length.
        if not (method == "HEAD" or reply.status in NO_BODY or any(name == LENGTH for name, _ in passed)):
            passed.append((LENGTH, b"%d" % len(reply.first)))
        return CompleteResponse(reply.first, passed, reply.status)
    headers = {name.decode(): value.decode("latin-1") for name, value in passed}
    return StreamedResponse(reply.first, reply.rest, status_code=reply.status, headers=headers)


def _wanted_by(request: Request, default: Consistency) -> ReadRequirement:
    headers = dict(reversed(request.scope["headers"]))  # the first one of each name
    consistency, index = (
        None if value is None else value.decode("latin-1")
        for value in map(headers.get, (b"quadlog-consistency", b"quadlog-min-index"))
    )
    return wanted(consistency, index, default)


def refuse_other_repository(request: Request, repository: str) -> None:
    """Refuse a path that names another repository than the one served here.

    Raises:
        NoSuchRepository: the path names another one.

    """
    asked = request.path_params["repository"]
    if asked != repository:
        raise NoSuchRepository(f"there is no repository '{asked}' here, only '{repository}'")
