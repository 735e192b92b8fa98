"""One handler for SIGTERM, SIGINT and SIGHUP during the whole run of a lab."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType


class Stopped(BaseException):
    """A stop was requested; not an `Exception`, so that handlers of errors do not catch it."""


class StopSignal:
    """Before the event loop runs, a signal raises `Stopped` in the main thread; afterwards it sets an event.

    When its loop closes, asyncio restores the default signal handlers, by which a signal would end the process during
    its clean-up.
    """

    def __init__(self) -> None:
        self.requested = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event = asyncio.Event()

    @classmethod
    def install(cls) -> Self:
        """Handle the three signals; only the first signal has an effect."""
        stop = cls()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop._on_signal)
        return stop

    def hand_over_to_loop(self) -> None:
        """Let signals set the event from now on; must be called inside the loop."""
        self._loop = asyncio.get_running_loop()
        if self.requested:
            self._event.set()

    def request(self) -> None:
        """Request a stop, as a signal does."""
        self.requested = True
        self._event.set()

    async def wait(self) -> None:
        """Wait until a stop is requested."""
        await self._event.wait()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.requested:
            return
        self.requested = True
        if self._loop is None:
            raise Stopped
        # Not `_event.set()` alone: the loop sleeps in select and must be woken.
        self._loop.call_soon_threadsafe(self._event.set)
