"""The backlog: entries and effects that a worker has received and not applied yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice, takewhile
from math import inf
from typing import TYPE_CHECKING, Final

from consumers.agreed import AgreedConsumer
from consumers.effects import EffectsConsumer
from quadlog.core.effects.signature import as_bytes
from quadlog.core.model import LogPosition
from quadlog.core.synchronous import DECISIONS, decision_in
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.records import Effect, LoggedEntry
    from quadlog.core.synchronous import Decision
    from quadlog.quadstore.applied import Applied, InAgreed, InEffects

WAITING: Final = 10_000
"""Entries that wait for their effects, at most: above this, reading the agreed topic only costs memory."""

WAITING_BYTES: Final = 64 * MIB
"""Bytes of the bodies of these entries: as much as the largest body."""

EFFECTS: Final = 10_000
"""Effects that wait to be applied, at most."""

EFFECTS_LINES: Final = 500_000
"""Lines of these effects."""

BATCH: Final = 2000
"""Effects in one store commit, at most.

Batching alone pays up to 50.  But a commit that runs while the next batch is prepared (`commits.py`) waits for
Python's lock at its beginning and its end, for milliseconds: with 500 effects this was a third of all its time.
"""

BATCH_LINES: Final = 50_000
"""Lines of these effects, unless the first effect alone has more: half a second of applying."""


@dataclass(frozen=True, slots=True)
class EntryWithEffect:
    """An entry and its effect, and the places after them in the two topics."""

    entry: LoggedEntry
    effect: Effect
    in_agreed: InAgreed
    in_effects: InEffects


class Backlog:
    """Waiting entries and effects, each in the order of the log.

    They arrive in separate topics, so either side may be of another history than the store, or than the other
    side, until a cut or a rewind is received.  Only entries that follow the store's state are paired, each with
    its own effect.
    """

    def __init__(self) -> None:
        self._entries: deque[tuple[LoggedEntry, InAgreed]] = deque()
        self._effects: deque[tuple[Effect, InEffects]] = deque()
        self._bytes = self._lines = 0
        self.undecided = b""
        """Chain hash of the newest entry that was found to be synchronous by its effect, and was undecided then."""
        self._decisions: deque[tuple[int, int, Decision]] = deque()
        """Decisions on synchronous transactions among the entries, each with its index and epoch."""

    def add_entry(self, entry: LoggedEntry, behind: InAgreed) -> None:
        """Append the next entry; `behind`: the place after its record."""
        self._entries.append((entry, behind))
        self._bytes += len(entry.body)
        if entry.kind in DECISIONS and (decision := decision_in(entry.digest)) is not None:
            self._decisions.append((entry.index, entry.epoch, decision))

    def decision_on(self, entry: LoggedEntry, *, epoch: float = inf) -> Decision | None:
        """Return the first decision behind a synchronous transaction that concerns it; None if none was received.

        `epoch`: decisions of views of later epochs do not count.
        """
        point = LogPosition(entry.index, entry.chain)
        behind = (one for index, at, one in self._decisions if index > entry.index and at <= epoch)
        return next((one for one in behind if one.concerns(point)), None)

    def add_effect(self, effect: Effect, behind: InEffects) -> None:
        """Append the next effect that counts; `behind`: the place after its record."""
        self._effects.append((effect, behind))
        self._lines += _lines_of(effect)

    @property
    def is_full(self) -> bool:
        """True if more entries wait than `WAITING`, or than `WAITING_BYTES`.

        False if the first effect belongs to no waiting entry (see `stranger`): a cut will drop these entries,
        and must be read.
        """
        much = len(self._entries) > WAITING or self._bytes > WAITING_BYTES
        return much and not self.stranger and not self._waits_for_decision

    @property
    def _waits_for_decision(self) -> bool:
        """True if the oldest entry is synchronous and undecided: its decision must be read."""
        first = self.first_entry
        if first is None or not (first.is_synchronous or first.chain == self.undecided):
            return False
        return self.decision_on(first) is None

    @property
    def is_rich(self) -> bool:
        """True if more effects wait than `EFFECTS`, or than `EFFECTS_LINES`."""
        return len(self._effects) > EFFECTS or self._lines > EFFECTS_LINES

    @property
    def stranger(self) -> int:
        """Index of the first effect if the waiting entries do not include its own: one side is of a branch; else 0."""
        if not self._effects or not self._entries:
            return 0
        effect = self._effects[0][0]
        entry = self._at(effect.index)
        return effect.index if entry is None or entry.chain != effect.entry_chain else 0

    @property
    def has_effects(self) -> bool:
        """True if any effect waits."""
        return bool(self._effects)

    @property
    def first_entry(self) -> LoggedEntry | None:
        """The oldest entry; None if no entry waits."""
        return self._entries[0][0] if self._entries else None

    @property
    def signature(self) -> bytes | None:
        """Signature after the newest effect; None if no effect waits."""
        return self._effects[-1][0].signature_after if self._effects else None

    def effects(self) -> Iterator[Effect]:
        """Return the waiting effects, oldest first."""
        return (effect for effect, _ in self._effects)

    def behind(self, point: LogPosition) -> Iterator[LoggedEntry]:
        """Return the entries after a point of their history, oldest first; none if the point is not of that history."""
        return (entry for entry, _ in self._following(point))

    def _following(self, point: LogPosition) -> Iterator[tuple[LoggedEntry, InAgreed]]:
        next_one = self._at(point.index + 1)
        if next_one is None or next_one.previous != point.chain:
            return iter(())
        return islice(self._entries, point.index + 1 - self._entries[0][0].index, None)

    def _at(self, index: int) -> LoggedEntry | None:
        at = index - self._entries[0][0].index if self._entries else -1
        return self._entries[at][0] if 0 <= at < len(self._entries) else None

    def batch(self, applied: LogPosition) -> list[EntryWithEffect]:
        """Return the pairs that can be applied after a point, as many as one commit holds; they stay until `drop`."""
        lines = 0

        def fits(pair: EntryWithEffect) -> bool:
            nonlocal lines
            effect = pair.effect
            before, lines = lines, lines + _lines_of(effect)
            return not before or lines <= BATCH_LINES

        return list(takewhile(fits, islice(self._pairs(applied), BATCH)))

    def _pairs(self, applied: LogPosition) -> Iterator[EntryWithEffect]:
        if not self._effects:
            return
        following = zip(self._following(applied), self._effects, strict=False)
        for (entry, in_agreed), (effect, in_effects) in following:
            if (entry.index, entry.chain) != (effect.index, effect.entry_chain):
                return  # one of them is of a branch: a cut or a rewind has not been read yet
            yield EntryWithEffect(entry, effect, in_agreed, in_effects)

    def drop(self, index: int) -> None:
        """Remove the entries and effects up to an index, because they are applied."""
        while self._entries and self._entries[0][0].index <= index:
            self._bytes -= len(self._entries.popleft()[0].body)
        while self._decisions and self._decisions[0][0] <= index:
            self._decisions.popleft()
        while self._effects and self._effects[0][0].index <= index:
            self._lines -= _lines_of(self._effects.popleft()[0])

    def truncate(self, index: int) -> None:
        """Remove the entries after this index, because they are of a branch."""
        while self._entries and self._entries[-1][0].index > index:
            self._bytes -= len(self._entries.pop()[0].body)
        while self._decisions and self._decisions[-1][0] > index:
            self._decisions.pop()

    def rewind(self, index: int) -> None:
        """Remove the effects after this index, because they are of a branch."""
        while self._effects and self._effects[-1][0].index > index:
            self._lines -= _lines_of(self._effects.pop()[0])

    def put_before(self, entries: Iterable[LoggedEntry], behind: InAgreed) -> None:
        """Put back entries that had been applied, newest first; `behind`: the place after all of them."""
        for entry in entries:
            self._entries.appendleft((entry, behind))
            self._bytes += len(entry.body)
            if entry.kind in DECISIONS and (decision := decision_in(entry.digest)) is not None:
                self._decisions.appendleft((entry.index, entry.epoch, decision))


def _lines_of(effect: Effect) -> int:
    return len(effect.deleted) + len(effect.inserted)


@dataclass(slots=True)
class CountedRecords:
    """State of reading a worker's two topics: which records count, and which of them wait."""

    agreed: AgreedConsumer
    effects: EffectsConsumer
    backlog: Backlog
    agreed_offset: int
    """Offset after the last record of the agreed topic that was received."""

    @staticmethod
    def behind(applied: Applied) -> CountedRecords:
        """Return the state for continuing after what a store has applied."""
        return CountedRecords(
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
        """True if the cut that belongs to the newest rewind was received.

        Until then, waiting entries may be of the branch.  A rewind has no cut of its own if two views differ
        only in whom they copy; and possibly nobody ever writes again.
        """
        return self.agreed.epoch >= self.effects.cut
