"""Rewind handler: how a worker processes a rewind, and which entries it takes up again after it.

`rollback.py` undoes applied effects.  This module determines when, what happens to the records received so far, and
what happens if the effects cannot be undone.
"""

from __future__ import annotations

from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

import structlog

from quadlog.clock import wall
from quadlog.core.effects.signature import as_bytes
from quadlog.errors import StateError
from quadlog.worker.repair.kept_branch import KeptBranch, save_branch
from quadlog.worker.replica.rollback import AppliedHistory, go_back, undo_half

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from quadlog.core.records import Effect, Rewind
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.topics import Topics
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.repair.health import Health
    from quadlog.worker.replica.backlog import CountedRecords
    from quadlog.worker.replica.evaluator_term import EvaluatorTerm
    from quadlog.worker.replica.host import Host

log = structlog.get_logger()


class RewindHandler:
    """Handler of rewinds.  Used only by the replica's thread."""

    def __init__(
        self,
        *,
        data_dir: Path,
        topics: Topics,
        store: QuadStore,
        health: Health,
        feed: Feed,
        counted_records: CountedRecords,
        evaluator_term: EvaluatorTerm,
        host: Host,
    ) -> None:
        """Continue after what the store has applied."""
        self._store, self._feed, self._counted_records, self._evaluator_term = (
            store,
            feed,
            counted_records,
            evaluator_term,
        )
        self._past, self._host = AppliedHistory(topics, host.backwards), host
        self._data_dir, self._health = data_dir, health
        self._started_at, self._started_from = wall(), store.applied.index
        self.owes = store.applied.heard is not None
        """True if undone entries may have to wait again, after what the store has then."""
        self.rewound = 0
        """Epoch of the newest rewind with which the store complies; the store itself saves it with its next effect."""
        self.is_lost = False
        """True if the store cannot go back as far as it must: it is given up."""

    def go_back(self, rewind: Rewind, behind: int) -> None:
        """End the term, drop or undo the effects after the rewind's index, and continue to read."""
        store, backlog = self._store, self._counted_records.backlog
        applied, half_made = store.applied, store.half_made
        log.info("rewind_started", to=rewind.index, applied=applied.index, epoch=rewind.epoch)
        self._evaluator_term.retire()
        half = [effect for effect in backlog.effects() if effect.index <= half_made]
        if self._keeps(rewind):
            self._keep(rewind, half)
            return
        backlog.rewind(rewind.index)
        if rewind.index < max(applied.index, half_made):
            self._feed.begin_back()
            try:
                go_back(store, self._past, rewind, behind=behind, half=half)
            except StateError as error:
                self._give_up(error)
                return
            self.owes = True
            self._feed.end_back(store.applied.index)
        self._counted_records.effects.set_signature(backlog.signature or as_bytes(store.applied.signature))
        self.rewound = rewind.epoch

    def _keeps(self, rewind: Rewind) -> bool:
        """Return whether this store had applied effects of a branch when the rewind was written, and keeps them.

        A worker that only reads them now, because it is new, was away or was rebuilt, goes back like any other, also if
        it is started again meanwhile.  So does one whose entries stay in the log, where only their effects give way:
        then no newer cut belongs to the rewind.
        """
        applied = self._store.applied
        is_branch = rewind.index < applied.index and rewind.cut > max(applied.cut, applied.epoch)
        if rewind.kept_at is None or not is_branch:
            return False
        had_applied = self._started_from > rewind.index and self._store.touched_at < rewind.kept_at
        return rewind.kept_at > self._started_at or had_applied

    def _keep(self, rewind: Rewind, half: Sequence[Effect]) -> None:
        """Stay at the applied state, and save that; `half`: effects of which parts may be in the store."""
        store = self._store
        if half:
            undo_half(store, half)
        branch = KeptBranch(fork=rewind.index, epoch=rewind.epoch, store=store.name)
        save_branch(self._data_dir, branch)
        self._health.branch = branch
        log.error("branch_kept", fork=rewind.index, applied=store.applied.index, epoch=rewind.epoch)

    def take_up(self) -> None:
        """Put undone entries back into the backlog, if they are of the current log.

        They are read from the topic when effects or a duty need them, and not before the cut, which drops
        nearly all of them.
        """
        hearing = self._counted_records
        if not (
            self.owes and hearing.is_cut and (hearing.backlog.has_effects or self._evaluator_term.has_duty)
        ):
            return
        self.owes = False
        applied, first = self._store.applied, hearing.backlog.first_entry
        last = first.index - 1 if first else hearing.agreed.last.index
        if last <= applied.index:
            return
        try:
            entries = dropwhile(lambda entry: entry.index > last, self._past.entries(applied.in_agreed))
            undone = takewhile(lambda entry: entry.index > applied.index, entries)
            hearing.backlog.put_before(undone, applied.in_agreed)
        except StateError as error:
            self._give_up(error)

    def _give_up(self, error: StateError) -> None:
        log.error("rewind_failed", reason=str(error))
        self.is_lost = True
        self._host.rebuild(f"the store cannot go back: {error}")
