"""Errors as HTTP answers, the same at every door."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.errors import QuadlogError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

log = structlog.get_logger()


def error_response(error: QuadlogError, headers: Mapping[str, str] | None = None) -> Response:
    """An error of the tree: what happened, and whether it is definite."""
    retry = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    body = {"error": type(error).__name__, "message": str(error), "definite": error.definite}
    return JSONResponse(body, error.status, {**retry, **(headers or {})})


async def handle_error(request: Request, error: Exception) -> Response:
    """Starlette's exception handler for the tree."""
    del request
    if not isinstance(error, QuadlogError):
        raise error
    return error_response(error)


class Streamed(StreamingResponse):
    """A body that is sent while it is made.

    An error after the first byte breaks the transfer off: the end that HTTP asks for never comes, so
    that no client takes a part for the whole.
    """

    def __init__(
        self,
        first: bytes,
        rest: AsyncGenerator[bytes],
        *,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """`rest` has given `first` already; it is closed at the end, whoever ends it."""
        super().__init__(_joined(first, rest), status_code, headers)
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or as much as the client takes."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._rest.aclose()

    async def stream_response(self, send: Send) -> None:
        """Send all of it, or less and no end."""
        try:
            await super().stream_response(send)
        except QuadlogError as error:
            log.warning("an answer was broken off", reason=str(error))


async def _joined(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    yield first
    async for piece in rest:
        yield piece
