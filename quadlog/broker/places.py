"""Positions of entries, or of their effects, in a topic: found by bisection, a dozen records are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.records import Effect, LoggedEntry
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.ports import Record

STEP: Final = 64
"""Records that are read in sequence to find one that has an index."""


class Places:
    """Positions of entries, or of their effects, in a topic."""

    def __init__(
        self,
        between: Callable[[int, int], Iterable[Record]],
        index_of: Callable[[Record], int | None],
        beginning: int,
    ) -> None:
        """Search a topic from the offset `beginning`; `between` reads it, `index_of` returns a record's index."""
        self._between, self._index_of, self._beginning = between, index_of, beginning

    def behind(self, index: int, end: int) -> int:
        """Return the offset after the record that completes `index`, after which only greater indexes follow.

        Where indexes go back and forth, any such offset is as good: no reader needs the records before it.
        """
        low, high = self._beginning, end
        while high - low > STEP:
            middle = (low + high) // 2
            found = self._first_from(middle, high)
            if found is None or found > index:
                high = middle
            else:
                low = middle
        behind = self._beginning
        for record in self._between(low, end):
            found = self._index_of(record)
            if found is not None and found > index:
                break
            if found is not None:
                behind = record.offset + 1
        return behind

    def last_before(self, offset: int) -> int:
        """Return the index of the last entry or effect before an offset; 0 if there is none."""
        at = offset
        while at > self._beginning:
            start = max(self._beginning, at - STEP)
            found = [
                index for record in self._between(start, at) if (index := self._index_of(record)) is not None
            ]
            if found:
                return found[-1]
            at = start
        return 0

    def _first_from(self, offset: int, end: int) -> int | None:
        for record in self._between(offset, end):
            if (index := self._index_of(record)) is not None:
                return index
        return None


def index_of_effect(record: Record) -> int | None:
    """Return the index of the effect to which a record belongs; None if it belongs to none."""
    return _index(record, Effect)


def index_of_entry(record: Record) -> int | None:
    """Return the index of the entry to which a record belongs; None if it belongs to none."""
    return _index(record, LoggedEntry)


def _index(record: Record, kind: type[Effect | LoggedEntry]) -> int | None:
    try:
        said, _, _ = codec.decode_chunk(record.value)
    except ForeignRecord:
        return None
    return said.index if isinstance(said, kind) else None
