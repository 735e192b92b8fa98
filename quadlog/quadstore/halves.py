"""What is made, or undone, in pieces: a quad of the reserved graph says so until all of them are there.

It names the entry with which that is whole, or undone: after a crash the log may come in other batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyoxigraph import Literal, NamedNode, Quad

from quadlog.errors import StateError
from quadlog.quadstore.stored import APPLIED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyoxigraph import Store

_MADE: Final = NamedNode("urn:quadlog:begun")
_UNDONE: Final = NamedNode("urn:quadlog:undone")


class Begun:
    """The marks that stand in a store, each with the index that it names."""

    def __init__(self, reserved: NamedNode) -> None:
        """None stands there."""
        self._reserved = reserved
        self._marks: dict[Quad, int] = {}

    def __bool__(self) -> bool:
        """Whether any does."""
        return bool(self._marks)

    def find(self, store: Store) -> bool:
        """Look which ones a store has; whether there are any."""
        for which in (_MADE, _UNDONE):
            for mark in store.quads_for_pattern(which, APPLIED, None, self._reserved):
                self.note(mark)
        return bool(self)

    @property
    def half_made(self) -> int:
        """Up to which index there may be parts of what is not applied yet; 0: of nothing."""
        return max((index for mark, index in self._marks.items() if mark.subject == _MADE), default=0)

    @property
    def half_undone(self) -> bool:
        """Whether parts are gone of what is applied: the way back has to be gone to its end."""
        return any(mark.subject == _UNDONE for mark in self._marks)

    def mark(self, index: int, *, back: bool) -> Quad:
        """Says that what is whole, or undone, with this index begins."""
        return Quad(_UNDONE if back else _MADE, APPLIED, Literal(str(index)), self._reserved)

    def note(self, mark: Quad) -> None:
        """It stands in the store."""
        if not isinstance(mark.object, Literal):
            raise StateError(f"not the beginning of a change: {mark}")
        self._marks[mark] = int(mark.object.value)

    def whole_at(self, index: int, *, back: bool) -> list[Quad]:
        """Those that end where this index is applied, or come back to."""
        return [mark for mark, last in self._marks.items() if (last >= index if back else last <= index)]

    def forget(self, marks: Iterable[Quad]) -> None:
        """They stand there no more."""
        for mark in marks:
            del self._marks[mark]
