"""The inbox: what happens to a node, from any thread, in the order in which it came."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

from quadlog.master.events import Event, Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record

BATCHES: Final = 8
"""What tails have read and the node has not heard yet: two for each of a usual master's tails."""


class Inbox:
    """Anyone puts, the node's thread takes."""

    def __init__(self) -> None:
        """Nothing happened yet."""
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._batches = threading.Semaphore(BATCHES)
        self._ended = threading.Event()

    def put(self, event: Event) -> None:
        """Hand over something that happened."""
        self._events.put(event)

    def hear(self, tail: str, records: Sequence[Record]) -> None:
        """Hand over what a tail read; waits while the node has more than enough to hear."""
        del tail
        while not self._batches.acquire(timeout=1):
            if self._ended.is_set():
                return
        self._events.put(Told(records))

    def take(self, timeout: float) -> list[Event]:
        """All that is there; waits for the first one for so many seconds."""
        events: list[Event] = []
        try:
            events.append(self._events.get(timeout=max(timeout, 0.0)))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def heard(self) -> None:
        """A batch that a tail read was taken in: there is room for another one."""
        self._batches.release()

    def end(self) -> None:
        """Nobody takes anything any more; tails that wait are let go."""
        self._ended.set()
