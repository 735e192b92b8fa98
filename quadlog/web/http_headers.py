"""Headers that every answer of an application has while some condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class AddedHeaders:
    """ASGI application that adds headers to the answers of another one."""

    def __init__(self, app: ASGIApp, headers: Callable[[], Sequence[tuple[bytes, bytes]]]) -> None:
        """`headers` returns the headers for a request that begins now; it is called for each, so it must be quick."""
        self._app, self._headers = app, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the answer has the headers that held when the request or the answer began."""
        before = self._headers()

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start" and (added := self._headers() or before):
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, send_more)
