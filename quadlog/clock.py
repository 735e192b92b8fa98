"""The two clocks of this machine, as the core is given them."""

from __future__ import annotations

import time

from quadlog.core.messages import Now


def now() -> Now:
    """Both clocks, in milliseconds."""
    return Now(time.monotonic() * 1000, wall())


def wall() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Turns:
    """How long a busy thread gathers what comes before it looks again.

    A turn, a request, a sync and a wake-up cost the same for one thing as for many; but a lone thing is
    not to be held up.  So the pause grows with what waits.
    """

    def __init__(self, *, most_ms: float, each_ms: float) -> None:
        """At most `most_ms` between two turns, `each_ms` of it for each thing that waits."""
        self._most, self._each = most_ms, each_ms
        self._began = float("-inf")

    def gather(self, waiting: int) -> None:
        """Sleep until the next turn is due."""
        pause = self._began + min(self._most, self._each * waiting) - now().steady
        if pause > 0:
            time.sleep(pause / 1000)
        self._began = now().steady
