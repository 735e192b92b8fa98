"""The two clocks of the machine, in the form in which the core receives them."""

from __future__ import annotations

import time

from quadlog.core.messages import Now


def now() -> Now:
    """Return the steady and the wall clock, in milliseconds."""
    return Now(time.monotonic() * 1000, wall())


def wall() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Turns:
    """Pause between two turns of a busy thread, in which it collects items.

    A turn, a request, a sync and a wake-up cost the same for one item as for many, but a single item must not be
    delayed.  The pause therefore grows with the number of waiting items.
    """

    def __init__(self, *, most_ms: float, each_ms: float) -> None:
        """Allow `each_ms` between two turns for each waiting item, and at most `most_ms`."""
        self._most, self._each = most_ms, each_ms
        self._began = float("-inf")

    def gather(self, waiting: int) -> None:
        """Sleep until the next turn is due, which depends on the number of waiting items."""
        pause = self._began + min(self._most, self._each * waiting) - now().steady
        if pause > 0:
            time.sleep(pause / 1000)
        self._began = now().steady
