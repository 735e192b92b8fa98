"""Reads under way at a worker: their limits, how they are listed, how they are ended."""

from __future__ import annotations

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.responses import Response

from quadlog.answers import Streamed, unless_left
from quadlog.clock import now
from quadlog.errors import NoSuchQuery, QueryStopped, StoreDamaged, Unavailable, error_named
from quadlog.worker.reader import Died
from quadlog.worker.readers import STOPPING
from quadlog.worker.reading.frames import Kind
from quadlog.worker.reading.process import GATHERED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

    from quadlog.errors import QuadlogError
    from quadlog.worker.reader import Reader
    from quadlog.worker.readers import Readers
    from quadlog.worker.reading.frames import Question

log = structlog.get_logger()

LOOK_S: Final = 0.05
"""Between two looks at what reads take: memory grows by 80 MB meanwhile at most (an ORDER BY)."""

STALL_MS: Final = 60_000.0
"""A client that takes nothing for so long has left: it must not hold a process for ever."""

SHOWN: Final = 500
"""Characters of a query that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one read."""

    seconds: float
    """While the client waits; what the client takes its time for is not counted."""
    memory: int
    """Resident bytes of the process, beyond those that it had before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks."""

    client: str
    via: str | None
    """The master that passed it on."""
    agent: str | None


@dataclass(slots=True, kw_only=True, eq=False)
class Read:
    """One read under way."""

    id: str
    question: Question
    caller: Caller
    limits: Limits
    reader: Reader
    began: float
    wall: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    sent: int = 0
    worked: float = 0.0
    """Milliseconds that the client waited for the process."""
    since: float = 0.0
    """When the wait began that goes on: for the process or, after a piece, for the client."""
    is_awaited: bool = True
    """Whether it is the process that is waited for."""
    error: QueryStopped | None = None
    """Why it was ended."""


class Reads:
    """Starts, watches, lists and ends."""

    def __init__(self, readers: Readers, worker: str) -> None:
        """`worker` begins the ids: whoever has one knows where to ask."""
        self._readers, self._worker = readers, worker
        self._under_way: dict[str, Read] = {}
        self._run, self._numbers = secrets.token_hex(3), count(1)

    async def answer(self, request: Request, question: Question, caller: Caller, limits: Limits) -> Response:
        """The answer: whole if it is small, else piece by piece while it is written.

        An error before the first piece is raised here; after it, the transfer is broken off.

        Raises:
            Unavailable: too many reads are under way, or the worker stops.
            QueryStopped: a limit, or somebody, ended it.
            QuadlogError: what is wrong with the query.

        """
        reader = await self._readers.take(anew=question.text is None)
        moment = now()
        read = Read(
            id=f"{self._worker}-{self._run}-{next(self._numbers)}",
            question=question,
            caller=caller,
            limits=limits,
            reader=reader,
            began=moment.steady,
            since=moment.steady,
            wall=moment.wall,
        )
        self._under_way[read.id] = read
        reader.ask(question)
        pieces = self._pieces(read)
        try:
            first = await unless_left(request, anext(pieces, b""))
            if len(first) < GATHERED and await anext(pieces, None) is None:
                return Response(first, headers=read.headers)
        except BaseException:
            await pieces.aclose()
            self._drop(read)  # where it was ended before it began
            raise
        return Streamed(first, pieces, headers=read.headers)

    async def _pieces(self, read: Read) -> AsyncGenerator[bytes]:
        """What is said until the end.

        Raises:
            QuadlogError: what the process said instead, or why it was ended.

        """
        answered = False
        try:
            while True:
                kind, body = await read.reader.next()
                if kind is Kind.HEADERS:
                    read.headers = json.loads(body)
                elif kind is Kind.PIECE:
                    self._turn(read, is_awaited=False)
                    read.sent += len(body)
                    yield body
                    self._turn(read, is_awaited=True)
                else:
                    error = _error_of(body) if kind is Kind.ERROR else None
                    if isinstance(error, StoreDamaged):
                        self._readers.note_damage(read.reader, str(error))
                        raise Unavailable(f"{error}: ask another worker", retry_after=2)
                    answered = True
                    if error is not None:
                        raise error
                    return
        except Died:
            fate = await read.reader.fate()
            stops = Unavailable(STOPPING) if self._readers.is_ending else None
            raise read.error or stops or _died(fate) from None
        finally:
            if answered:
                self._under_way.pop(read.id, None)
                self._readers.put(read.reader)
            else:
                self._drop(read)

    def _drop(self, read: Read) -> None:
        """End its process, unless that has answered: then it may be another read's already."""
        if self._under_way.pop(read.id, None):
            self._readers.discard(read.reader)

    def _turn(self, read: Read, *, is_awaited: bool) -> None:
        moment = now().steady
        if read.is_awaited:
            read.worked += moment - read.since
        read.since, read.is_awaited = moment, is_awaited

    # --- the watch --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch what is under way until this is cancelled."""
        while True:
            for read in list(self._under_way.values()):
                if why := _excess(read):
                    is_at_work = read.is_awaited  # else its client is slow
                    self._stop(read, why)
                    if is_at_work:
                        self._readers.doubt()
            await asyncio.sleep(LOOK_S)

    def _stop(self, read: Read, why: str) -> None:
        """Its process ends; whoever waits for it is told why."""
        log.warning("query_stopped", id=read.id, reason=why, client=read.caller.client)
        read.error = QueryStopped(why)
        self._drop(read)

    def stop(self, read_id: str) -> None:
        """End a read.

        Raises:
            NoSuchQuery: none of this id is under way.

        """
        read = self._under_way.get(read_id)
        if read is None:
            raise NoSuchQuery(f"no query {read_id} is under way here: it ended, or the id is wrong")
        self._stop(read, "the query was deleted (DELETE /queries): ask who did it before you ask again")

    def listed(self) -> list[dict[str, Any]]:
        """All reads under way, the oldest first."""
        moment = now().steady
        return [
            {
                "id": read.id,
                "text": (read.question.text or "(all quads)")[:SHOWN],
                "since": read.wall,
                "seconds": round((moment - read.began) / 1000, 3),
                "worker": self._worker,
                "client": read.caller.client,
                "via": read.caller.via,
                "agent": read.caller.agent,
                "sent": read.sent,
                "memory": read.reader.memory(),
                "pid": read.reader.pid,
            }
            for read in self._under_way.values()
        ]


def _excess(read: Read) -> str | None:
    waited = now().steady - read.since
    worked = read.worked + waited * read.is_awaited
    if worked > read.limits.seconds * 1000:
        return f"the query ran for its time limit, {read.limits.seconds:g} s (query-timeout, or its parameter timeout)"
    memory = read.reader.memory() - read.reader.resident
    if memory > read.limits.memory:
        return f"the query took {memory} bytes of memory; query-memory allows {read.limits.memory}"
    if not read.is_awaited and waited > STALL_MS:
        return f"its client took nothing for {STALL_MS / 1000:g} s"
    return None


def _died(fate: int | None) -> QueryStopped | Unavailable:
    """What it means that a process ended which nobody here ended.

    A signal came because of the query: no more memory, or a fault of the machine's code.  An exit status means
    that the process failed by itself, at its copy for instance, and another worker may answer.
    """
    if fate is not None and fate < 0:
        return QueryStopped(
            f"the query killed the process that ran it (signal {-fate}): it may need more memory than there is"
        )
    how = "stopped answering" if fate is None else f"ended with status {fate}"
    return Unavailable(f"the process that read {how}, see this worker's log: ask another one", retry_after=2)


def _error_of(body: bytes) -> QuadlogError:
    said = json.loads(body)
    return error_named(said["error"])(said["message"], retry_after=said["retry_after"])
