"""The duty: which data centre evaluates.

A view assigns the duty to its *home*, the data centre whose effects topic all others copy.  A handover in the
home's topic records this, once the home has all effects that any data centre of the view has.  If no worker
is left there to evaluate, its master proposes an EVALUATOR entry that names the next data centre.  Once that
entry is agreed, the home's master finds out where the effects of that data centre end, and writes a handover
into the home's topic: after it, only effects of the new term count, in every copy.  Then a worker of that
data centre starts to evaluate, and the home copies its effects from the end that it found.

The handover is the only place where one term ends and the next one begins, so an evaluator of the old term
may wake up at any time.  Only the data centre that has the duty proposes to give it away: a peer cannot tell
a dead evaluator from one that is busy with a large update.  Before it proposes, it waits until the home has
copied all effects that were evaluated here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import wall
from quadlog.core.model import Payload, Transaction, TransactionKind, payload_digest
from quadlog.core.records import Handover, Term
from quadlog.failpoints import Failpoint, visit
from quadlog.master.effects.lineage import follows, is_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.model import EffectsPosition, Entry, View
    from quadlog.master.workers.worker_registry import WorkerRegistry

log = structlog.get_logger()

AGAIN_MS: Final = 1000.0
"""Milliseconds until a handover that was not read back is written again, and the shortest pause between two moves."""

UNHEARD_MS: Final = 3000.0
"""Milliseconds that a data centre from which no worker was heard yet waits for one."""

JSON: Final = "application/json"

LONGEST_MS: Final = 60_000.0
"""The longest pause between two moves while no data centre evaluates: each move is an entry in the log."""


class Duty:
    """The duty as agreed, and as the effects topic records it.

    Owned by the node's thread; times are steady milliseconds.
    """

    def __init__(
        self,
        *,
        dc: str,
        view: View,
        dcs: Iterable[str],
        agreed: Handover,
        ledger: EffectsLedger,
        worker_registry: WorkerRegistry,
        locate: Callable[[Handover], None],
        hand_over: Callable[[Handover], None],
        propose: Callable[[Handover, str], None],
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """Resume from the newest agreed duty, in the installed view of these data centres.

        `ledger` follows the own effects topic, which is the home's or a copy of it.  `locate` finds the end of the
        effects of the data centre that gets the duty, and has `located` called; `hand_over` writes a handover to the
        own topic; `propose` proposes to move the duty to another data centre.  `witnesses` never get the duty.
        """
        self._witnesses: Final = witnesses
        self._full = frozenset[str]()
        self.agreed = agreed
        self._dc, self._ledger, self._worker_registry = dc, ledger, worker_registry
        self._locate, self._hand_over, self._propose = locate, hand_over, propose
        self._said_at = self._proposed_at = float("-inf")
        self._lone_since: float | None = None
        self._decided, self._moves = ledger.index, 0
        self.install(view, dcs)

    @property
    def is_here(self) -> bool:
        """True if a worker of this data centre must evaluate, by both the agreed log and the effects topic."""
        return self._is_heard and self.agreed.dc == self._dc

    @property
    def _is_heard(self) -> bool:
        return self._ledger.duty.term == self.agreed.term

    def install(self, view: View, dcs: Iterable[str]) -> None:
        """Give the duty to the home of a newly installed view of these data centres, whichever had it before."""
        self._view, self._dcs = view, [view.home, *sorted(set(dcs) - {view.home})]
        if self.agreed.epoch != view.epoch:
            self.agreed = Handover(index=0, term=view.id, dc=view.home, epoch=view.epoch)
            self._said_at = self._proposed_at = float("-inf")
            self._lone_since, self._moves = None, 0
            log.info("duty_assigned", dc=view.home, epoch=view.epoch)

    def note(self, entries: Iterable[Entry]) -> None:
        """Apply agreed entries that move the duty.

        A move counts only if it moves the newest duty at that point: two masters may propose at the same
        time.
        """
        for entry in entries:
            if entry.kind is not TransactionKind.EVALUATOR:
                continue
            dc, term = entry.options.get("dc", ""), entry.options.get("term", "")
            if dc in self._dcs and term == self.agreed.term.hex():
                self.agreed = Handover(index=entry.index, term=entry.chain, dc=dc, epoch=self.agreed.epoch)
                self._moves += 1
                self._said_at = self._proposed_at = float("-inf")
                log.info("duty_moved", dc=dc, index=entry.index)

    def tick(
        self,
        moment: float,
        *,
        last_index: int,
        is_whole: bool,
        others: Mapping[str, Iterable[EffectsPosition]],
        is_full: bool = False,
        full: frozenset[str] = frozenset(),
    ) -> None:
        """Write the handover or propose a move if one is due; for the master that leads.

        Args:
            moment: the current time.
            last_index: index of the last agreed entry.
            is_whole: True if this data centre has all effects that must precede the view's own term.
            others: effects as reported by the masters' posts, by data centre, for the other data centres of
                the view.
            is_full: True if the own effects topic accepts no records.
            full: other data centres whose effects topics accept no records.

        """
        self._full = full
        if not self._is_heard:
            is_due = self._dc == self._dcs[0] and moment - self._said_at >= AGAIN_MS
            if is_due and (is_whole or is_of(self._ledger.duty.terms, self._view)):
                self._said_at = moment
                if self.agreed.dc == self._dc:
                    self.located(self.agreed)
                else:
                    self._locate(self.agreed)
        elif (
            self._is_lost(moment, last_index, is_full=is_full)
            and self._is_copied(others)
            and moment - self._proposed_at >= LONGEST_MS
        ):
            self._proposed_at = moment
            following = self._following
            log.warning("handover_proposed", next=following, is_full=is_full)
            self._propose(self.agreed, following)

    @property
    def _following(self) -> str:
        """The data centre that gets the duty next; this one if there is no other, or all others are witnesses."""
        at = self._dcs.index(self._dc) + 1
        others = [dc for dc in (*self._dcs[at:], *self._dcs[: at - 1]) if dc not in self._witnesses]
        return next((dc for dc in others if dc not in self._full), (others or [self._dc])[0])

    def located(self, handover: Handover) -> None:
        """Write the handover, now that the end of the effects of the data centre that gets the duty is known."""
        if handover.term == self.agreed.term and not self._is_heard:
            visit(Failpoint.BEFORE_HANDOVER)
            terms, view = self._ledger.duty.terms, self._view
            if not is_of(terms, view):
                terms = (*terms, Term(view.epoch, view.id, self._ledger.index))
            self._hand_over(replace(handover, terms=terms))

    def _is_copied(self, others: Mapping[str, Iterable[EffectsPosition]]) -> bool:
        """Return whether the home has all effects that are here.

        Effects that the home lacks would be evaluated again elsewhere, and would still count here: nothing in
        this topic separates them from the handover.
        """
        home, index = self._dcs[0], self._ledger.index
        return home == self._dc or any(
            follows(there, self._view) and there.index >= index for there in others.get(home, ())
        )

    def _is_lost(self, moment: float, last_index: int, *, is_full: bool) -> bool:
        """Return whether the duty must move: entries wait, and no worker here can evaluate or publish them.

        True only after the condition has lasted long enough.  If the home itself cannot publish effects, the
        duty cannot be handed over either: then the next view has another home.
        """
        if self._ledger.index > self._decided:
            self._decided, self._moves = self._ledger.index, 0
        waits = self._ledger.index < last_index
        is_able = bool(self._worker_registry.live(moment)) and not (is_full and self._dc != self._dcs[0])
        if self._dc != self.agreed.dc or self._following == self._dc or not waits or is_able:
            self._lone_since = None
            return False
        if self._lone_since is None:
            self._lone_since = moment
        patience = 0.0 if self._worker_registry.all() else UNHEARD_MS
        if self._moves >= len(self._dcs):  # no data centre evaluates
            patience = min(AGAIN_MS * 2 ** (self._moves - len(self._dcs)), LONGEST_MS)
        return moment - self._lone_since >= patience


def move_of(duty: Handover, dc: str, *, node: str, node_dc: str, new_id: bytes) -> Payload:
    """Return the payload of the entry that moves a duty to another data centre."""
    options = {"dc": dc, "term": duty.term.hex()}
    body, created = json.dumps(options).encode(), wall()
    digest = payload_digest(origin=node, created=created, media_type=JSON, traceparent="", body=body)
    return Payload(
        transaction=Transaction(id=new_id, digest=digest, kind=TransactionKind.EVALUATOR, options=options),
        origin=node,
        origin_dc=node_dc,
        created=created,
        media_type=JSON,
        body=body,
    )
