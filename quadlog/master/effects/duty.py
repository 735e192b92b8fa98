"""The duty: which data centre evaluates.

A view gives it to its *home*, the data centre whose effects topic all others copy: a handover says so there, once
the home has all effects that any data centre of the view has.  When no worker is left there to evaluate, its master
proposes an EVALUATOR entry that names the next data centre.  Once that is agreed, the home's master looks where the
effects of that data centre end, and writes a handover into the home's topic: of what stands behind it only effects of
the new term count, in every copy.  Then a worker there takes over, and the home copies what it says, from where it
looked on.

The handover is the one place where one term ends and the next begins, so an evaluator of the old term may wake up
whenever it likes.  Only the data centre that has the duty proposes to give it away: a peer cannot tell a dead
evaluator from one that is busy with a large update.  It waits until the home has copied all that was evaluated here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import wall
from quadlog.core.model import Kind, Payload, Transaction, payload_digest
from quadlog.core.records import Handover, Term
from quadlog.failpoints import Failpoint, visit
from quadlog.master.effects.lineage import follows, is_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.model import Entry, Held, View
    from quadlog.master.workers.crew import Crew

log = structlog.get_logger()

AGAIN_MS: Final = 1000.0
"""Until what was said and not heard is said again."""

UNHEARD_MS: Final = 3000.0
"""How long a data centre of which no worker was heard yet waits for one."""

JSON: Final = "application/json"

LONGEST_MS: Final = 60_000.0
"""Between two moves while nobody evaluates anywhere: each is an entry in the log."""


class Duty:
    """As agreed, and as the effects tell.  Owned by the node's thread; times are steady milliseconds."""

    def __init__(
        self,
        *,
        dc: str,
        view: View,
        dcs: Iterable[str],
        agreed: Handover,
        ledger: EffectsLedger,
        crew: Crew,
        locate: Callable[[Handover], None],
        hand_over: Callable[[Handover], None],
        propose: Callable[[Handover, str], None],
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """Go on.

        Args:
            dc: this data centre.
            view: installed here.
            dcs: its data centres.
            agreed: the newest that is agreed.
            ledger: follows the home's effects.
            crew: the workers here.
            locate: finds where the effects of the data centre end that a duty goes to, and has `located` called.
            hand_over: says it in the own topic.
            propose: proposes that a duty goes on to another data centre.
            witnesses: data centres that evaluate nothing: no duty goes on to them.

        """
        self._witnesses: Final = witnesses
        self._full = frozenset[str]()
        self.agreed = agreed
        self._dc, self._ledger, self._crew = dc, ledger, crew
        self._locate, self._hand_over, self._propose = locate, hand_over, propose
        self._said_at = self._proposed_at = float("-inf")
        self._lone_since: float | None = None
        self._decided, self._moves = ledger.index, 0
        self.install(view, dcs)

    @property
    def is_here(self) -> bool:
        """Is a worker of this data centre to evaluate, as agreed and as the effects tell?"""
        return self._is_heard and self.agreed.dc == self._dc

    @property
    def _is_heard(self) -> bool:
        return self._ledger.duty.term == self.agreed.term

    def install(self, view: View, dcs: Iterable[str]) -> None:
        """A view was installed: its home has the duty, whoever had it before.

        Args:
            view: that one.
            dcs: its data centres.

        """
        self._view, self._dcs = view, [view.home, *sorted(set(dcs) - {view.home})]
        if self.agreed.epoch != view.epoch:
            self.agreed = Handover(index=0, term=view.id, dc=view.home, epoch=view.epoch)
            self._said_at = self._proposed_at = float("-inf")
            self._lone_since, self._moves = None, 0
            log.info("duty_assigned", dc=view.home, epoch=view.epoch)

    def note(self, entries: Iterable[Entry]) -> None:
        """Entries are agreed.  A move counts if it moves what is the newest then: two masters may propose at once."""
        for entry in entries:
            if entry.kind is not Kind.EVALUATOR:
                continue
            dc, term = entry.options.get("dc", ""), entry.options.get("term", "")
            if dc in self._dcs and term == self.agreed.term.hex():
                self.agreed = Handover(index=entry.index, term=entry.chain, dc=dc, epoch=self.agreed.epoch)
                self._moves += 1
                self._said_at = self._proposed_at = float("-inf")
                log.info("duty_moved", dc=dc, index=entry.index)

    def tend(
        self,
        moment: float,
        *,
        last_index: int,
        is_whole: bool,
        others: Mapping[str, Iterable[Held]],
        is_full: bool = False,
        full: frozenset[str] = frozenset(),
    ) -> None:
        """Say and propose what there is to be said; for the master that leads.

        Args:
            moment: now.
            last_index: of the last agreed entry.
            is_whole: whether all effects are here behind which the view's own term begins.
            others: of the other data centres of the view what their masters' posts say of effects.
            is_full: whether the own effects topic takes no records.
            full: other data centres whose topics take none.

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
        """Where the duty goes on to from here; this data centre: nowhere."""
        at = self._dcs.index(self._dc) + 1
        others = [dc for dc in (*self._dcs[at:], *self._dcs[: at - 1]) if dc not in self._witnesses]
        return next((dc for dc in others if dc not in self._full), (others or [self._dc])[0])

    def located(self, handover: Handover) -> None:
        """It is known where the effects of the data centre end that has the duty from now on: say so."""
        if handover.term == self.agreed.term and not self._is_heard:
            visit(Failpoint.BEFORE_HANDOVER)
            terms, view = self._ledger.duty.terms, self._view
            if not is_of(terms, view):
                terms = (*terms, Term(view.epoch, view.id, self._ledger.index))
            self._hand_over(replace(handover, terms=terms))

    def _is_copied(self, others: Mapping[str, Iterable[Held]]) -> bool:
        """Whether the home has all effects that are here.

        What it lacks would be evaluated again elsewhere, and count here all the same: nothing here stands between them
        and the handover.
        """
        home, index = self._dcs[0], self._ledger.index
        return home == self._dc or any(
            follows(there, self._view) and there.index >= index for there in others.get(home, ())
        )

    def _is_lost(self, moment: float, last_index: int, *, is_full: bool) -> bool:
        """Is there something to evaluate, and nobody here for long enough, or nowhere to say what comes of it?

        Where a home has nowhere to say it, the duty cannot be handed over either: the next view has another home.
        """
        if self._ledger.index > self._decided:
            self._decided, self._moves = self._ledger.index, 0
        waits = self._ledger.index < last_index
        is_able = bool(self._crew.live(moment)) and not (is_full and self._dc != self._dcs[0])
        if self._dc != self.agreed.dc or self._following == self._dc or not waits or is_able:
            self._lone_since = None
            return False
        if self._lone_since is None:
            self._lone_since = moment
        patience = 0.0 if self._crew.all() else UNHEARD_MS
        if self._moves >= len(self._dcs):  # nobody evaluates anywhere
            patience = min(AGAIN_MS * 2 ** (self._moves - len(self._dcs)), LONGEST_MS)
        return moment - self._lone_since >= patience


def move_of(duty: Handover, dc: str, *, node: str, node_dc: str, new_id: bytes) -> Payload:
    """The payload of the entry that moves a duty to another data centre."""
    options = {"dc": dc, "term": duty.term.hex()}
    body, created = json.dumps(options).encode(), wall()
    digest = payload_digest(origin=node, created=created, media_type=JSON, traceparent="", body=body)
    return Payload(
        transaction=Transaction(id=new_id, digest=digest, kind=Kind.EVALUATOR, options=options),
        origin=node,
        origin_dc=node_dc,
        created=created,
        media_type=JSON,
        body=body,
    )
