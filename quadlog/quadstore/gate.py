"""Between reads and what is not to be read yet.

The evaluating worker's store may hold effects that are not published.  While it does, the gate is
closed: reads wait until all of them were read back from Kafka, or undone.  A read holds the gate
only until its query has started, because pyoxigraph takes its snapshot then.

Neither side starves the other.  Reads that wait keep the evaluator from closing the gate again, and
from going on while it is closed.  An evaluator that found the gate in use goes before all reads that
come later.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from quadlog.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

PATIENCE_S: Final = 5.0
"""Seconds that a read waits: a round trip through Kafka takes some milliseconds, a new evaluator a second or two."""


class _Reading:
    """A read's way through: each read has it, so it is no generator."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter, self._leave = enter, leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()


class Gate:
    """One evaluator closes and opens; any number of threads read."""

    def __init__(self) -> None:
        """Open."""
        self.patience_s = PATIENCE_S
        """How long a read waits."""
        self._condition = threading.Condition()
        self._reading = _Reading(self._enter, self._leave)
        self._closed = False
        self._tickets = self._admitted = 0
        """Reads that ever came; those up to this one go before the evaluator that waits."""
        self._waiting: set[int] = set()
        self._starting = 0
        self._wanted = False
        """Whether an evaluator waits."""

    def reading(self) -> AbstractContextManager[None]:
        """Start a read inside of it; what started goes on outside.

        Raises:
            Unavailable: what is not to be read stays for too long.

        """
        return self._reading

    def _enter(self) -> None:
        with self._condition:
            self._tickets += 1
            if self._closed or self._wanted:
                self._wait(self._tickets)
            self._starting += 1

    def _wait(self, ticket: int) -> None:
        self._waiting.add(ticket)
        try:
            if not self._condition.wait_for(lambda: self._may_start(ticket), self.patience_s):
                message = (
                    "this worker evaluates, and what it has evaluated is not yet back from Kafka"
                    f" after {self.patience_s:g} s; try another worker"
                )
                raise Unavailable(message, retry_after=1)
        finally:
            self._waiting.discard(ticket)

    def _leave(self) -> None:
        with self._condition:
            self._starting -= 1
            self._condition.notify_all()

    def _may_start(self, ticket: int) -> bool:
        return not self._closed and (not self._wanted or ticket <= self._admitted)

    def close(self, patience_s: float = 0.0) -> bool:
        """Keep reads out from now on, if none is in the way; else ask again later."""
        with self._condition:
            if self._closed:
                return not self._waiting
            if not self._wanted:
                self._wanted, self._admitted = True, self._tickets
            if not self._condition.wait_for(self._is_free, patience_s):
                return False
            self._closed, self._wanted = True, False
            return True

    def shut(self) -> None:
        """Keep reads out as soon as those have started that came before; closed it stays closed."""
        with self._condition:
            if not self._closed:
                self._wanted, self._admitted = True, self._tickets
                self._condition.wait_for(self._is_free)
                self._closed, self._wanted = True, False

    def _is_free(self) -> bool:
        return not self._starting and all(ticket > self._admitted for ticket in self._waiting)

    @property
    def is_open(self) -> bool:
        """Neither closed nor about to be; for the evaluator, which alone closes it."""
        return not self._closed and not self._wanted

    def open(self) -> None:
        """Let reads in: nothing is in the store that they must not see."""
        with self._condition:
            self._closed = self._wanted = False
            self._condition.notify_all()
