"""Reads in progress at a worker: their limits, their list, and how they are ended."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final

import structlog

from quadlog.clock import now
from quadlog.errors import ClientLeft, NoSuchQuery, QueryStopped
from quadlog.web.answers import CompleteResponse, StreamedResponse
from quadlog.worker.reads.call import ReadCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.errors import QuadlogError
    from quadlog.worker.reads.frames import QueryRequest
    from quadlog.worker.reads.scheduler import Scheduler

log = structlog.get_logger()

LOOK_S: Final = 0.05
"""Seconds between two checks of what reads use: meanwhile memory grows by 80 MB at most (an ORDER BY)."""

STALL_MS: Final = 60_000.0
"""Milliseconds after which a client that accepts nothing counts as gone: it must not hold a process forever."""

SHOWN: Final = 500
"""Maximum characters of a query in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """Limits of one read."""

    seconds: float
    """Seconds for which the client waits for the process; delays by the client are not counted."""
    memory: int
    """Resident bytes of the process, in addition to those that it had before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The origin of a read."""

    client: str
    via: str | None
    """The master that passed the read on."""
    agent: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Read:
    """One read in progress."""

    id: str
    call: ReadCall
    request: Request
    caller: Caller
    limits: ReadLimits
    wall: int
    """Time of the request, in milliseconds since 1970."""
    sent: int = 0
    worked: float = 0.0
    """Milliseconds for which the client waited for the process."""
    turned: float = 0.0
    """Start of the present wait: for the client after a piece, then for the process; 0 until the first piece."""
    is_awaited: bool = True
    """True if the present wait is for the process, False if it is for the client."""
    leaving: asyncio.Task[None] | None = None
    """Task that waits until the client disconnects."""

    @property
    def since(self) -> float:
        """Start of the present wait; infinite if the process has not begun the read."""
        return self.turned or self.call.began


class Reads:
    """Starts, watches, lists and ends reads."""

    def __init__(self, scheduler: Scheduler, worker: str) -> None:
        """`worker` is the prefix of the ids of reads, which shows where to ask for them."""
        self._scheduler, self._worker = scheduler, worker
        self._under_way: dict[str, Read] = {}
        self._run, self._numbers = secrets.token_hex(3), count(1)

    async def answer(
        self, request: Request, question: QueryRequest, caller: Caller, limits: ReadLimits
    ) -> Response:
        """Return the answer: whole if it is small, otherwise piece by piece while it is written.

        An error before the first piece is raised here; a later one breaks the transfer off.

        Raises:
            Unavailable: too many reads are in progress, or the worker stops.
            QueryStopped: a limit, or an operator, ended the read.
            ClientLeft: the client has disconnected.
            QuadlogError: the query has another error.

        """
        moment = now()
        call = ReadCall(question, moment.steady)
        name = f"{self._worker}-{self._run}-{next(self._numbers)}"
        read = Read(id=name, call=call, request=request, caller=caller, limits=limits, wall=moment.wall)
        self._under_way[name] = read
        try:
            self._scheduler.ask(call)
            whole = await call.whole()
        except BaseException:
            self._drop(read)
            raise
        finally:
            if read.leaving is not None:
                read.leaving.cancel()
        if whole is not None:
            self._drop(read)
            return CompleteResponse(whole, [*call.headers, (b"content-length", b"%d" % len(whole))])
        pieces = self._pieces(read)
        first = await anext(pieces)
        headers = {name.decode(): value.decode() for name, value in call.headers}
        return StreamedResponse(first, pieces, headers=headers)

    async def _pieces(self, read: Read) -> AsyncGenerator[bytes]:
        """Yield the pieces of the answer.

        Raises:
            QuadlogError: the error that the process sent instead of the rest, or the reason why the read was ended.

        """
        try:
            while True:
                self._turn(read, is_awaited=True)
                piece = await read.call.next()
                if not piece:
                    return
                read.sent += len(piece)
                self._turn(read, is_awaited=False)
                yield piece
        finally:
            self._drop(read)

    def _drop(self, read: Read) -> None:
        """Remove a read, and end the work on it if there is any."""
        if self._under_way.pop(read.id, None) and not read.call.is_ended:
            self._scheduler.give_up(read.call)

    def _turn(self, read: Read, *, is_awaited: bool) -> None:
        moment = now().steady
        if read.is_awaited:
            read.worked += moment - read.since
        read.turned, read.is_awaited = moment, is_awaited

    # --- the watch --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch the reads in progress until this is cancelled."""
        while True:
            moment = now().steady
            for read in list(self._under_way.values()):
                self._look_at(read, moment)
            self._scheduler.check()
            await asyncio.sleep(LOOK_S)

    def _look_at(self, read: Read, moment: float) -> None:
        if why := _excess(read, moment):
            is_at_work = read.is_awaited  # otherwise its client is slow
            self._stop(read, why)
            if is_at_work:
                self._scheduler.doubt()
        elif read.leaving is None and not read.turned and moment - read.call.asked_at > LOOK_S * 1000:
            read.leaving = asyncio.create_task(self._end_when_left(read))

    async def _end_when_left(self, read: Read) -> None:
        """End a read when its client disconnects.

        Used only for answers that take more than `LOOK_S`: a task for each question would cost more than the question.
        """
        while (await read.request.receive())["type"] != "http.disconnect":
            pass
        self._end(read, ClientLeft("the client left before its answer began"))

    def _stop(self, read: Read, why: str) -> None:
        """End a read and the work on it; its client receives the reason."""
        log.warning("query_stopped", id=read.id, reason=why, client=read.caller.client)
        self._end(read, QueryStopped(why))

    def _end(self, read: Read, error: QuadlogError) -> None:
        self._drop(read)
        read.call.fail(error)

    def stop(self, read_id: str) -> None:
        """End a read.

        Raises:
            NoSuchQuery: no read with this id is in progress.

        """
        read = self._under_way.get(read_id)
        if read is None:
            raise NoSuchQuery(f"no query {read_id} is under way here: it ended, or the id is wrong")
        self._stop(read, "the query was deleted (DELETE /queries): ask who did it before you ask again")

    def listed(self) -> list[dict[str, Any]]:
        """Return all reads that a process works on or has in its pipe, the oldest first."""
        moment = now().steady
        return [
            {
                "id": read.id,
                "text": (read.call.question.text or "(all quads)")[:SHOWN],
                "since": read.wall,
                "seconds": round((moment - read.call.asked_at) / 1000, 3),
                "worker": self._worker,
                "client": read.caller.client,
                "via": read.caller.via,
                "agent": read.caller.agent,
                "sent": read.sent,
                "memory": reader.memory(),
                "pid": reader.pid,
            }
            for read in self._under_way.values()
            if (reader := read.call.reader) is not None
        ]


def _excess(read: Read, moment: float) -> str | None:
    waited = moment - read.since
    worked = read.worked + waited * read.is_awaited
    if worked > read.limits.seconds * 1000:
        return f"the query ran for its time limit, {read.limits.seconds:g} s (query-timeout, or its parameter timeout)"
    if not read.is_awaited and waited > STALL_MS:
        return f"its client took nothing for {STALL_MS / 1000:g} s"
    if (reader := read.call.reader) is not None and read.call.began < inf:
        memory = reader.memory() - reader.resident
        if memory > read.limits.memory:
            return f"the query took {memory} bytes of memory; query-memory allows {read.limits.memory}"
    return None
