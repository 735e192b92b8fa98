"""Errors as HTTP answers, the same at every door."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import structlog
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.errors import OutcomeUnknown, QuadlogError, Unavailable
from quadlog.web.fail_scope import FailScope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

log = structlog.get_logger()

T = TypeVar("T")

CLIENT: Final = "Quadlog-Client"
VIA: Final = "Quadlog-Via"
"""What a master tells a worker: whose read it passes on, and its own id."""

CUT: Final = b"\n<this-answer-is-incomplete\n"
"""What ends an answer that failed: an error to every parser, wherever it stands.  It begins a tag of XML or an IRI, and
ends neither; without it a parser may take statements up to the end of a line, or of an element, for a document.  The
line is complete: a parser that reads by lines may take the failure behind it for the end (RDF4J's, of CSV and TSV)."""

CUT_OF_TABLE: Final = b"this answer is incomplete" + b" " * 32 * 1024 + b"\n"
"""The same for CSV and TSV, behind a quote that nothing ends: all that CSV has for an error, and of TSV RDF4J takes a
tag without an end.  It is long since Java's HTTP client, told of the failure, forgets what it read last (16 KiB at
most): it must have read the beginning before that."""

FAILED: Final = "quadlog.failed"
"""In a request's scope: why its answer was broken off."""

FINAL: Final = "Quadlog-Final"
"""Of an error that another worker would answer with, too."""

RETRY_AFTER: Final = 5
"""Seconds after which the same request may succeed, where the error does not say it better."""

WATCHED_AFTER_S: Final = 0.01
"""When a request begins to be watched for the end of its connection."""


def error_response(error: QuadlogError, headers: Mapping[str, str] | None = None) -> Response:
    """An error of the tree: what happened, and whether it is definite."""
    seconds = error.retry_after
    if seconds is None and isinstance(error, Unavailable):
        seconds = RETRY_AFTER
    retry = {} if seconds is None else {"Retry-After": str(seconds)}
    body = {"error": type(error).__name__, "message": str(error), "definite": error.definite}
    final = {FINAL: "true"} if error.final else {}
    ask = {"Location": error.ask} if isinstance(error, OutcomeUnknown) and error.ask else {}
    return JSONResponse(body, error.status, {**retry, **final, **(headers or {}), **ask})


async def handle_error(request: Request, error: Exception) -> Response:
    """Starlette's exception handler for the tree."""
    del request
    if not isinstance(error, QuadlogError):
        raise error
    return error_response(error)


class Whole(Response):
    """An answer that is there, with all its headers; Starlette's own looks for what they lack."""

    def __init__(self, body: bytes, headers: list[tuple[bytes, bytes]], status: int = 200) -> None:
        """`headers` with names in lower case."""
        self.body, self.raw_headers, self.status_code, self.background = body, headers, status, None


class Pieces(Protocol):
    """The rest of a body: an asynchronous generator, or what can be used like one."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """The pieces."""
        ...

    def aclose(self) -> Coroutine[Any, Any, None]:
        """No more of them are asked for."""
        ...


class Streamed(StreamingResponse):
    """A body that is sent while it is made.

    An error after the first byte breaks the transfer off: the end that HTTP asks for never comes, and the document
    is not terminated, so that no client takes a part for the whole.
    """

    def __init__(
        self,
        first: bytes,
        rest: Pieces,
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`rest` has given `first` already; it is closed at the end, whoever ends it."""
        super().__init__(self._joined(first, rest), status_code, headers)
        self._rest = rest
        self._scope: Scope = {}
        self._quotes = 0
        """Of CSV, so far: of an odd number the last one is open."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or as much as the client takes."""
        self._scope = scope
        try:
            with suppress(ClientLeft):
                await _unless_left(receive, self.stream_response(send))
        finally:
            await self._rest.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send all of it, or less and no end."""
        try:
            await super().stream_response(send)
        except QuadlogError as error:
            log.warning("answer_broken_off", reason=str(error))
            self._scope[FAILED] = error
            if "content-length" not in self.headers:
                await send({"type": "http.response.body", "body": self._cut(), "more_body": True})

    def _cut(self) -> bytes:
        """What ends an answer that failed."""
        if not self._is("text/csv", "text/tab-separated-values"):
            return CUT
        return (b"\n" if self._quotes % 2 else b'\n"') + CUT_OF_TABLE

    def _is(self, *media_types: str) -> bool:
        return self.headers.get("content-type", "").partition(";")[0] in media_types

    async def _joined(self, first: bytes, rest: Pieces) -> AsyncGenerator[bytes]:
        is_csv = self._is("text/csv")
        if is_csv:
            self._quotes = first.count(b'"')
        yield first
        async for piece in rest:
            if is_csv:
                self._quotes += piece.count(b'"')
            yield piece


async def unless_left(request: Request, work: Awaitable[T]) -> T:
    """What `work` gives, unless the client leaves before: then `work` is cancelled.

    Raises:
        ClientLeft: nobody is there to be answered.

    """
    return await _unless_left(request.receive, work)


async def _unless_left(receive: Receive, work: Awaitable[T]) -> T:
    scope = FailScope()
    watch = _Watch(receive, scope)
    try:
        with scope:
            return await work
    finally:
        watch.end()


class _Watch:
    """Ends a scope when the client leaves.  It costs a task: what is done before it begins goes without."""

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


class ClientLeft(QuadlogError):
    """Nobody is there to be answered."""

    status = 499
