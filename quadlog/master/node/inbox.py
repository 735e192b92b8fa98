"""The inbox: events for a node from any thread, in the order in which they arrived."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

from quadlog.master.events import Event, RecordsRead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.ports import Record

BATCHES: Final = 8
"""Maximum number of batches that tails have read and the node has not processed: two per tail of a usual master."""


class Inbox:
    """Queue of events: any thread puts, the node's thread takes."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._batches = threading.Semaphore(BATCHES)
        self._ended = threading.Event()

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.put(event)

    def on_records(self, records: Sequence[Record]) -> None:
        """Add records that a tail read; wait while the node has the maximum number of batches."""
        while not self._batches.acquire(timeout=1):
            if self._ended.is_set():
                return
        self._events.put(RecordsRead(records))

    def drain(self, timeout: float) -> list[Event]:
        """Return all waiting events; wait for the first one for at most `timeout` seconds."""
        events: list[Event] = []
        try:
            events.append(self._events.get(timeout=max(timeout, 0.0)))
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events

    def heard(self) -> None:
        """Note that a batch of a tail was processed: there is room for another one."""
        self._batches.release()

    def end(self) -> None:
        """Note that no more events are processed, and release the waiting tails."""
        self._ended.set()
