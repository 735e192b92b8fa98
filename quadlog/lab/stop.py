"""One handler for SIGTERM, SIGINT and SIGHUP through all of a lab's life."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType


class Stopped(BaseException):
    """The lab was asked to stop; not an error, so nothing that catches those catches it."""


class StopSignal:
    """Before the event loop runs, a signal raises `Stopped` in the main thread; then it sets an event.

    asyncio's own signal handlers go back to "die at once" when the loop closes, which would be
    in the middle of cleaning up.
    """

    def __init__(self) -> None:
        """Nothing is asked for yet."""
        self.requested = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    @classmethod
    def install(cls) -> Self:
        """Take the three signals over; the first one counts, later ones change nothing."""
        stop = cls()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop._on_signal)
        return stop

    def hand_over_to_loop(self) -> None:
        """From here on a signal sets the event; call it inside the loop."""
        self._loop = asyncio.get_running_loop()
        if self.requested:
            self._event.set()

    def request(self) -> None:
        """Do what a signal does."""
        self.requested = True
        self._event.set()

    async def wait(self) -> None:
        """Wait until somebody asks."""
        await self._event.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.requested:
            return
        self.requested = True
        if self._loop is None:
            raise Stopped
        # Not `_event.set()` alone: the loop sleeps in select and has to be woken.
        self._loop.call_soon_threadsafe(self._event.set)
