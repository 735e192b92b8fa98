"""The backlog: what a worker has heard and not applied yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final

from consumers.agreed import AgreedConsumer
from consumers.effects import EffectsConsumer
from quadlog.core.effects.signature import as_bytes
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.model import Point
    from quadlog.core.records import Effect, LoggedEntry
    from quadlog.quadstore.applied import Applied, InAgreed, InEffects

WAITING: Final = 10_000
"""Entries held until their effects come; beyond them reading the agreed topic only costs memory."""

WAITING_BYTES: Final = 64 * MIB
"""And bytes of their bodies: as much as the largest of them."""

EFFECTS: Final = 10_000
"""Effects held until they are applied."""

EFFECTS_LINES: Final = 500_000
"""And lines of them."""

BATCH: Final = 2000
"""Effects in one store commit.  Batching by itself pays up to 50; but a commit that goes on while the next batch is
made ready (`commits.py`) waits for Python's lock at its ends, for milliseconds: with 500 that was a third of all."""

BATCH_LINES: Final = 50_000
"""And lines of them, but for a first one that is longer: half a second of applying."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An entry and its effect, and where to hear on behind them."""

    entry: LoggedEntry
    effect: Effect
    in_agreed: InAgreed
    in_effects: InEffects


class Backlog:
    """Entries and effects, each in the order of the log.

    They come by topics of their own, so either side may be of another history than the store, or than the other
    one, until a cut or a rewind is heard.  Only what follows the store is paired, an entry with its own effect.
    """

    def __init__(self) -> None:
        """Nothing waits."""
        self._entries: deque[tuple[LoggedEntry, InAgreed]] = deque()
        self._effects: deque[tuple[Effect, InEffects]] = deque()
        self._bytes = self._lines = 0

    def add_entry(self, entry: LoggedEntry, behind: InAgreed) -> None:
        """The next entry; `behind`: the place behind its record."""
        self._entries.append((entry, behind))
        self._bytes += len(entry.body)

    def add_effect(self, effect: Effect, behind: InEffects) -> None:
        """The next effect that counts."""
        self._effects.append((effect, behind))
        self._lines += _lines_of(effect)

    @property
    def is_full(self) -> bool:
        """Do more entries wait than are worth their memory?

        Those that the first effect is not of, or that wait for others before them, are for a cut to drop: that has to
        be heard.
        """
        much = len(self._entries) > WAITING or self._bytes > WAITING_BYTES
        return much and not self.stranger

    @property
    def is_rich(self) -> bool:
        """Do more effects wait than are worth their memory?"""
        return len(self._effects) > EFFECTS or self._lines > EFFECTS_LINES

    @property
    def stranger(self) -> int:
        """Index of the first effect, if the entries that wait do not have its own: one side is of a branch; else 0."""
        if not self._effects or not self._entries:
            return 0
        effect = self._effects[0][0]
        entry = self._at(effect.index)
        return effect.index if entry is None or entry.chain != effect.entry_chain else 0

    @property
    def has_effects(self) -> bool:
        """Does any effect wait?"""
        return bool(self._effects)

    @property
    def first_entry(self) -> LoggedEntry | None:
        """The oldest one."""
        return self._entries[0][0] if self._entries else None

    @property
    def signature(self) -> bytes | None:
        """After the newest effect; None: none waits."""
        return self._effects[-1][0].signature_after if self._effects else None

    def effects(self) -> Iterator[Effect]:
        """Those that wait, oldest first."""
        return (effect for effect, _ in self._effects)

    def behind(self, point: Point) -> Iterator[LoggedEntry]:
        """The entries that follow a point of their history, oldest first; none if it is not of that."""
        return (entry for entry, _ in self._following(point))

    def _following(self, point: Point) -> Iterator[tuple[LoggedEntry, InAgreed]]:
        next_one = self._at(point.index + 1)
        if next_one is None or next_one.previous != point.chain:
            return iter(())
        return islice(self._entries, point.index + 1 - self._entries[0][0].index, None)

    def _at(self, index: int) -> LoggedEntry | None:
        """The entry of an index."""
        at = index - self._entries[0][0].index if self._entries else -1
        return self._entries[at][0] if 0 <= at < len(self._entries) else None

    def batch(self, applied: Point) -> list[Pair]:
        """What can be applied now behind that point, as much as one commit takes; it waits on until `drop`."""
        lines = 0

        def fits(pair: Pair) -> bool:
            nonlocal lines
            effect = pair.effect
            before, lines = lines, lines + _lines_of(effect)
            return not before or lines <= BATCH_LINES

        return list(takewhile(fits, islice(self._pairs(applied), BATCH)))

    def _pairs(self, applied: Point) -> Iterator[Pair]:
        if not self._effects:
            return
        following = zip(self._following(applied), self._effects, strict=False)
        for (entry, in_agreed), (effect, in_effects) in following:
            if (entry.index, entry.chain) != (effect.index, effect.entry_chain):
                return  # one of them is of a branch: a cut or a rewind is still to be heard
            yield Pair(entry, effect, in_agreed, in_effects)

    def drop(self, index: int) -> None:
        """All up to an index are applied."""
        while self._entries and self._entries[0][0].index <= index:
            self._bytes -= len(self._entries.popleft()[0].body)
        while self._effects and self._effects[0][0].index <= index:
            self._lines -= _lines_of(self._effects.popleft()[0])

    def cut(self, index: int) -> None:
        """The entries behind this one are of a branch."""
        while self._entries and self._entries[-1][0].index > index:
            self._bytes -= len(self._entries.pop()[0].body)

    def rewind(self, index: int) -> None:
        """The effects behind this one are of a branch."""
        while self._effects and self._effects[-1][0].index > index:
            self._lines -= _lines_of(self._effects.pop()[0])

    def put_before(self, entries: Iterable[LoggedEntry], behind: InAgreed) -> None:
        """Entries that had been applied, newest first; `behind`: the place behind them all."""
        for entry in entries:
            self._entries.appendleft((entry, behind))
            self._bytes += len(entry.body)


def _lines_of(effect: Effect) -> int:
    return len(effect.deleted) + len(effect.inserted)


@dataclass(slots=True)
class Hearing:
    """Which records of a worker's two topics count, and what waits of them."""

    agreed: AgreedConsumer
    effects: EffectsConsumer
    backlog: Backlog
    agreed_offset: int
    """Behind the last record of the agreed topic that was heard."""

    @staticmethod
    def behind(applied: Applied) -> Hearing:
        """Go on behind what a store has applied."""
        return Hearing(
            AgreedConsumer(applied.in_agreed.last, cut=applied.epoch),
            EffectsConsumer(
                index=applied.index,
                signature=as_bytes(applied.signature),
                term=applied.term,
                attempt=applied.attempt,
                order=applied.in_effects.order,
                rewound=applied.rewound,
                cut=applied.cut,
            ),
            Backlog(),
            applied.agreed_offset,
        )

    @property
    def is_cut(self) -> bool:
        """Whether what is heard of the log stands behind the cut that belongs to the newest rewind.

        Until then entries that wait may be of the branch.  A rewind comes without a cut of its own where two views
        only differ in whom they copy; and nobody may ever write again.
        """
        return self.agreed.epoch >= self.effects.cut
