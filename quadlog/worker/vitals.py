"""CPU time and memory of a process, as counted by the kernel."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

_CPU_CLOCK: Final = 2
"""Low three bits of the id of another process's CPU clock on Linux (clock_getcpuclockid(3)).

The other bits are the inverted pid.
"""


class Vitals:
    """CPU time and memory of one process, which may have ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # Kept open: a look then takes 1.4 µs instead of 30, and each query needs one.
        self._statm: int | None = None
        with suppress(OSError):  # no /proc here
            self._statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY)

    def memory(self) -> int:
        """Return the resident bytes; 0 if they cannot be determined."""
        with suppress(OSError, ValueError, IndexError):
            return int(os.pread(self._statm, 100, 0).split()[1]) * _PAGE if self._statm is not None else 0
        return 0

    def cpu_ms(self) -> float:
        """Return the CPU time of all threads, in milliseconds; 0 if it cannot be determined.

        >>> Vitals(os.getpid()).cpu_ms() <= time.process_time() * 1000
        True
        """
        with suppress(OSError):
            return time.clock_gettime(~self._pid << 3 | _CPU_CLOCK) * 1000
        return 0.0

    def close(self) -> None:
        """Close the memory statistics."""
        if self._statm is not None:
            os.close(self._statm)
            self._statm = None
