"""One read at one worker, or at another master: asked, watched while it says nothing, relayed."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx

from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.web.answers import FINAL
from quadlog.web.fail_scope import FailScope
from quadlog.web.http_client import new_client
from quadlog.web.http_pool import ConnectionPool, Message, Seconds, origin_of

if TYPE_CHECKING:
    from quadlog.master.workers.crew import Crew, Worker
    from quadlog.web.http_response import Response

CONNECT_S: Final = 2.0
"""A worker is in this data centre: one that does not take a connection by then does not serve."""

SECONDS: Final = Seconds(connect=CONNECT_S)
"""No time limit on reading: a query runs as long as its client waits and its worker lives."""

PROOF_S: Final = 0.5
"""How long a worker whose heartbeats stay away has to show at its door that it lives."""

TRY_ANOTHER: Final = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""What another worker may answer better.  501 it would not."""

WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})

_FINAL: Final = FINAL.lower().encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A read as it is passed on."""

    method: str
    path: str
    query_string: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def message(self, host: bytes, prefix: bytes) -> Message:
        """The request to a server with this name whose paths begin with `prefix`."""
        target = prefix + self.path.encode()
        if self.query_string:
            target += b"?" + self.query_string
        headers = [(b"Host", host), *self.headers]
        if self.body or self.method not in WITHOUT_BODY:
            headers.append((b"Content-Length", b"%d" % len(self.body)))
        return Message(self.method.encode(), target, headers, self.body, is_repeatable=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a worker began to answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Names in lower case."""
    first: bytes
    rest: Relay | None
    """None: `first` is all."""


class NoReply(Exception):
    """This worker did not answer, and not a byte went to the client."""


class Passage:
    """The way from a master to its workers' doors."""

    def __init__(self, crew: Crew) -> None:
        """`crew` knows who is silent."""
        self._crew = crew
        self._pool = ConnectionPool()
        self._client = new_client(CONNECT_S)

    async def ask(self, worker: Worker, question: Question) -> Reply:
        """Ask one worker; returns with its first bytes.

        Raises:
            NoReply: it answered nothing that could be passed on, and why.

        """
        return await self._ask(worker.beat.url, question, _AskedWorker(self, self._crew, worker))

    async def ask_master(self, url: str, question: Question) -> Reply:
        """Ask a master of another data centre, which watches over its own workers.

        Raises:
            NoReply: it answered nothing that could be passed on, and why.

        """
        return await self._ask(url, question, _Asked(url))

    async def _ask(self, url: str, question: Question, asked: _Asked) -> Reply:
        relay = Relay(asked)
        try:
            origin, host, prefix = origin_of(url)
            with asked.scope:
                response = await self._pool.request(origin, question.message(host, prefix), SECONDS)
                relay.response = response
                await _raise_if_refused(response)
            with asked.scope:
                first = await response.piece()
        except httpx.HTTPError as error:
            await relay.aclose()
            raise asked.failed(error) from error
        except BaseException:
            await relay.aclose()
            raise
        if response.is_whole:
            await relay.aclose()
        rest = None if response.is_whole else relay
        return Reply(status=response.status, headers=response.headers, first=first, rest=rest)

    async def call(self, worker: Worker, method: str, path: str) -> httpx.Response:
        """A short question about reads.

        Raises:
            httpx.HTTPError: no answer.

        """
        return await self._client.request(method, worker.beat.url + path)

    async def lives(self, worker: Worker) -> bool:
        """Whether a worker answers at its door."""
        with suppress(httpx.HTTPError):
            answer = await self._client.get(f"{worker.beat.url}/status", timeout=PROOF_S)
            return answer.is_success
        return False


class _Asked:
    """Whom a read was passed to: a master of another data centre, which is not watched from here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scope = FailScope()
        """Where the read waits for it."""

    def failed(self, error: httpx.HTTPError) -> NoReply:
        """Why there is no answer."""
        return NoReply(f"failed: {type(error).__name__} {error}".strip())

    def end(self) -> None:
        """The read is over."""


class _AskedWorker(_Asked):
    """A worker of this data centre: ends the wait for it when it falls silent and does not prove that it lives."""

    def __init__(self, passage: Passage, crew: Crew, worker: Worker) -> None:
        super().__init__(worker.beat.worker)
        self._passage, self._crew, self._worker = passage, crew, worker
        self._proving: asyncio.Task[None] | None = None
        worker.reading += 1
        self._loop = asyncio.get_running_loop()
        self._timer = self._look_in(self._silent_in_s())

    def failed(self, error: httpx.HTTPError) -> NoReply:
        self._worker.failed_at = now().steady
        return super().failed(error)

    def end(self) -> None:
        self._worker.reading -= 1
        self._timer.cancel()
        if self._proving is not None:
            self._proving.cancel()

    def _look_in(self, seconds: float) -> asyncio.TimerHandle:
        return self._loop.call_later(max(seconds, PROOF_S), self._look)

    def _look(self) -> None:
        silent_in_s = self._silent_in_s()
        if silent_in_s > 0 or not self.scope.is_entered:
            self._timer = self._look_in(silent_in_s)
        else:
            self._proving = asyncio.ensure_future(self._prove())

    async def _prove(self) -> None:
        # Its heartbeats come through Kafka: when that is away, workers still are there.
        wait = self.scope.entered
        lives = await self._passage.lives(self._worker)
        if lives or not self.scope.is_entered or self.scope.entered != wait:  # something came meanwhile
            self._timer = self._look_in(PROOF_S)
        else:
            self._worker.failed_at = now().steady
            self.scope.fail(NoReply(self._crew.why_not(self._worker, now().steady, 0)))

    def _silent_in_s(self) -> float:
        return self._crew.silent_in(self._worker, now().steady) / 1000


class Relay:
    """The rest of an answer, piece by piece; an iterator that may be closed before it was begun."""

    def __init__(self, asked: _Asked) -> None:
        """`asked` answers."""
        self._asked: _Asked | None = asked
        self.response: Response | None = None

    def __aiter__(self) -> Relay:
        """Itself."""
        return self

    async def __anext__(self) -> bytes:
        """The next piece.

        Raises:
            Unavailable: whoever was asked failed in the middle of the answer.

        """
        asked, response = self._asked, self.response
        if asked is None or response is None:
            raise StopAsyncIteration
        try:
            with asked.scope:
                piece = await response.piece()
        except (httpx.HTTPError, NoReply) as error:
            failure = error if isinstance(error, NoReply) else asked.failed(error)
            message = f"in the middle of an answer {asked.name} {failure}"
            raise Unavailable(message) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """End the read."""
        asked, self._asked = self._asked, None
        if asked is not None:
            asked.end()
        if self.response is not None:
            self.response.close()


async def _raise_if_refused(response: Response) -> None:
    """Raises NoReply with the reason, where another one may answer better."""
    if response.status not in TRY_ANOTHER or any(name == _FINAL for name, _ in response.headers):
        return
    body = b"".join([piece async for piece in response.pieces()])
    text = body.decode(errors="replace").strip()
    with suppress(ValueError, KeyError, TypeError):
        text = json.loads(body)["message"]
    raise NoReply(f"answered {response.status}: {text}")
