"""Limits of one evaluation, and the watch over it where no process of its own can be ended."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

LOOK_S: Final = 0.05
"""Between two looks: what is filled meanwhile at a gigabyte a second is 50 MB."""

_PAGE: Final = os.sysconf("SC_PAGESIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of the evaluation of one update."""

    seconds: float
    memory: int
    """Bytes by which a process may grow."""

    def exceeded(self, seconds: float, pid: int, *, before: int = 0) -> str | None:
        """Which limit an evaluation is above; `before`: bytes that its process had when it began."""
        if seconds > self.seconds:
            return f"evaluator-timeout: it was not evaluated within update-timeout ({self.seconds:g} s)"
        if memory_of(pid) - before > self.memory:
            return (
                f"evaluator-memory: its evaluation took more than update-memory ({self.memory / MIB:g} MiB)"
            )
        return None


class Watch:
    """Ends this process when an evaluation is above its limits: pyoxigraph's cannot be ended otherwise."""

    def __init__(self, limits: Limits, end: Callable[[], None]) -> None:
        """`end`: does not return."""
        self._limits, self._end = limits, end
        self._under_way: tuple[int, float, int] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def begin(self, index: int) -> None:
        """An entry's evaluation begins."""
        self._under_way = index, time.monotonic(), -1

    def end(self) -> None:
        """It is over."""
        self._under_way = None

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()

    def _look(self) -> None:
        pid = os.getpid()
        index, before = 0, 0
        while not self._closing.wait(LOOK_S):
            under_way = self._under_way
            if under_way is None:
                continue
            if under_way[0] != index:
                index, before = under_way[0], memory_of(pid)
                continue
            exceeded = self._limits.exceeded(time.monotonic() - under_way[1], pid, before=before)
            if exceeded and self._under_way is under_way:
                log.error(
                    "this worker begins anew: an update cannot be evaluated here",
                    index=index,
                    reason=exceeded,
                )
                self._end()


def memory_of(pid: int) -> int:
    """Bytes of memory that a process has; 0 where the system does not tell."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * _PAGE
