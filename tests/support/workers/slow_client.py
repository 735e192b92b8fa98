"""A client at a worker's door that takes its time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from tests.support.workers.served import Served


class SlowClient:
    """Takes the beginning of an answer, and no more until it is told to."""

    def __init__(self, here: Served, text: str) -> None:
        self.taken, self.goes_on, self._left = 0, asyncio.Event(), asyncio.Event()
        query = urlencode({"query": text}).encode()
        scope = {"type": "http", "method": "GET", "path": "/sparql", "headers": [], "query_string": query}
        self.task = asyncio.ensure_future(here.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:  # noqa: ANN401
        if body := message.get("body"):
            self.taken += len(body)
            await self.goes_on.wait()
