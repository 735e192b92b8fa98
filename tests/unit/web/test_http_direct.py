"""A fixed path is answered as Starlette would answer it, and without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from quadlog.errors import QuadlogError, Unavailable
from quadlog.web.answers import handle_error
from quadlog.web.http_direct import DirectRoutes

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

pytestmark = pytest.mark.anyio


async def fixed(request: Request) -> Response:
    return PlainTextResponse(f"fixed {request.method} {request.query_params.get('a')}")


async def fails(request: Request) -> Response:
    del request
    raise Unavailable("it is not there", retry_after=7)


async def is_broken(request: Request) -> Response:
    raise KeyError(request.method)


async def any_name(request: Request) -> Response:
    return PlainTextResponse(f"name {request.path_params['name']}")


def blocking(request: Request) -> Response:
    del request
    return PlainTextResponse("in a thread")


class Counted(Starlette):
    """Counts what it is asked."""

    asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        await super().__call__(scope, receive, send)


def app() -> Counted:
    return Counted(
        routes=[
            Route("/fixed", fixed, methods=["GET"]),
            Route("/fixed", any_name, methods=["DELETE"]),
            Route("/fails", fails, methods=["GET"]),
            Route("/broken", is_broken, methods=["GET"]),
            Route("/blocking", blocking, methods=["GET"]),
            Route("/names/{name}", any_name, methods=["GET"]),
            Route("/names/fixed", fixed, methods=["GET"]),
        ],
        exception_handlers={QuadlogError: handle_error},
    )


async def answer(
    door: Starlette | DirectRoutes, method: str, path: str
) -> tuple[int, bytes, list[tuple[str, str]]]:
    transport = httpx.ASGITransport(door, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://m") as client:
        said = await client.request(method, path)
        return said.status_code, said.content, said.headers.multi_items()


@pytest.mark.parametrize(
    ("method", "path", "is_direct"),
    [
        ("GET", "/fixed?a=1", True),
        ("HEAD", "/fixed", True),
        ("GET", "/fails", True),
        ("POST", "/fixed", False),
        ("GET", "/fixed/", False),
        ("GET", "/nowhere", False),
        ("GET", "/blocking", False),
        ("GET", "/names/one", False),
        ("GET", "/names/fixed", False),
    ],
)
async def test_the_answer_is_starlettes(method: str, path: str, is_direct: bool) -> None:  # noqa: FBT001
    around = app()
    assert await answer(DirectRoutes(around), method, path) == await answer(app(), method, path)
    assert (around.asked == 0) is is_direct


async def test_other_errors_are_left_to_the_server() -> None:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(DirectRoutes(app())), base_url="http://m"
    ) as client:
        with pytest.raises(KeyError):
            await client.get("/broken")
