"""Limits of one evaluation, and the watch over an evaluation that has no process of its own."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Self

import structlog

from quadlog.settings.units import MIB
from quadlog.worker.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.settings import WorkerSettings

log = structlog.get_logger()

LOOK_S: Final = 0.05
"""Seconds between two checks: at a gigabyte per second, 50 MB are filled in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationLimits:
    """Limits of the evaluation of one update."""

    seconds: float
    memory: int
    """Bytes by which a process may grow."""
    control_seconds: float = inf
    """Seconds for all controls of one update; they are evaluated after it, and have their own time."""

    @classmethod
    def of(cls, settings: WorkerSettings) -> Self:
        """Return the limits in a worker's settings."""
        return cls(
            seconds=settings.update_timeout,
            memory=settings.update_memory,
            control_seconds=settings.control_timeout,
        )

    def exceeded(self, seconds: float, process: Vitals, *, before: int = 0, control: str = "") -> str | None:
        """Return which limit an evaluation exceeds; None if it exceeds none.

        `seconds` have passed since it began or, with a `control`, since its controls did; `before`: bytes that the
        process had when it began.
        """
        at = reason_at(control)
        if control and seconds > self.control_seconds:
            limit = f"control-timeout ({self.control_seconds:g} s)"
            return f"{at}control-timeout: the controls of its transaction were not evaluated within {limit}"
        if not control and seconds > self.seconds:
            return f"evaluator-timeout: it was not evaluated within update-timeout ({self.seconds:g} s)"
        if process.memory() - before > self.memory:
            limit = f"update-memory ({self.memory / MIB:g} MiB)"
            return f"{at}evaluator-memory: its evaluation took more than {limit}"
        return None


def reason_at(control: str) -> str:
    """Return the beginning of a reason.

    >>> reason_at("a"), reason_at("")
    ('control a: ', '')
    """
    return f"control {control}: " if control else ""


class EvaluationObserver:
    """Observer of the progress of evaluations; this class does nothing with it."""

    def begin(self, index: int) -> None:
        """Note that the evaluation of an entry begins."""

    def control(self, name: str) -> None:
        """Note that the evaluation of a control begins; the time of all controls begins with the first one."""

    def end(self) -> None:
        """Note that the evaluation ends."""


UNWATCHED: Final = EvaluationObserver()


class LimitWatch(EvaluationObserver):
    """Watch that ends this process if an evaluation exceeds its limits: pyoxigraph cannot be stopped otherwise."""

    def __init__(self, limits: EvaluationLimits, end: Callable[[], None]) -> None:
        """Watch over `limits`; `end` does not return."""
        self._limits, self._end = limits, end
        self._under_way: tuple[int, float, str] | None = None
        """Index of the entry, monotonic time at which its evaluation or its controls began, and current control."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def begin(self, index: int) -> None:
        """Note that the evaluation of an entry begins."""
        self._under_way = index, time.monotonic(), ""

    def control(self, name: str) -> None:
        """Note that the evaluation of a control begins; the time of all controls begins with the first one."""
        assert self._under_way is not None, "controls are part of an evaluation"
        index, since, before = self._under_way
        self._under_way = index, since if before else time.monotonic(), name

    def end(self) -> None:
        """Note that the evaluation ends."""
        self._under_way = None

    def close(self) -> None:
        """Stop watching."""
        self._closing.set()

    def _look(self) -> None:
        index, before = 0, 0
        with closing(Vitals(os.getpid())) as process:
            while not self._closing.wait(LOOK_S):
                under_way = self._under_way
                if under_way is None:
                    continue
                if under_way[0] != index:
                    index, before = under_way[0], process.memory()
                    continue
                seconds = time.monotonic() - under_way[1]
                exceeded = self._limits.exceeded(seconds, process, before=before, control=under_way[2])
                if exceeded and self._under_way is under_way:
                    log.error("evaluation_aborted", index=index, reason=exceeded)
                    self._end()
