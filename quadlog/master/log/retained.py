"""What is retained: payloads that the agreed topic holds, and that may have to wait again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[bytes, bytes]
"""A payload: id and digest."""


class Retained:
    """Keys by the index of their entry.

    An entry may be cut when this master gives way, and is submitted anew with its payload then.  So that stays until
    nobody's log can lack the entry: `Agreement.settled` is beyond it.
    """

    def __init__(self, kept: Iterable[tuple[int, Key]]) -> None:
        """`kept`: indexes and keys of what a store has kept, in order."""
        self._keys = deque(kept)

    def __len__(self) -> int:
        """Count of payloads."""
        return len(self._keys)

    def add(self, held: Iterable[tuple[int, Key]]) -> None:
        """The agreed topic holds these, too; in order."""
        self._keys.extend(held)

    def cut(self, index: int) -> None:
        """Entries behind this one are cut: what becomes of their payloads is decided with that."""
        while self._keys and self._keys[-1][0] > index:
            self._keys.pop()

    def settle(self, index: int) -> list[Key]:
        """Nothing up to here is cut any more: the keys of payloads that nobody will ask for."""
        keys: list[Key] = []
        while self._keys and self._keys[0][0] <= index:
            keys.append(self._keys.popleft()[1])
        return keys
