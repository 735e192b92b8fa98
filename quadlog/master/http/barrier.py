"""The barrier of strict reads: an entry of the log that is agreed after they came."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Barrier:
    """One barrier at a time; all reads that come while it is agreed share the next one.

    What was acknowledged anywhere before a barrier was given to the agreement stands before it in the
    log.  A barrier that was given before the read came says nothing of what was acknowledged between.
    """

    def __init__(self, give: Callable[[], Awaitable[int]]) -> None:
        """`give` has an entry agreed that changes nothing; returns its index."""
        self._give = give
        self._agreeing: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None

    async def index(self) -> int:
        """What a read that comes now has to show.

        Raises:
            QuadlogError: what `give` raised.

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
    """Everybody who wanted it may have left: its error is nobody's then."""
    if not task.cancelled():
        task.exception()
