"""How long processes waited for a core: a bound in seconds is a claim about the cluster, not about a busy machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

_PRESSURE: Final = Path("/proc/pressure/cpu")


class Stopwatch:
    """Measures from when it was made."""

    def __init__(self) -> None:
        """It runs."""
        self._began, self._contended = time.monotonic(), contended_s()

    def seconds(self) -> float:
        """By the clock."""
        return time.monotonic() - self._began

    def undisturbed_s(self) -> float:
        """Of these, the seconds in which no process of the machine waited for a core."""
        return self.seconds() - (contended_s() - self._contended)


def contended_s() -> float:
    """Seconds since some moment in which a process waited for a core (Linux's pressure stall information).

    0 always where the machine does not tell: then all seconds count.
    """
    try:
        some = _PRESSURE.read_text().split("\n", 1)[0]
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6
