"""Effects on their way to reading processes: what each of them lacks, however late it asks."""

from __future__ import annotations

import pickle
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.worker.reads.frames import Kind, framed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.records import Effect
    from quadlog.quadstore.applied import Applied

KEPT: Final = 4 * 1024 * 1024
"""Bytes of effects that are kept, 0.3 s of work for a process.  One that lacks more is replaced by one with a
new copy, which takes no longer: so reads do not wait for seconds after a large update."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What the worker commits at once."""

    first: int
    last: int
    frame: bytes


class Feed:
    """The newest batches.  The replica's thread adds, the loop that serves takes."""

    def __init__(self, index: int, *, kept: int = KEPT) -> None:
        """A worker that has applied the log up to `index`."""
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()
        self._size, self._kept = 0, kept
        self._index = index
        self._is_followed = True
        self.history = 0
        """Of what is told: another one each time that the worker went back."""
        self.is_going_back = False

    @property
    def index(self) -> int:
        """Up to where effects were added."""
        return self._index

    def add(self, effects: Sequence[Effect], applied: Applied) -> None:
        """The next batch, *before* it is committed: what a worker says that it has, its reads show."""
        if not self._is_followed:
            self._index = applied.index
            return
        # As bare tuples, in the order of `ChangeLines`: pickled in a fifth of the time of whole effects.
        changes = [(e.deleted, e.inserted, e.emptied, e.filled, e.dropped) for e in effects]
        frame = framed(Kind.EFFECTS, pickle.dumps((effects[0].index, changes, applied)))
        with self._lock:
            self._batches.append(Batch(effects[0].index, applied.index, frame))
            self._size += len(frame)
            while self._size > self._kept:
                self._size -= len(self._batches.popleft().frame)
            self._index = applied.index

    def begin_back(self) -> None:
        """What was told is being undone: nobody is to be asked before that is done."""
        with self._lock:
            self.is_going_back = True

    def end_back(self, index: int) -> None:
        """It was undone down to this index: whoever was told of it is of another history."""
        with self._lock:
            self._batches.clear()
            self._size, self._index = 0, index
            self.history += 1
            self.is_going_back = False

    def follow(self, *, anybody: bool) -> None:
        """Whether there is any process to be told; else nothing is kept."""
        with self._lock:
            self._is_followed = anybody
            if not anybody:
                self._batches.clear()
                self._size = 0

    def is_of(self, history: int) -> bool:
        """Whether what was told in a history still is what the worker has."""
        return history == self.history and not self.is_going_back

    def behind(self, index: int, history: int = 0) -> list[Batch] | None:
        """The batches behind `index`, in order; None if they are no longer kept, or it is of another history."""
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
