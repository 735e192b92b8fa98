"""Requests to fixed paths, answered without Starlette's middleware and router."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.routing import Match, Route

from quadlog.errors import QuadlogError
from quadlog.web.answers import handle_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    Endpoint = Callable[[Request], Awaitable[Response]]


class DirectRoutes:
    """ASGI application around a Starlette one that has no middleware and handles errors by `handle_error`."""

    def __init__(self, app: Starlette) -> None:
        """Read the present routes of `app`."""
        self._app = app
        self._endpoints = _endpoints(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or pass it to Starlette, which takes 50 µs more to find the endpoint."""
        endpoint = self._endpoints.get((scope["method"], scope["path"]))
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request)
        except QuadlogError as error:
            response = await handle_error(request, error)
        await response(scope, receive, send)


def _endpoints(app: Starlette) -> dict[tuple[str, str], Endpoint]:
    """Return the coroutine endpoints of fixed paths by method and path.

    Where several routes match, the first one counts, as in Starlette's router.
    """
    found: dict[tuple[str, str], Endpoint] = {}
    for path, method in {
        (route.path, method)
        for route in app.routes
        if isinstance(route, Route) and "{" not in route.path
        for method in route.methods or ()
    }:
        scope: Scope = {"type": "http", "path": path, "method": method, "root_path": "", "headers": []}
        first = next(route for route in app.routes if route.matches(scope)[0] is Match.FULL)
        if isinstance(first, Route) and first.path == path and inspect.iscoroutinefunction(first.endpoint):
            found[method, path] = first.endpoint
    return found
