"""The limbo: synchronous transactions that are in the log and not decided, and what this master proposes about them.

A view that holds a majority of the voting data centres decides, once `synchro-quorum` of them have the transaction in
their durable logs: posts say how far those go.  Nobody owns the limbo.  The first member of the view proposes, and
any other one if that takes long: a decision is determined by its target, so two proposals are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from quadlog.core.agreement.cluster_view import LimboView, UndecidedTransaction
from quadlog.core.model import LogPosition, Pair, TransactionKind
from quadlog.core.quorum import quorum_of
from quadlog.core.synchronous import (
    concerns_limbo,
    decision_in,
    decision_on,
    is_synchronous,
    resumed_index,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from quadlog.core.agreement.shared import Shared
    from quadlog.core.model import EffectsPosition
    from quadlog.core.synchronous import Decision

SHOWN: Final = 20
"""Undecided transactions that others see."""

PATIENCE: Final = 2
"""Idle rounds after which another member than the first one of the view proposes what is due."""


@dataclass(slots=True)
class LimboEntry:
    """A synchronous transaction without a decision."""

    point: LogPosition
    id: bytes
    resumes: int = 0
    """Index of the suspended entry that it continues; 0: it continues none."""
    since: float | None = None
    """Steady milliseconds at which this master had it agreed, or started."""


class Limbo:
    """The marks of the log, that is synchronous transactions and decisions, as far as they may still be cut."""

    def __init__(self, marks: Iterable[tuple[LogPosition, Pair]]) -> None:
        """Start with the marks of the saved log, oldest first."""
        self._marks = list(marks)
        self._found: dict[int, LimboEntry] = {}
        """By index, entries that are synchronous by their effects."""
        self._effects = 0
        """Index of the last entry with an effect in this data centre."""
        self._decided = 0
        """Greatest target of a decision that was forgotten."""
        self.undecided: list[LimboEntry] = []
        """In the order of the log."""
        self.newest = 0
        """Index of the newest synchronous transaction that was agreed since the start."""
        self.last_decision: tuple[int, Decision] | None = None
        """The newest decision in the log that is remembered, and its index."""
        self._replay()

    @property
    def begins_at(self) -> int:
        """Index of the first mark: a restart reads them from there; 0: there is none."""
        return self._marks[0][0].index if self._marks else 0

    def append(self, point: LogPosition, pair: Pair, now: float) -> bool:
        """Note a new entry of the log; return whether it is synchronous or a decision."""
        if is_synchronous(pair):
            self._marks.append((point, pair))
            self._enter(LimboEntry(point, pair.id, resumed_index(pair), now))
            self.newest = point.index
            return True
        decision = decision_in(pair.digest)
        if decision is None:
            return False
        self._marks.append((point, pair))
        self._decide(point.index, decision)
        return True

    def found(self, point: LogPosition, transaction_id: bytes, now: float) -> bool:
        """Note that an entry is synchronous by its effect; return whether that is new."""
        if point.index <= self._decided or point.index in self._found:
            return False
        self._found[point.index] = LimboEntry(point, transaction_id, since=now)
        self.newest = max(self.newest, point.index)
        self._replay()
        return True

    def cut(self, kept: int, marks: Iterable[tuple[LogPosition, Pair]]) -> None:
        """Note that the log was replaced after an index, by another one with these marks."""
        self._marks = [one for one in self._marks if one[0].index <= kept] + list(marks)
        self._found = {index: one for index, one in self._found.items() if index <= kept}
        self._effects = min(self._effects, kept)  # later ones are of the log that was replaced
        self._replay()

    def evaluated(self, index: int) -> None:
        """Note that entries up to an index have effects: they were decided, or set aside, and wait for nothing here."""
        before, self._effects = self._effects, index
        if index < before:
            self._replay()
        elif self.undecided and self.undecided[0].point.index <= index:
            self.undecided = [one for one in self.undecided if one.point.index > index]
        if self._found and min(self._found) <= index:
            self._found = {at: one for at, one in self._found.items() if at > index}

    def fate_of(self, one: LimboEntry) -> TransactionKind | None:
        """Return what the log decided on the suspended entry that an undecided one continues; None: nothing, or none.

        A side with a majority may have acted on that before the split: it is the decision on both.
        """
        if not one.resumes:
            return None
        for at, pair in self._marks:
            decision = decision_in(pair.digest) if one.resumes < at.index < one.point.index else None
            if decision is not None and decision.index >= one.resumes:
                return decision.kind
        return None

    @property
    def free(self) -> list[LimboEntry]:
        """The undecided ones before the first one whose fate is known: nothing else decides on that."""
        known = (at for at, one in enumerate(self.undecided) if self.fate_of(one) is not None)
        return self.undecided[: next(known, len(self.undecided))]

    def settle(self, index: int) -> None:
        """Forget what is decided by entries up to an index, none of which is ever cut.

        What concerns an entry that an undecided one continues is remembered until that is decided.
        """
        index = min([index, *(one.resumes - 1 for one in self.undecided if one.resumes)])
        if not self._marks or self._marks[0][0].index > index:
            return
        waiting = {one.point.index for one in self.undecided}
        kept: list[tuple[LogPosition, Pair]] = []
        done = 0
        for point, pair in self._marks:
            decision = decision_in(pair.digest)
            if decision is not None and point.index <= index:
                done = max(done, decision.index)
            elif point.index > done or point.index in waiting:
                kept.append((point, pair))
        kept = [(p, pair) for p, pair in kept if p.index > done or p.index in waiting]
        self._marks, self._decided = kept, max(self._decided, done)
        self._found = {at: one for at, one in self._found.items() if at > done}

    def _replay(self) -> None:
        """Find again what is undecided, from the marks."""
        known = {one.point: one.since for one in self.undecided}
        self.undecided, self.last_decision = [], None
        found = sorted(self._found.values(), key=lambda one: one.point.index)
        for point, pair in self._marks:
            while found and found[0].point.index <= point.index:
                self._enter(found.pop(0))
            decision = decision_in(pair.digest)
            if decision is not None:
                self._decide(point.index, decision)
            else:
                self._enter(LimboEntry(point, pair.id, resumed_index(pair), known.get(point)))
        for one in found:
            self._enter(one)

    def _enter(self, one: LimboEntry) -> None:
        last = max(self._effects, self.undecided[-1].point.index if self.undecided else 0)
        if last < one.point.index:
            self.undecided.append(one)

    def _decide(self, index: int, decision: Decision) -> None:
        self.last_decision = index, decision
        self.undecided = [one for one in self.undecided if not decision.concerns(one.point)]

    def age(self, now: float) -> float:
        """Return for how many milliseconds the oldest one waits, as far as this master knows; 0 if none does."""
        for one in self.undecided:
            if one.since is None:
                one.since = now
        return now - (self.undecided[0].since or 0.0) if self.undecided else 0.0

    def confirmed(self, confirmations: Mapping[str, int], quorum: int) -> LogPosition | None:
        """Return the last undecided one that a quorum of data centres has, if it has any.

        `confirmations`: by data centre, index up to which its durable log is this one.
        """
        had = sorted(confirmations.values(), reverse=True)
        if len(had) < quorum:
            return None
        return next((one.point for one in reversed(self.free) if one.point.index <= had[quorum - 1]), None)


class LimboDecider:
    """What this master proposes about the limbo."""

    def __init__(self, shared: Shared, limbo: Limbo) -> None:
        """Propose for one master."""
        self._node: Final = shared.node
        self._views: Final = shared.views
        self._progress: Final = shared.progress
        self._local_state: Final = shared.local_state
        self._idle: Final = shared.pacing.idle
        self.limbo: Final = limbo
        self.hurries_until = float("-inf")
        """Steady milliseconds until which this master proposes at once what can be committed."""
        self.wake_at = inf
        """Steady milliseconds at which a proposal is due if nothing else happens before; infinite: none is."""

    def confirmations(self) -> dict[str, int]:
        """Return, by data centre in the view, the index up to which a member of it has this log durably."""
        members = self._progress.in_view()
        if members is None:
            return {}
        centres, had = self._views.centres, dict[str, int]()
        for name, member in zip(self._views.view.members, members, strict=True):
            # What this master posts is saved before.
            index = self._local_state.log.last.index if name == self._node else member.base.index
            had[centres[name]] = max(index, had.get(centres[name], 0))
        return had

    def quorum(self) -> int:
        """Return the number of data centres that must have a synchronous transaction; more than there are: none can."""
        centres = len({peer.dc for peer in self._views.peers})
        try:
            return quorum_of(self._views.settings.synchro_quorum, centres)
        except ValueError:
            return centres + 1

    def view(self) -> LimboView:
        """Return the limbo as it is now, for other threads."""
        undecided, last = self.limbo.undecided, self.limbo.last_decision
        first = tuple(
            UndecidedTransaction(one.point.index, one.id, inf if one.since is None else one.since)
            for one in undecided[:SHOWN]
        )
        return LimboView(
            length=len(undecided),
            first=first,
            quorum=self.quorum(),
            confirmations=self.confirmations() if undecided else {},
            last_decision=last and (last[0], last[1].kind.value, last[1].index),
        )

    def effects_confirmed(self, own: EffectsPosition) -> int:
        """Return the index up to which a majority, and `synchro-quorum`, have the effects in their topics.

        `own`: the effects of this data centre; others count as far as they are of the same term.
        """
        centres, had = self._views.centres, {self._views.centres.get(self._node, ""): own.index}
        for name in self._views.view.members:
            member = self._progress.members.get(name)
            if name != self._node and member is not None and member.said is not None:
                said = member.said.effects
                if said.term == own.term:
                    had[centres[name]] = max(said.index, had.get(centres[name], 0))
        needed = max(self.quorum(), len({peer.dc for peer in self._views.peers}) // 2 + 1)
        return sorted(had.values(), reverse=True)[needed - 1] if len(had) >= needed else 0

    def proposal(self, now: float) -> Decision | None:
        """Return the decision that this master proposes now."""
        limbo, views = self.limbo, self._views
        self.wake_at = inf
        if not limbo.undecided or not self._may_decide():
            return None
        is_first = views.view.members[0] == self._node or now < self.hurries_until
        waits = 0.0 if is_first else PATIENCE * self._idle
        queued, free = self._queued(), limbo.free
        if not free:
            fate, first = limbo.fate_of(limbo.undecided[0]), limbo.undecided[0].point
            assert fate is not None, "nothing is free before the first one"
            return None if queued else self._due(now, waits, decision_on(fate, first))
        target = limbo.confirmed(self.confirmations(), self.quorum())
        if target is not None:
            if any(one.index >= target.index for one in queued):
                return None
            return self._due(now, waits, decision_on(TransactionKind.COMMIT, target))
        if queued:
            return None
        rollback = decision_on(TransactionKind.ROLLBACK, free[-1].point)
        return self._due(now, views.settings.synchro_timeout * 1000 + waits, rollback)

    def _due(self, now: float, after: float, decision: Decision) -> Decision | None:
        """Return a decision if the oldest undecided transaction waits for so many milliseconds; else wake then."""
        age = self.limbo.age(now)
        if age >= after:
            return decision
        self.wake_at = now + after - age
        return None

    def _may_decide(self) -> bool:
        members = self._progress.in_view()
        return members is not None and not self._views.is_frozen(members) and self._views.has_majority

    def _queued(self) -> Sequence[Decision]:
        """Return the decisions that wait in the queue, about anything that is undecided."""
        first = self.limbo.undecided[0].point.index
        return [one for one in self._local_state.queue.decisions() if one.index >= first]


def marks_of(entries: Iterable[tuple[LogPosition, Pair]]) -> list[tuple[LogPosition, Pair]]:
    """Return the entries that are synchronous by their pairs, or decisions."""
    return [one for one in entries if concerns_limbo(one[1])]
