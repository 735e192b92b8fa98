"""Retained payloads: the agreed topic holds them, but they may have to wait again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[bytes, bytes]
"""Key of a payload: id and digest."""


class RetainedPayloads:
    """Keys of payloads, by the index of their entry.

    An entry may be cut when this master gives way, and is then submitted again with its payload.  Therefore
    the payload stays until no log can lack the entry: until `Agreement.settled` has reached it.
    """

    def __init__(self, kept: Iterable[tuple[int, Key]]) -> None:
        """`kept`: indexes and keys of the payloads that the store has kept, in order."""
        self._keys = deque(kept)

    def __len__(self) -> int:
        """Return the number of payloads."""
        return len(self._keys)

    def add(self, held: Iterable[tuple[int, Key]]) -> None:
        """Add entries that the agreed topic now holds, too, in order."""
        self._keys.extend(held)

    def truncate(self, index: int) -> None:
        """Remove the entries after `index`, which were cut; the cut decides what happens to their payloads."""
        # Not in order where entries were held, cut, and held again.
        self._keys = deque(key for key in self._keys if key[0] <= index)

    def release_up_to(self, index: int) -> list[Key]:
        """Remove the entries up to `index`, which are never cut; return their keys: the payloads are not needed."""
        keys: list[Key] = []
        while self._keys and self._keys[0][0] <= index:
            keys.append(self._keys.popleft()[1])
        return keys
