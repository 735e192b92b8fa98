"""Changes that the evaluating worker has decided and not yet read back.

They are laid over the store in memory, where data operations find all they need.  A WHERE needs them in the
store: then they are anticipated there, and reads wait outside the gate until they are read back or undone.
Changes in memory are always later in the log than anticipated ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from quadlog.core.effects.effect import Change, merged
from quadlog.core.effects.lines import ChangeLines, lines_of
from quadlog.core.effects.overlay import Overlay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyoxigraph import Quad

    from quadlog.core.effects.effect import State
    from quadlog.core.effects.lines import Lines
    from quadlog.core.records import Effect
    from quadlog.quadstore.quadstore import QuadStore

_NOTHING: Final = Change()
_NO_LINES: Final = ChangeLines()

LARGE: Final = 10_000
"""Changed quads, decided and not read back, above which the next entry waits for them.

This bounds the memory, and a round trip through Kafka is cheaper than to bring so many quads into the store
with their inverse.
"""


@dataclass(slots=True, kw_only=True)
class SpeculativeEffect:
    """The change of one entry, and where it is kept."""

    change: Change
    chain: bytes
    """The effects' chain after it, which distinguishes it from the decision of another evaluator."""
    rest: Change
    """The part that is in memory."""
    lines: Lines
    """Text of that part."""
    records: list[Quad] = field(default_factory=list["Quad"])
    """Records of the parts that are in the store."""
    weight: int = field(init=False)
    """Number of quads that it changes."""

    def __post_init__(self) -> None:
        """Drop a large change: nothing is evaluated before it is read back, and its effect contains it."""
        self.weight = _weight(self.change)
        if self.weight > LARGE and self.rest is self.change:
            self.change = self.rest = Change()
            self.lines = _NO_LINES

    def due(self, effect: Effect) -> Lines:
        """Return the part of its effect that the store lacks."""
        return effect if self.rest is self.change else self.lines


class SpeculativeState:
    """The state after all decided changes."""

    def __init__(self, store: QuadStore) -> None:
        self.store: Final = store
        self._overlay: Final = Overlay(store)
        self._decided: dict[int, SpeculativeEffect] = {}
        self._in_memory: dict[int, SpeculativeEffect] = {}
        self._laid = 0
        """Index up to which the changes in memory are laid over the store; this is done only on demand."""
        self.weight = 0
        """Quads that are changed by what is decided and not read back."""

    def __len__(self) -> int:
        """Return the number of entries that are decided and not read back."""
        return len(self._decided)

    @property
    def in_memory(self) -> bool:
        """True if the store lacks any of the changes."""
        return bool(self._in_memory)

    @property
    def state(self) -> State:
        """The state after all changes; must not be kept, because a WHERE moves changes from memory to the store."""
        if not self._in_memory:
            return self.store
        for index in self._not_laid():
            self._overlay.push(index, self._in_memory[index].rest)
            self._laid = index
        return self._overlay

    def _not_laid(self) -> list[int]:
        """Return the indexes of the changes in memory that are not laid over the store yet, oldest first."""
        return list(takewhile(lambda index: index > self._laid, reversed(self._in_memory)))[::-1]

    def decide(self, index: int, decided: SpeculativeEffect) -> None:
        """Add the change of the next entry."""
        self._decided[index] = decided
        self.weight += decided.weight
        if decided.rest != _NOTHING:
            self._in_memory[index] = decided

    def decided(self, index: int, chain: bytes) -> SpeculativeEffect | None:
        """Return the decision on an entry, if `chain` shows that it is the one that was read back; otherwise None."""
        found = self._decided.get(index)
        return found if found is not None and found.chain == chain else None

    def applied(self, index: int) -> None:
        """Drop a change, because the store has applied it and shows it."""
        self.weight -= self._decided.pop(index).weight
        if self._in_memory.pop(index, None) is not None and index <= self._laid:
            self._overlay.drop(index)

    def anticipate(self, more: Change) -> list[Quad]:
        """Bring all changes in memory, and `more`, into the store; return the records of `more`."""
        changes = [decided.rest for decided in self._in_memory.values()]
        lines = [decided.lines for decided in self._in_memory.values()]
        if more != _NOTHING:
            changes.append(more)
            lines.append(lines_of(more))
        if not changes:
            return []
        records = self.store.anticipate(changes, lines)
        for (index, decided), record in zip(self._in_memory.items(), records, strict=False):
            if index <= self._laid:
                self._overlay.drop(index)
            decided.rest, decided.lines = _NOTHING, _NO_LINES
            decided.records.append(record)
        rest = records[len(self._in_memory) :]
        self._in_memory.clear()
        return rest


class EvaluationSteps:
    """Changes of the operations of one entry, each on top of the one before."""

    def __init__(self, ahead: SpeculativeState) -> None:
        self._ahead = ahead
        self._changes: list[Change] = []
        self._in_memory: list[Change] = []
        self._overlay: Overlay | None = None
        self._laid = 0
        self.records: list[Quad] = []

    @property
    def state(self) -> State:
        """The state after the steps so far; must not be kept."""
        if not self._in_memory:
            return self._ahead.state
        if self._overlay is None:
            self._overlay, self._laid = Overlay(self._ahead.state), 0
        for number in range(self._laid, len(self._in_memory)):
            self._overlay.push(number, self._in_memory[number])
        self._laid = len(self._in_memory)
        return self._overlay

    def add(self, change: Change) -> None:
        """Add a step."""
        self._changes.append(change)
        self._in_memory.append(change)

    def anticipate(self) -> None:
        """Bring all steps so far into the store."""
        self.records += self._ahead.anticipate(_net(self._in_memory))
        self._in_memory.clear()
        self._overlay = None

    def take_back(self) -> None:
        """Remove the steps from the store."""
        if self.records:
            self._ahead.store.take_back(self.records)

    def net(self) -> tuple[Change, Change]:
        """Return the net change of all steps, and that of the steps in memory."""
        net = _net(self._changes)
        return net, net if len(self._in_memory) == len(self._changes) else _net(self._in_memory)


def _net(changes: Sequence[Change]) -> Change:
    return merged(changes) if changes else _NOTHING


def _weight(change: Change) -> int:
    return len(change.deleted) + len(change.inserted)
