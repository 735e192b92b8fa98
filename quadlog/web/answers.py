"""HTTP answers, the same at all servers: errors, complete bodies and streamed bodies."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.errors import ClientLeft, OutcomeUnknown, QuadlogError, Unavailable
from quadlog.web.fail_scope import FailScope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

log = structlog.get_logger()

T = TypeVar("T")

CLIENT: Final = "Quadlog-Client"
VIA: Final = "Quadlog-Via"
"""Headers that a master sends to a worker: the client whose read it passes on, and the master's own id."""

CUT: Final = b"\n<this-answer-is-incomplete\n"
"""Last bytes of an answer that failed: a syntax error at any position for every parser.  They begin an XML tag or an
IRI, and end neither; without them a parser may accept statements up to the end of a line or element as a document.  The
line is complete: a parser that reads by lines may take the failure after it for the end (RDF4J's, of CSV and TSV)."""

CUT_OF_TABLE: Final = b"this answer is incomplete" + b" " * 32 * 1024 + b"\n"
"""The same for CSV and TSV, after an unterminated quote: CSV has no other syntax error, and in TSV RDF4J accepts an
unterminated tag.  It is long because Java's HTTP client, on a failure of the connection, discards what it read last (at
most 16 KiB): the client must have read the beginning before that."""

FAILED: Final = "quadlog.failed"
"""Key in a request's scope of the error for which its answer was broken off."""

FINAL: Final = "Quadlog-Final"
"""Header of an error that any other worker would answer with, too."""

RETRY_AFTER: Final = 5
"""Seconds after which the same request may succeed, unless the error has its own value."""

WATCHED_AFTER_S: Final = 0.1
"""Seconds after which the server begins to watch a request for the end of its connection."""


def error_response(error: QuadlogError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for an error: what happened, and whether it is definite."""
    seconds = error.retry_after
    if seconds is None and isinstance(error, Unavailable):
        seconds = RETRY_AFTER
    retry = {} if seconds is None else {"Retry-After": str(seconds)}
    body = {"error": type(error).__name__, "message": str(error), "definite": error.definite}
    final = {FINAL: "true"} if error.final else {}
    ask = {"Location": error.ask} if isinstance(error, OutcomeUnknown) and error.ask else {}
    return JSONResponse(body, error.status, {**retry, **final, **(headers or {}), **ask})


async def handle_error(request: Request, error: Exception) -> Response:
    """Answer a `QuadlogError`, as an exception handler of Starlette; raise any other error again."""
    del request
    if not isinstance(error, QuadlogError):
        raise error
    return error_response(error)


class CompleteResponse(Response):
    """A complete answer with all its headers; Starlette's own class checks for missing headers."""

    def __init__(self, body: bytes, headers: list[tuple[bytes, bytes]], status: int = 200) -> None:
        """Names in `headers` must be in lower case."""
        self.body, self.raw_headers, self.status_code, self.background = body, headers, status, None


class BodyPieces(Protocol):
    """The rest of a body: an asynchronous generator, or an object that can be used like one."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the pieces."""
        ...

    def aclose(self) -> Coroutine[Any, Any, None]:
        """Stop: no more pieces are needed."""
        ...


class StreamedResponse(StreamingResponse):
    """An answer whose body is sent while it is produced.

    An error after the first byte breaks the transfer off: the end that HTTP requires is never sent, and the document
    is not terminated, so that no client takes a part for the whole.
    """

    def __init__(
        self,
        first: bytes,
        rest: BodyPieces,
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`first` was taken from `rest`, which is closed at the end, in any case."""
        super().__init__(self._joined(first, rest), status_code, headers)
        self._rest = rest
        self._scope: Scope = {}
        self._quotes = 0
        """Number of quotes sent so far, if the body is CSV: if odd, the last one is open."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, or as much as the client accepts."""
        self._scope = scope
        try:
            with suppress(ClientLeft):
                await _unless_left(receive, self.stream_response(send))
        finally:
            await self._rest.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send the whole answer or, after an error, a part of it without its end."""
        try:
            await super().stream_response(send)
        except QuadlogError as error:
            log.warning("answer_broken_off", reason=str(error))
            self._scope[FAILED] = error
            if "content-length" not in self.headers:
                await send({"type": "http.response.body", "body": self._cut(), "more_body": True})

    def _cut(self) -> bytes:
        """Return the last bytes of an answer that failed."""
        if not self._is("text/csv", "text/tab-separated-values"):
            return CUT
        return (b"\n" if self._quotes % 2 else b'\n"') + CUT_OF_TABLE

    def _is(self, *media_types: str) -> bool:
        return self.headers.get("content-type", "").partition(";")[0] in media_types

    async def _joined(self, first: bytes, rest: BodyPieces) -> AsyncGenerator[bytes]:
        is_csv = self._is("text/csv")
        if is_csv:
            self._quotes = first.count(b'"')
        yield first
        async for piece in rest:
            if is_csv:
                self._quotes += piece.count(b'"')
            yield piece


async def unless_left(request: Request, work: Awaitable[T]) -> T:
    """Return the result of `work`; cancel `work` if the client disconnects before.

    Raises:
        ClientLeft: the client has disconnected.

    """
    return await _unless_left(request.receive, work)


async def _unless_left(receive: Receive, work: Awaitable[T]) -> T:
    scope = FailScope()
    watch = _DisconnectWatch(receive, scope)
    try:
        with scope:
            return await work
    finally:
        watch.end()


class _DisconnectWatch:
    """Ends a scope when the client disconnects.

    It costs a task, which is created after `WATCHED_AFTER_S`: shorter requests do without.
    """

    def __init__(self, receive: Receive, scope: FailScope) -> None:
        self._receive, self._scope = receive, scope
        self._timer = asyncio.get_running_loop().call_later(WATCHED_AFTER_S, self._begin)
        self._task: asyncio.Task[None] | None = None

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._scope.fail(ClientLeft("the client left before its answer was complete"))

    def end(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
