"""One read at one worker: asked, watched while it says nothing, relayed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

import httpx

from quadlog.answers import FINAL
from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine

    from quadlog.master.crew import Crew, Worker

T = TypeVar("T")

CONNECT_S: Final = 2.0
"""A worker is in this data centre: one that does not take a connection by then does not serve."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A read as it is passed on."""

    method: str
    path: str
    query_string: bytes
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a worker began to answer."""

    status: int
    headers: httpx.Headers
    first: bytes
    rest: AsyncGenerator[bytes]


class NoReply(Exception):
    """This worker did not answer, and not a byte went to the client."""


class Passage:
    """The way from a master to its workers' doors."""

    def __init__(self, crew: Crew) -> None:
        """`crew` knows who is silent."""
        self._crew = crew
        # No time limit on reading: a query runs as long as its client waits and its worker lives.
        self._client = new_client(httpx.Timeout(None, connect=CONNECT_S))

    async def ask(self, worker: Worker, question: Question) -> Reply:
        """Ask one worker; returns with its first bytes.

        Raises:
            NoReply: it answered nothing that could be passed on, and why.

        """
        worker.reading += 1
        try:
            answer = await self._sent(worker, question)
        except BaseException:
            worker.reading -= 1
            raise
        pieces = self._relayed(worker, answer)  # counts down, however it ends
        first = await anext(pieces, b"")
        return Reply(status=answer.status_code, headers=answer.headers, first=first, rest=pieces)

    async def ask_master(self, url: str, question: Question) -> Reply:
        """Ask a master of another data centre, which watches over its own workers.

        Raises:
            NoReply: it answered nothing that could be passed on, and why.

        """
        address = httpx.URL(url + question.path, query=question.query_string)
        request = self._client.build_request(
            question.method, address, headers=question.headers, content=question.body or None
        )
        try:
            answer = await self._client.send(request, stream=True)
            if answer.status_code in TRY_ANOTHER and FINAL not in answer.headers:
                await _refused(answer)
        except httpx.HTTPError as error:
            raise NoReply(f"failed: {type(error).__name__} {error}".strip()) from error
        pieces = _pieces(answer)
        return Reply(
            status=answer.status_code, headers=answer.headers, first=await anext(pieces, b""), rest=pieces
        )

    async def call(self, worker: Worker, method: str, path: str) -> httpx.Response:
        """A short question about reads.

        Raises:
            httpx.HTTPError: no answer.

        """
        return await self._client.request(method, worker.beat.url + path, timeout=CONNECT_S)

    async def _sent(self, worker: Worker, question: Question) -> httpx.Response:
        url = httpx.URL(worker.beat.url + question.path, query=question.query_string)
        request = self._client.build_request(
            question.method, url, headers=question.headers, content=question.body or None
        )
        try:
            return await self._unless_hung(worker, self._client.send(request, stream=True))
        except httpx.HTTPError as error:
            raise self._failed(worker, error) from error

    async def _relayed(self, worker: Worker, answer: httpx.Response) -> AsyncGenerator[bytes]:
        chunks, begun = answer.aiter_raw(), False
        try:
            if answer.status_code in TRY_ANOTHER and FINAL not in answer.headers:
                await self._unless_hung(worker, _refused(answer))
            while piece := await self._unless_hung(worker, _next(chunks)):
                begun = True
                yield piece
        except (httpx.HTTPError, NoReply) as error:
            failure = error if isinstance(error, NoReply) else self._failed(worker, error)
            if not begun:
                raise failure from error
            message = f"in the middle of an answer {worker.beat.worker} {failure}"
            raise Unavailable(message) from error
        finally:
            worker.reading -= 1
            await answer.aclose()

    def _failed(self, worker: Worker, error: httpx.HTTPError) -> NoReply:
        worker.failed_at = now().steady
        return NoReply(f"failed: {type(error).__name__} {error}".strip())

    async def _unless_hung(self, worker: Worker, work: Coroutine[None, None, T]) -> T:
        """What `work` returns, unless its worker falls silent meanwhile and does not prove that it lives.

        Raises:
            NoReply: it did.

        """
        task = asyncio.ensure_future(work)
        try:
            wait_s = self._crew.silent_in(worker, now().steady) / 1000
            while not (await asyncio.wait({task}, timeout=max(wait_s, PROOF_S)))[0]:
                wait_s = self._crew.silent_in(worker, now().steady) / 1000
                # Its heartbeats come through Kafka: when that is away, workers still are there.
                if wait_s <= 0 and not await self._lives(worker) and not task.done():
                    worker.failed_at = now().steady
                    raise NoReply(self._crew.why_not(worker, now().steady, 0))
            return task.result()
        finally:
            task.cancel()

    async def _lives(self, worker: Worker) -> bool:
        with suppress(httpx.HTTPError):
            answer = await self._client.get(f"{worker.beat.url}/status", timeout=PROOF_S)
            return answer.is_success
        return False


async def _pieces(answer: httpx.Response) -> AsyncGenerator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        message = f"in the middle of an answer {answer.url.host} failed: {type(error).__name__} {error}"
        raise Unavailable(message) from error
    finally:
        await answer.aclose()


async def _next(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


async def _refused(answer: httpx.Response) -> None:
    text = (await answer.aread()).decode(errors="replace").strip()
    with suppress(ValueError, KeyError, TypeError):
        text = answer.json()["message"]
    raise NoReply(f"answered {answer.status_code}: {text}")
