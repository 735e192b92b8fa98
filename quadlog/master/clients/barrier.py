"""The barrier of strict reads: an entry of the log that is agreed after they arrived."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Barrier:
    """Agrees on one barrier at a time; all reads that arrive meanwhile share the next one.

    Everything that was acknowledged anywhere before a barrier was given to the agreement precedes the barrier
    in the log.  A barrier that was given to it before a read arrived proves nothing about what was
    acknowledged in between.
    """

    def __init__(self, give: Callable[[], Awaitable[int]]) -> None:
        """`give` submits an entry that changes nothing; once it is agreed, returns the index that reads must show."""
        self._give = give
        self._agreeing: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def index(self) -> int:
        """Return the index that a read arriving now must show.

        Raises:
            QuadlogError: the error that `give` raised.

        """
        if self._next is None:
            self._next = asyncio.ensure_future(self._after(self._agreeing))
            self._next.add_done_callback(_noted)
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait({before})
        self._agreeing, self._next = self._next, None
        return await self._give()


def _noted(task: asyncio.Task[int]) -> None:
    """Retrieve the error of a task: all reads that waited for it may have left, and then no read retrieves it."""
    if not task.cancelled():
        task.exception()
