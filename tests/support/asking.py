"""A pool of connections, and a server that answers it as a script says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from quadlog.web.http_pool import ConnectionPool, Message, Origin, Seconds
from tests.support.raw_servers import Script, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from quadlog.web.http_response import HttpResponse

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PATIENCE = Seconds(connect=5, write=5, read=5)


def message(method: bytes = b"GET", *, is_repeatable: bool = True, **rest: object) -> Message:
    headers = [(b"Host", b"test")]
    return Message(method, b"/x?y=1", headers, is_repeatable=is_repeatable, **rest)  # type: ignore[arg-type]


class Asking:
    """A pool, and the server that it asks."""

    def __init__(self, port: int) -> None:
        self.pool = ConnectionPool()
        self.origin = Origin("http", "127.0.0.1", port)

    async def begin(self, what: Message | None = None, seconds: Seconds = PATIENCE) -> HttpResponse:
        return await self.pool.request(self.origin, what or message(), seconds)

    async def ask(self, what: Message | None = None, seconds: Seconds = PATIENCE) -> tuple[int, bytes]:
        async with asyncio.timeout(5):
            response = await self.begin(what, seconds)
            return response.status, b"".join([piece async for piece in response.pieces()])


@asynccontextmanager
async def asking(*answers: bytes | Script) -> AsyncIterator[tuple[Asking, list[list[bytes]]]]:
    """The first connection is answered with the first script, the next one with the next, the last one for ever.

    What a script is made of: bytes are sent, for a number of seconds nothing happens, None waits for a request.
    Gives what came on each connection, request by request.
    """
    async with serving(*((None, one, None) if isinstance(one, bytes) else one for one in answers)) as (
        port,
        heard,
    ):
        asked = Asking(port)
        yield asked, heard
        asked.pool.close()
