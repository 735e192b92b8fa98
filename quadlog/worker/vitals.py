"""What a process takes, as the kernel counts it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

_CPU_CLOCK: Final = 2
"""Of another process's clock on Linux (clock_getcpuclockid(3)): all bits but the last three are its inverted pid."""


class Vitals:
    """Of one process, which may have ended."""

    def __init__(self, pid: int) -> None:
        """Begin to look."""
        self._pid = pid
        # Kept open: 1.4 µs a look instead of 30, and there is one a question.
        self._statm: int | None = None
        with suppress(OSError):  # no /proc here
            self._statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY)

    def memory(self) -> int:
        """Resident bytes; 0 where nobody can tell."""
        with suppress(OSError, ValueError, IndexError):
            return int(os.pread(self._statm, 100, 0).split()[1]) * _PAGE if self._statm is not None else 0
        return 0

    def cpu_ms(self) -> float:
        """CPU time of all its threads; 0 where nobody can tell.

        >>> Vitals(os.getpid()).cpu_ms() <= time.process_time() * 1000
        True
        """
        with suppress(OSError):
            return time.clock_gettime(~self._pid << 3 | _CPU_CLOCK) * 1000
        return 0.0

    def close(self) -> None:
        """Look no more."""
        if self._statm is not None:
            os.close(self._statm)
            self._statm = None
