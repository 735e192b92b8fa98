"""Synchrony: which entries an evaluator may evaluate, as far as synchronous transactions are concerned.

An entry is synchronous if its client says so, or if its effect changes a graph of `sync-graphs`.  The first decision
behind it in the log counts.  Without one, nothing from this entry on is evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.core.cluster_settings import SETTING, parsed, set_by
from quadlog.core.model import TransactionKind
from quadlog.core.records import Outcome
from quadlog.errors import UserError
from quadlog.worker.evaluate.evaluator import EffectSynchrony

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.core.effects.effect import Change
    from quadlog.core.records import LoggedEntry
    from quadlog.worker.replica.backlog import Backlog

SYNC_GRAPHS: Final = "sync-graphs"

AGAIN_MS: Final = 1_000.0
"""Milliseconds until it is reported again that an entry is undecided: masters forget that when they restart."""


class Synchrony(EffectSynchrony):
    """What one evaluator knows of synchronous transactions.  Used only by the replica's thread."""

    def __init__(
        self,
        backlog: Backlog,
        graphs: Iterable[str],
        *,
        decides_to: int,
        suspends: bool,
        report: Callable[[LoggedEntry], None],
    ) -> None:
        """Start a term; decisions of views of later epochs than `decides_to` do not count.

        `suspends`: what has no decision is set aside.  `report` publishes that the effect of an entry shows that it
        is synchronous, and undecided.
        """
        self._backlog, self._report = backlog, report
        self._decides_to, self._suspends = decides_to, suspends
        self._graphs: frozenset[str] = frozenset()
        self._set(graphs)
        self.by_effect = b""
        """Chain hash of the last entry that only its effect showed to be synchronous."""
        self._reported: tuple[bytes, float] = (b"", 0.0)
        """Chain hash of the entry that was reported last, and when."""

    def _set(self, graphs: Iterable[str]) -> None:
        self._graphs = frozenset("DEFAULT" if graph == "default" else f"<{graph}>" for graph in graphs)

    def outcome_of(self, entry: LoggedEntry) -> Outcome | None:
        """Return APPLIED for a synchronous transaction that must be evaluated; None if it is undecided."""
        decision = self._backlog.decision_on(entry, epoch=self._decides_to)
        if decision is None:
            return Outcome.SUSPENDED if self._suspends else None
        return Outcome.APPLIED if decision.kind is TransactionKind.COMMIT else Outcome.ROLLED_BACK

    def outcome_with(self, entry: LoggedEntry, change: Change) -> Outcome | None:
        """Return the same for an entry with this change; APPLIED if that does not make it synchronous."""
        if not self._graphs or entry.is_synchronous or entry.kind is not TransactionKind.TX:
            return Outcome.APPLIED
        quads = (*change.deleted, *change.inserted)
        touched = {str(quad.graph_name) for quad in quads}
        touched |= {str(graph) for graph in (*change.emptied, *change.filled, *change.dropped)}
        if self._graphs.isdisjoint(touched):
            return Outcome.APPLIED
        self.by_effect = entry.chain
        outcome = self.outcome_of(entry)
        if outcome is None:
            self.wait(entry)
        return outcome

    def wait(self, entry: LoggedEntry) -> None:
        """Report, now and then, that an entry is synchronous by its effect and undecided."""
        chain, at = self._reported
        moment = now().steady
        if chain != entry.chain or moment - at >= AGAIN_MS:
            self._reported = entry.chain, moment
            self._backlog.undecided = entry.chain
            self._report(entry)

    def note(self, entry: LoggedEntry) -> None:
        """Apply an evaluated entry if it sets `sync-graphs`."""
        if entry.kind is TransactionKind.CONFIG and entry.options.get(SETTING) == SYNC_GRAPHS:
            change = set_by(entry.options, entry.index, 0)
            try:
                self._set(parsed(SYNC_GRAPHS, change.value if change else None))
            except UserError:
                return  # of a later version: masters keep the value of before, too
