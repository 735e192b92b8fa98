"""From a thread that writes an answer to the loop that sends it: bounded, and broken off by either side."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ROOM: Final = 256 * 1024
"""Bytes that wait for a slow client; beyond them the writing thread waits."""

LAST: Final = 4 * 1024
"""A piece below this is an answer's last one (pyoxigraph writes 8 KiB at a time): its end follows at once."""

STALL_S: Final = 60.0
"""A client that takes nothing for so long has left: it must not hold a thread and a snapshot for ever."""


class Pipe:
    """One answer on its way.  A binary file to its writer, pieces to its reader."""

    def __init__(self, *, stall_s: float = STALL_S) -> None:
        """Make one inside the loop that will read."""
        self.headers: dict[str, str] = {}
        """Of the answer; the writer says them before its first byte."""
        self._loop: Final = asyncio.get_running_loop()
        self._news: Final = asyncio.Event()
        self._room: Final = threading.Condition()
        self._stall_s = stall_s
        # All below under the condition's lock.
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._left = self._ended = False
        self._error: Exception | None = None

    # --- the thread that writes -----------------------------------------------------------------------

    def write(self, piece: bytes) -> int:
        """Hand over some bytes; waits while too many wait already.

        Raises:
            BrokenPipeError: nobody reads any more.

        """
        with self._room:
            if not self._room.wait_for(lambda: self._left or self._waiting < ROOM, self._stall_s):
                self._left = True
                self._error = TimeoutError(f"its client took nothing for {self._stall_s:g} s")
                self._tell()
            if self._left:
                raise BrokenPipeError("nobody reads any more")
            self._pieces.append(bytes(piece))
            self._waiting += len(piece)
        if len(piece) >= LAST:
            self._tell()
        return len(piece)

    def flush(self) -> None:
        """Part of what a file can do; the end follows."""

    def end(self, error: Exception | None = None) -> None:
        """There is no more; with an error: and what was written is not all."""
        with self._room:
            self._ended, self._error = True, self._error or error
        self._tell()

    def _tell(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.set)

    # --- the loop that reads --------------------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """Is all of it with the reader?"""
        with self._room:
            return self._ended and not self._pieces

    async def pieces(self) -> AsyncGenerator[bytes]:
        """All that waits, each time there is something.

        Raises:
            Exception: what the writer ended with; never after what looks like the whole.

        """
        try:
            while True:
                await self._news.wait()
                taken, ended = self._take()
                if taken:
                    yield taken
                if ended:
                    return
        finally:
            self.leave()

    def _take(self) -> tuple[bytes, bool]:
        self._news.clear()
        with self._room:
            if self._error is not None:
                raise self._error
            taken = b"".join(self._pieces)
            self._pieces.clear()
            self._waiting = 0
            self._room.notify()
            return taken, self._ended

    def leave(self) -> None:
        """Read no more: the writer is stopped at its next write."""
        with self._room:
            self._left = True
            self._pieces.clear()
            self._room.notify()
