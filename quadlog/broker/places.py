"""Where entries, or their effects, stand in a topic: found by bisection, a dozen records are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.records import Effect, LoggedEntry
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.ports import Record

STEP: Final = 64
"""Records that are read at once where one with an index is looked for."""


class Places:
    """Where entries, or their effects, stand in a topic."""

    def __init__(
        self,
        between: Callable[[int, int], Iterable[Record]],
        index_of: Callable[[Record], int | None],
        beginning: int,
    ) -> None:
        """`between` reads it, `index_of` says what a record is of; it begins at an offset."""
        self._between, self._index_of, self._beginning = between, index_of, beginning

    def behind(self, index: int, end: int) -> int:
        """Offset behind a record of that index, with which it is whole, where only greater ones follow.

        Where it goes back and forth any such place is as good: nobody needs what is before it.
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
        """Index of the last one that stands before an offset; 0: there is none."""
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
    """What a record is of an effect of; None: of none."""
    return _index(record, Effect)


def index_of_entry(record: Record) -> int | None:
    """What entry a record is of; None: of none."""
    return _index(record, LoggedEntry)


def _index(record: Record, kind: type[Effect | LoggedEntry]) -> int | None:
    try:
        said, _, _ = codec.decode_chunk(record.value)
    except ForeignRecord:
        return None
    return said.index if isinstance(said, kind) else None
