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
