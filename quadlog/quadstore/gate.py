"""The gate that separates reads from effects that must not be read yet.

The evaluating worker's store may contain effects that are not published.  While it does, the gate is
closed: reads wait until all of them were read back from Kafka, or undone.  A read holds the gate
only until its query has started, because pyoxigraph takes its snapshot then.

Neither side starves the other.  Waiting reads prevent the evaluator from closing the gate again, and
from continuing while it is closed.  An evaluator that found the gate in use has priority over all
reads that arrive later.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from quadlog.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

PATIENCE_S: Final = 5.0
"""Seconds that a read waits: a round trip through Kafka takes some milliseconds, a new evaluator one or two seconds."""


class _Reading:
    """Context manager of all reads; a class and no generator, because every read uses it."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter, self._leave = enter, leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()


class Gate:
    """Gate that one evaluator closes and opens, while any number of threads read."""

    def __init__(self) -> None:
        """Create an open gate."""
        self.patience_s = PATIENCE_S
        """Seconds that a read waits."""
        self._condition = threading.Condition()
        self._reading = _Reading(self._enter, self._leave)
        self._closed = False
        self._tickets = self._admitted = 0
        """`_tickets`: number of reads so far; `_admitted`: the last one that goes before the waiting evaluator."""
        self._waiting: set[int] = set()
        self._starting = 0
        self._wanted = False
        """True while an evaluator waits."""

    def reading(self) -> AbstractContextManager[None]:
        """Return the context in which a read must start; a started read may continue outside of it.

        Raises:
            Unavailable: the gate stays closed for longer than `patience_s`.

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
        """Close the gate, or keep it closed; False: reads come first, and the caller must try again later."""
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
        """Close the gate as soon as the reads that arrived before have started; a closed gate stays closed."""
        with self._condition:
            if not self._closed:
                self._wanted, self._admitted = True, self._tickets
                self._condition.wait_for(self._is_free)
                self._closed, self._wanted = True, False

    def _is_free(self) -> bool:
        return not self._starting and all(ticket > self._admitted for ticket in self._waiting)

    @property
    def is_open(self) -> bool:
        """True if the gate is neither closed nor about to be; for the evaluator, which alone closes it."""
        return not self._closed and not self._wanted

    def open(self) -> None:
        """Open the gate: the store contains nothing that reads must not see."""
        with self._condition:
            self._closed = self._wanted = False
            self._condition.notify_all()
