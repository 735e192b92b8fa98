"""Follower of the own effects topic: up to which entry it has effects of the current log, and their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from consumers.effects import epoch_of
from quadlog.core.messages import FoundSynchronous
from quadlog.core.model import OF_A_BRANCH, LogPosition
from quadlog.master.effects.lineage import held, is_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.model import EffectsPosition, HardState, View
    from quadlog.core.records import Undecided
    from quadlog.master.clients.pending_requests import PendingRequests
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Record


log = structlog.get_logger()


class EffectsFollower:
    """Follows the own effects topic.  Owned by the node's thread."""

    def __init__(
        self,
        ledger: EffectsLedger,
        *,
        store: MasterStore,
        topic: str,
        pending_requests: PendingRequests,
        worker_registry: WorkerRegistry,
        dc: str = "",
        standing: HardState | None = None,
        read: Callable[[int], None] = lambda _: None,
        pending_effects: Callable[[], int | None] = lambda: None,
        note: Callable[[FoundSynchronous], None] = lambda _: None,
    ) -> None:
        """Resume at the saved offset of the topic.

        `read` reads the topic again from an offset on.  `pending_effects` returns the index up to which effects are
        known that the topic lacks.  `note` is called with each entry that is found to be synchronous by its effect.
        """
        self.ledger: Final = ledger
        self.topic: Final = topic
        self.heard = store.position(topic) or 0
        """Offset after the last record."""
        self._store, self._pending_requests, self._worker_registry = store, pending_requests, worker_registry
        self._dc, self._read, self._pending_effects = dc, read, pending_effects
        self._note = note
        self._view: View | None = None
        self.is_held = False
        """True while no records are accepted, until it is known where the next view has its home."""
        self._has_passed = False
        """True if a record arrived while `is_held` was set."""
        self._awaited: int | None = None
        """Offset that is read again next; records at other offsets were read before."""
        self.floor = store.floor()
        """Epoch of the view that last moved the home away from here.

        What earlier views write here has been void since.
        """
        if standing is not None:
            self.apply_standing(standing)
        cut = store.last_cut()
        self._forked = cut.index if cut is not None else None
        """Index of the last entry before the newest cut; None if the effects are known to be of the log after it."""
        self._inform_workers()

    def apply_standing(self, standing: HardState) -> None:
        """Apply a new standing of this master, which is about to be saved.

        A home that loses its role while it is running reports with its vote how far its effects go; the next
        home has all of these before it decides anything.  Therefore no more of them are accepted here,
        although the old evaluator may write more.  Once the view is installed, records of earlier views are
        never accepted again, until a rewind marks where the next home's effects begin.
        """
        before, self._view = self._view, standing.view
        ballot = standing.pending
        if before is not None and before.home == self._dc != standing.view.home:
            self.floor = standing.view.epoch
            log.info("home_moved", home=standing.view.home, effects=self.ledger.index)
            self._inform_workers()
        is_held = ballot is not None and standing.view.home == self._dc != ballot.home
        if self.is_held and not is_held and self._has_passed:
            self._has_passed, self._awaited = False, self.heard
            self._read(self.heard)
        self.is_held = is_held

    @property
    def floored(self) -> tuple[int, int] | None:
        """Epoch and index after which effects of earlier views are void here.

        None if a rewind in the topic says so, or if none are void.
        """
        return (self.floor, self.ledger.index) if self._is_floored else None

    @property
    def _is_floored(self) -> bool:
        return self.ledger.rewound < self.floor

    @property
    def index(self) -> int:
        """Index of the last entry whose effect is here.

        Effects of a branch that was cut do not count: they will be revoked.
        """
        index, forked = self.ledger.index, self._forked
        if forked is None or index <= forked:
            return index
        after, entry = self.ledger.state_after(index), self._store.entry(index)
        if after is not None and (entry is None or after.entry_chain != entry[0]):
            return forked
        self._forked = None
        return index

    @property
    def fork(self) -> int | None:
        """Index of the last effect that belongs to the log, if later ones are of a branch; None if all belong to it."""
        index = self.index
        return index if index < self.ledger.index else None

    @property
    def left(self) -> int | None:
        """Index of the last effect that counts, if void ones may follow it without a rewind; None otherwise."""
        return self.ledger.index if self.fork is None and self._is_floored else self.fork

    def follows(self, view: View) -> bool:
        """Return whether the effects here are those of the log, and the view's handover was read behind them."""
        return self.fork is None and is_of(self.ledger.duty.terms, view)

    @property
    def held(self) -> EffectsPosition:
        """State of these effects as posts report it."""
        if self.fork is not None:
            return OF_A_BRANCH
        return held(self.ledger.duty.terms, self.ledger.index)

    def truncate(self, index: int) -> None:
        """Note that the log was replaced after the entry at `index`."""
        self._forked = index

    def on_record(self, record: Record, *, agreed: int) -> bool:
        """Apply the next record of the topic; return whether it changed the history that is followed, or the duty.

        `agreed`: index of the last entry of the log.

        Raises:
            ForeignRecord: another program wrote it.

        """
        ledger = self.ledger
        if self.is_held:
            self._has_passed = True
            return False
        if self._awaited is not None:
            if record.offset != self._awaited:
                return False
            self._awaited = None
        self.heard = record.offset + 1  # also for a foreign record: copying waits for the end
        if self._is_floored and epoch_of(record) < self.floor:
            return False
        before, known = (ledger.rewound, ledger.duty), (ledger.undecided, ledger.synchronous)
        if rejection := ledger.on_record(record):
            index, reason = rejection
            if index <= self.index or index > agreed:
                self._pending_requests.reject(index, reason)
        if ledger.undecided is not known[0]:
            self._found(ledger.undecided)
        if ledger.synchronous != known[1]:
            self._pending_requests.note_synchronous(ledger.synchronous)
        has_turned = (ledger.rewound, ledger.duty) != before
        self._inform_workers()
        if has_turned:
            self._pending_requests.go_back(max(ledger.index, self._pending_effects() or 0))
        return has_turned

    def _found(self, undecided: Undecided | None) -> None:
        """Report that an entry of this log is synchronous by its effect."""
        entry = None if undecided is None else self._store.entry(undecided.index)
        if undecided is None or entry is None or entry[0] != undecided.entry_chain:
            return
        self._pending_requests.note_synchronous(undecided.index)
        self._note(FoundSynchronous(LogPosition(undecided.index, undecided.entry_chain), undecided.id))

    def _inform_workers(self) -> None:
        is_floored, ledger = self._is_floored, self.ledger
        if ledger.seed is not None:
            self._worker_registry.seed = ledger.seed.signature
        self._worker_registry.rewound = (
            (self.floor, ledger.index) if is_floored else (ledger.rewound, ledger.stays)
        )
