"""The backlog: what a worker has heard and not applied yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from quadlog.errors import StateError
from quadlog.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.core.model import Effect, LoggedEntry

WAITING: Final = 10_000
"""Entries held until their effects come; beyond them reading the agreed topic only costs memory."""

WAITING_BYTES: Final = 64 * MIB
"""And bytes of their bodies: as much as the largest of them."""

BATCH: Final = 500
"""Effects in one store commit: far beyond where batching pays (50), and short enough for reads beside it."""

BATCH_LINES: Final = 50_000
"""And lines of them, but for a first one that is longer: half a second of applying."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An entry and its effect, and the offsets behind them."""

    entry: LoggedEntry
    effect: Effect
    agreed_offset: int
    effects_offset: int


class Backlog:
    """Entries and effects, each in the order of the log."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._entries: deque[tuple[LoggedEntry, int]] = deque()
        self._effects: deque[tuple[Effect, int]] = deque()
        self._bytes = 0

    def add_entry(self, entry: LoggedEntry, behind: int) -> None:
        """The next entry; `behind`: the offset behind its record."""
        self._entries.append((entry, behind))
        self._bytes += len(entry.body)

    def add_effect(self, effect: Effect, behind: int) -> None:
        """The next effect that counts."""
        self._effects.append((effect, behind))

    @property
    def is_full(self) -> bool:
        """Do more entries wait than are worth their memory?"""
        return len(self._entries) > WAITING or self._bytes > WAITING_BYTES

    @property
    def has_effects(self) -> bool:
        """Does any effect wait?"""
        return bool(self._effects)

    def entries(self) -> Iterator[LoggedEntry]:
        """Those that wait, oldest first."""
        return (entry for entry, _ in self._entries)

    def batch(self) -> list[Pair]:
        """What can be applied now, as much as one commit takes; it waits on until `drop`.

        Raises:
            StateError: an effect is not of the entry that the log here holds.

        """
        lines = 0

        def fits(pair: Pair) -> bool:
            nonlocal lines
            effect = pair.effect
            before, lines = lines, lines + len(effect.deleted) + len(effect.inserted)
            return not before or lines <= BATCH_LINES

        return list(takewhile(fits, self._pairs()))[:BATCH]

    def _pairs(self) -> Iterator[Pair]:
        for (entry, agreed_offset), (effect, effects_offset) in zip(
            self._entries, self._effects, strict=False
        ):
            if (entry.index, entry.chain) != (effect.index, effect.entry_chain):
                message = (
                    f"effect {effect.index} is of an entry with chain {effect.entry_chain.hex()[:16]},"
                    f" the log here holds {entry.index} with {entry.chain.hex()[:16]}"
                )
                raise StateError(message)
            yield Pair(entry, effect, agreed_offset, effects_offset)

    def drop(self, count: int) -> None:
        """The oldest pairs are applied."""
        for _ in range(count):
            entry, _ = self._entries.popleft()
            self._effects.popleft()
            self._bytes -= len(entry.body)
