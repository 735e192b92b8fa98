"""Passing one read to a worker or to another master: sending it, detecting silence, relaying the answer."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx

from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.web import local_socket
from quadlog.web.answers import FINAL
from quadlog.web.fail_scope import FailScope
from quadlog.web.http_client import new_client
from quadlog.web.http_pool import ConnectionPool, Message, Seconds, origin_of

if TYPE_CHECKING:
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry
    from quadlog.web.http_response import HttpResponse

CONNECT_S: Final = 2.0
"""Seconds within which a worker must accept a connection.

Workers are in this data centre: one that does not accept it by then does not serve.
"""

SECONDS: Final = Seconds(connect=CONNECT_S)
"""Without a limit on reading: a query runs as long as its client waits and its worker lives."""

PROOF_S: Final = 0.5
"""Seconds within which a worker whose heartbeats are missing must answer a request to prove that it lives."""

TRY_ANOTHER: Final = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses after which another worker is asked, because it may succeed.  With 501 it would not."""

WITHOUT_BODY: Final = frozenset({"GET", "HEAD"})

_FINAL: Final = FINAL.lower().encode()


class ReadRequest(NamedTuple):
    """A read as it is passed on."""

    method: str
    path: str
    query_string: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def message(self, host: bytes, prefix: bytes) -> Message:
        """Return the request to the server `host` whose paths begin with `prefix`."""
        target = prefix + self.path.encode()
        if self.query_string:
            target += b"?" + self.query_string
        headers = [(b"Host", host), *self.headers]
        if self.body or self.method not in WITHOUT_BODY:
            headers.append((b"Content-Length", b"%d" % len(self.body)))
        return Message(self.method.encode(), target, headers, self.body, is_repeatable=True)


class ReadReply(NamedTuple):
    """The beginning of an answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Headers with names in lower case."""
    first: bytes
    rest: AnswerRelay | None
    """Rest of the body; None if `first` is all of it."""


class NoReadReply(Exception):
    """A worker or master did not answer, and no byte was sent to the client."""


class ReadProxy:
    """Connections from a master to its workers, and to masters of other data centres."""

    def __init__(self, worker_registry: WorkerRegistry) -> None:
        self._worker_registry = worker_registry
        self._pool = ConnectionPool(local_socket.connected)
        self._client = new_client(CONNECT_S)

    async def ask(self, worker: Worker, question: ReadRequest) -> ReadReply:
        """Pass a read to a worker, and return once the first bytes of the answer are here.

        Raises:
            NoReadReply: the worker gave no answer that can be passed on; contains the reason.

        """
        return await self._ask(worker.beat.url, question, _WatchedRead(self, self._worker_registry, worker))

    async def ask_master(self, url: str, question: ReadRequest) -> ReadReply:
        """Pass a read to a master of another data centre, which watches its own workers.

        Raises:
            NoReadReply: the master gave no answer that can be passed on; contains the reason.

        """
        return await self._ask(url, question, _ProxiedRead(url))

    async def _ask(self, url: str, question: ReadRequest, asked: _ProxiedRead) -> ReadReply:
        relay = AnswerRelay(asked)
        try:
            origin, host, prefix = origin_of(url)
            with asked.scope:
                response = await self._pool.request(origin, question.message(host, prefix), SECONDS)
                relay.response = response
                if response.status in TRY_ANOTHER:
                    await _raise_if_refused(response)
            if response.is_waited_for:
                with asked.scope:
                    first = await response.piece()
            else:
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
        return ReadReply(status=response.status, headers=response.headers, first=first, rest=rest)

    async def call(self, worker: Worker, method: str, path: str) -> httpx.Response:
        """Send a short request about reads to a worker.

        Raises:
            httpx.HTTPError: the worker did not answer.

        """
        return await self._client.request(method, worker.beat.url + path)

    async def lives(self, worker: Worker) -> bool:
        """Return whether a worker answers requests."""
        with suppress(httpx.HTTPError):
            answer = await self._client.get(f"{worker.beat.url}/status", timeout=PROOF_S)
            return answer.is_success
        return False


class _ProxiedRead:
    """Target of a read: a master of another data centre, which is not watched from here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scope = FailScope()
        """Scope in which the read waits for the target."""

    def failed(self, error: httpx.HTTPError) -> NoReadReply:
        """Return the reason why there is no answer."""
        return NoReadReply(f"failed: {type(error).__name__} {error}".strip())

    def end(self) -> None:
        """Note that the read is over."""


class _WatchedRead(_ProxiedRead):
    """Target of a read: a worker of this data centre.

    Ends the wait for the worker if it falls silent and does not prove that it lives.
    """

    def __init__(self, read_proxy: ReadProxy, worker_registry: WorkerRegistry, worker: Worker) -> None:
        super().__init__(worker.beat.worker)
        self._read_proxy, self._worker_registry, self._worker = read_proxy, worker_registry, worker
        self._proving: asyncio.Task[None] | None = None
        worker.reading += 1
        self._loop = asyncio.get_running_loop()
        self._timer = self._look_in(self._silent_in_s())

    def failed(self, error: httpx.HTTPError) -> NoReadReply:
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
        # Heartbeats arrive through Kafka: if Kafka is down, the workers may still be up.
        wait = self.scope.entered
        lives = await self._read_proxy.lives(self._worker)
        if lives or not self.scope.is_entered or self.scope.entered != wait:  # data arrived meanwhile
            self._timer = self._look_in(PROOF_S)
        else:
            self._worker.failed_at = now().steady
            self.scope.fail(NoReadReply(self._worker_registry.why_not(self._worker, now().steady, 0)))

    def _silent_in_s(self) -> float:
        return self._worker_registry.silent_in(self._worker, now().steady) / 1000


class AnswerRelay:
    """The rest of an answer, piece by piece; an iterator that may be closed before its first piece."""

    def __init__(self, asked: _ProxiedRead) -> None:
        """`asked`: the target that answers."""
        self._asked: _ProxiedRead | None = asked
        self.response: HttpResponse | None = None

    def __aiter__(self) -> AnswerRelay:
        """Return this iterator."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece.

        Raises:
            Unavailable: the target failed in the middle of the answer.

        """
        asked, response = self._asked, self.response
        if asked is None or response is None:
            raise StopAsyncIteration
        try:
            with asked.scope:
                piece = await response.piece()
        except (httpx.HTTPError, NoReadReply) as error:
            failure = error if isinstance(error, NoReadReply) else asked.failed(error)
            raise Unavailable(f"in the middle of an answer {asked.name} {failure}") from error
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


async def _raise_if_refused(response: HttpResponse) -> None:
    """Raise NoReadReply, with the reason, if the target refused the read and another one may succeed."""
    if any(name == _FINAL for name, _ in response.headers):
        return
    body = b"".join([piece async for piece in response.pieces()])
    text = body.decode(errors="replace").strip()
    with suppress(ValueError, KeyError, TypeError):
        text = json.loads(body)["message"]
    raise NoReadReply(f"answered {response.status}: {text}")
