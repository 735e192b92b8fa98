"""The newest effects, kept for the reading processes: each process receives those that it lacks."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.worker.reads.frames import FrameKind, framed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.records import Effect
    from quadlog.quadstore.applied import Applied

KEPT: Final = 4 * 1024 * 1024
"""Bytes of effects that are kept: 0.3 s of work for a process.  A process that lacks more is replaced by one with a new
copy, which takes no longer, so that reads do not wait for seconds after a large update."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The effects that the worker commits together."""

    first: int
    last: int
    frame: bytes


class Feed:
    """The newest batches.  The replica's thread adds them, the server's event loop reads them."""

    def __init__(self, index: int, *, kept: int = KEPT) -> None:
        """Start for a worker that has applied the log up to `index`."""
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()
        self._size, self._kept = 0, kept
        self._index = index
        self._is_followed = True
        self.history = 0
        """Number of the history that the effects belong to: it increases each time the worker has gone back."""
        self.is_going_back = False

    @property
    def index(self) -> int:
        """Index up to which effects were added."""
        return self._index

    def add(self, effects: Sequence[Effect], applied: Applied) -> None:
        """Add the next batch *before* it is committed, so that reads show all that the worker reports as applied."""
        if not self._is_followed:
            self._index = applied.index
            return
        # Bare tuples in the order of `ChangeLines` are pickled in a fifth of the time of whole effects.
        changes = [(e.deleted, e.inserted, e.emptied, e.filled, e.dropped) for e in effects]
        frame = framed(FrameKind.EFFECTS, pickle.dumps((effects[0].index, changes, applied)))
        with self._lock:
            self._batches.append(Batch(effects[0].index, applied.index, frame))
            self._size += len(frame)
            while self._size > self._kept:
                self._size -= len(self._batches.popleft().frame)
            self._index = applied.index

    def begin_back(self) -> None:
        """Note that effects are being undone: no process may be asked before `end_back`."""
        with self._lock:
            self.is_going_back = True

    def end_back(self, index: int) -> None:
        """Note that effects were undone down to this index: present processes belong to another history from now on."""
        with self._lock:
            self._batches.clear()
            self._size, self._index = 0, index
            self.history += 1
            self.is_going_back = False

    def follow(self, *, anybody: bool) -> None:
        """Set whether there is any process that needs effects; if not, nothing is kept."""
        with self._lock:
            self._is_followed = anybody
            if not anybody:
                self._batches.clear()
                self._size = 0

    def is_of(self, history: int) -> bool:
        """Return whether the effects of a history are those that the worker has."""
        return history == self.history and not self.is_going_back

    def behind(self, index: int, history: int = 0) -> list[Batch] | None:
        """Return the batches after `index`, in order; None if they are no longer kept, or of another history."""
        with self._lock:
            if not self.is_of(history):
                return None
            if index >= self._index:
                return []
            found: list[Batch] = []
            for batch in reversed(self._batches):
                if batch.last <= index:
                    break
                found.append(batch)
        return found[::-1] if found and found[-1].first <= index + 1 else None
