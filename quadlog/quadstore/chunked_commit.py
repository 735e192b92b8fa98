"""Marks of changes that are made, or undone, in pieces: quads of the reserved graph until all pieces are made.

A mark names the entry with which its change is whole, or undone: after a crash the log may arrive in other batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyoxigraph import Literal, NamedNode, Quad

from quadlog.errors import StateError
from quadlog.quadstore.store_reader import APPLIED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import Store

_MADE: Final = NamedNode("urn:quadlog:begun")
_UNDONE: Final = NamedNode("urn:quadlog:undone")


class ChunkedCommitMarks:
    """The marks in a store, each with the index that it names."""

    def __init__(self, reserved: NamedNode) -> None:
        self._reserved = reserved
        self._marks: dict[Quad, int] = {}

    def __bool__(self) -> bool:
        """Return whether there is a mark."""
        return bool(self._marks)

    def find(self, store: Store) -> bool:
        """Read the marks of a store; return whether there are any."""
        for which in (_MADE, _UNDONE):
            for mark in store.quads_for_pattern(which, APPLIED, None, self._reserved):
                self.note(mark)
        return bool(self)

    @property
    def half_made(self) -> int:
        """Index up to which the store may contain parts of entries that are not applied yet; 0: it contains none."""
        return max((index for mark, index in self._marks.items() if mark.subject == _MADE), default=0)

    @property
    def half_undone(self) -> bool:
        """True if parts of what is applied are undone: the way back must be completed."""
        return any(mark.subject == _UNDONE for mark in self._marks)

    def mark(self, index: int, *, back: bool) -> Quad:
        """Return the mark for the beginning of a change that is whole, or undone, with this index."""
        return Quad(_UNDONE if back else _MADE, APPLIED, Literal(str(index)), self._reserved)

    def note(self, mark: Quad) -> None:
        """Add a mark that is in the store."""
        if not isinstance(mark.object, Literal):
            raise StateError(f"not the beginning of a change: {mark}")
        self._marks[mark] = int(mark.object.value)

    def whole_at(self, index: int, *, back: bool) -> list[Quad]:
        """Return the marks of changes that end when this index is applied, or reached on the way back."""
        return [mark for mark, last in self._marks.items() if (last >= index if back else last <= index)]

    def forget(self, marks: Iterable[Quad]) -> None:
        """Remove marks that are no longer in the store."""
        for mark in marks:
            del self._marks[mark]
