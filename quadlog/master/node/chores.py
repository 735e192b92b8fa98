"""Chores: what one master of a data centre does for all of it, while the others stand by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quadlog.core.model import Held, View
    from quadlog.core.records import Handover
    from quadlog.master.effects.copying import Copying
    from quadlog.master.effects.duty import Duty
    from quadlog.master.effects.foreseen import Foreseen
    from quadlog.master.effects.fullness import Fullness
    from quadlog.master.log.lead import Lead
    from quadlog.master.log.scribe import Scribe
    from quadlog.master.payloads.intake import Intake
    from quadlog.master.workers.crew import Crew

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""How often it is looked at who leads, and whether a worker evaluates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What there is to be seen at a look.  Times are steady milliseconds."""

    view: View
    """Installed here."""
    is_voting: bool
    """Whether a vote was cast for another one, that is not installed yet."""
    heard_at: Mapping[str, float]
    """When other masters were heard last."""
    last_index: int
    """Of the last agreed entry."""
    effects_heard: int
    """Offset behind the last record of the own effects that was heard."""
    fork: int | None
    """Index of the last own effect that is one of the log, where those behind it are of a branch; None: all are."""
    effects_of: Mapping[str, Iterable[Held]]
    """Of the other data centres of the view what their masters' last posts say."""
    ways: Mapping[str, Sequence[str]]
    """By way of which data centres those are heard of that are out of reach."""
    is_held: bool
    """Whether own effects are not taken in until it is known where the next view has its home."""
    full: frozenset[str]
    """Other data centres whose effects topics take no records, as their masters say."""
    floored: tuple[int, int] | None
    """Epoch and index behind which effects of earlier views are void here, and no rewind says so yet."""


class Chores:
    """The agreed topic, the copies of effects, the worker that evaluates.  Owned by the node's thread.

    Peers' payloads are copied by the node itself; `leads` says whether it is to.
    """

    def __init__(
        self,
        *,
        lead: Lead,
        scribe: Scribe,
        copying: Copying,
        duty: Duty,
        crew: Crew,
        peers: Mapping[str, Intake],
        read: Callable[[str, int], None],
        appoint: Callable[[str, Handover], None],
        fullness: Fullness,
        foreseen: Foreseen,
        tell_floor: Callable[[str, tuple[int, int]], None],
    ) -> None:
        """Begin by standing by.

        Args:
            lead: whose turn it is.
            scribe: writes the agreed topic.
            copying: of effects.
            duty: which data centre evaluates.
            crew: the workers here.
            peers: payloads topics of other data centres.
            read: has a payloads topic of a peer read from an offset on, again.
            appoint: asks the worker at a URL to evaluate, in a term.
            fullness: whether the own effects topic takes records.
            foreseen: what it will hold when it does.
            tell_floor: tells the worker at a URL which effects are void.

        """
        self.scribe: Final = scribe
        self.leads = False
        self.copying: Final = copying
        self.duty: Final = duty
        self.fullness: Final = fullness
        self.foreseen: Final = foreseen
        self._tell_floor = tell_floor
        self._was_full = False
        self._lead, self._crew = lead, crew
        self.read: Final = read
        self._peers, self._appoint = peers, appoint
        self._looked_at = float("-inf")

    def tend(self, scene: Callable[[], Scene], moment: float) -> None:
        """See now and then whose turn it is, what is to be copied, and that a worker evaluates."""
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        there = scene()
        mine = self._lead.is_mine(there.heard_at, moment)
        if mine != self.leads:
            self._change(mine=mine)
        if not self.leads:
            return
        if there.floored is not None:
            for one in self._crew.all():
                self._tell_floor(one.beat.url, there.floored)
        self._tend_own_topic(moment)
        is_whole = self.copying.tend(
            there.view,
            moment,
            is_held=there.is_voting,
            heard=there.effects_heard,
            fork=there.fork,
            others=there.effects_of,
            ways=there.ways,
            is_full=self.fullness.is_full,
        )
        self.duty.tend(
            moment,
            last_index=there.last_index,
            is_whole=is_whole and not there.is_voting,
            others=there.effects_of,
            is_full=self.fullness.is_full,
            full=there.full,
        )
        # Where it is full the duty goes elsewhere; if it cannot, it is tried again here.
        is_able = not there.is_held and (not self.fullness.is_full or self.fullness.lasts(moment))
        if self.duty.is_here and is_able and (worker := self._crew.to_appoint(moment, self.duty.agreed.term)):
            log.info("worker_asked_to_evaluate", worker=worker.beat.worker)
            self._appoint(worker.beat.url, self.duty.agreed)

    def _tend_own_topic(self, moment: float) -> None:
        """Where it is full what is copied is followed beside it; where it no longer is all is said that it lacks."""
        is_news = self.fullness.is_full and not self._was_full
        self._was_full = self.fullness.is_full
        if self.fullness.tries_again(moment) or is_news:
            self.copying.begin_again()

    def look_soon(self) -> None:
        """Something changed: the next look is due."""
        self._looked_at = float("-inf")

    def _change(self, *, mine: bool) -> None:
        """Take over, or stand by."""
        log.info("leadership_taken" if mine else "leadership_released", unsaid=len(self.scribe))
        self.leads = mine
        self.scribe.lead(mine=mine)
        if not mine:
            self.copying.stop()
            return
        for topic, intake in self._peers.items():
            if intake.awaited is not None:
                self.read(topic, intake.awaited)
