"""Errors as HTTP answers, the same at every door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from quadlog.errors import QuadlogError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request


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
