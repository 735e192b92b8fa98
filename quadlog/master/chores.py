"""Chores: what one master of a data centre does for all of it, while the others stand by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.errors import Unavailable
from quadlog.failpoints import Failpoint, visit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from consumers.effects import EffectsLedger
    from producers.effects import EffectsMirror
    from quadlog.master.crew import Crew
    from quadlog.master.intake import Intake
    from quadlog.master.lead import Lead
    from quadlog.master.scribe import Scribe
    from quadlog.ports import Record

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""How often it is looked at who leads, and whether a worker evaluates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What taking over needs of the world."""

    appoint: Callable[[str], None] | None
    """Asks the worker at a URL to evaluate; None outside the evaluating data centre."""
    mirrored: Callable[[], int]
    """Offset of the effect record that the own topic's last copy is of; Unavailable if Kafka does not tell."""
    settle: Callable[[], None]
    """Waits until all that was said is acknowledged."""
    rewind: Callable[[str, int], None]
    """Has a topic of a peer read again from an offset on."""


class Chores:
    """The agreed topic, the copies of effects, the worker that evaluates.  Owned by the node's thread.

    Peers' payloads are copied by the node itself; `leads` says whether it is to.
    """

    def __init__(
        self,
        *,
        lead: Lead,
        scribe: Scribe,
        mirror: EffectsMirror | None,
        ledger: EffectsLedger,
        crew: Crew,
        peers: Mapping[str, Intake],
        effects: str,
        reach: Reach,
    ) -> None:
        """Begin by standing by.

        Args:
            lead: whose turn it is.
            scribe: writes the agreed topic.
            mirror: copies effects; None in the evaluating data centre: its worker writes there itself.
            ledger: how far effects are heard and copied.
            crew: the workers here.
            peers: payloads topics of other data centres.
            effects: the evaluating data centre's topic.
            reach: what taking over needs.

        """
        self.scribe: Final = scribe
        self.leads = False
        self._lead, self._mirror, self._ledger, self._crew = lead, mirror, ledger, crew
        self._peers, self._effects, self._reach = peers, effects, reach
        self._looked_at = float("-inf")
        self._rewound = False

    def tend(self, heard_at: Mapping[str, float], moment: float) -> None:
        """See now and then whose turn it is, and that a worker evaluates.

        Args:
            heard_at: when other masters were heard last.
            moment: milliseconds of the steady clock, as those.

        """
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        mine = self._lead.is_mine(heard_at, moment)
        if mine != self.leads:
            self._change(mine=mine)
        if self.leads and self._reach.appoint and (worker := self._crew.to_appoint(moment)):
            log.info("asking a worker to evaluate", worker=worker.beat.worker)
            self._reach.appoint(worker.beat.url)

    def _change(self, *, mine: bool) -> None:
        """Take over, or stand by.  What cannot be taken over now is tried again at the next look."""
        if mine and self._lead.has_company:
            try:
                self._take_up_copying()
            except Unavailable as error:
                log.warning("cannot take over yet", reason=str(error))
                return
        log.info("leads its data centre" if mine else "stands by", unsaid=len(self.scribe))
        self.leads = mine
        self.scribe.lead(mine=mine)

    def _take_up_copying(self) -> None:
        """What the other master heard and did not copy is read again, from where its copies end."""
        if self._mirror is not None:
            self._ledger.mirrored = self._reach.mirrored()
            self._rewound = True
            self._reach.rewind(self._effects, self._ledger.mirrored + 1)
        for topic, intake in self._peers.items():
            if intake.awaited is not None:
                self._reach.rewind(topic, intake.awaited)

    def copy(self, record: Record) -> None:
        """An effect or a fence of the evaluating data centre: into the own topic, once, in order."""
        if self._mirror is None or not self.leads or record.offset <= self._ledger.mirrored:
            return
        if self._rewound and record.offset > self._ledger.mirrored + 1:
            return  # read before the topic was rewound: it comes again
        self._rewound = False
        self._mirror.copy(record)
        visit(Failpoint.HALF_MIRROR, self._reach.settle)
        self._ledger.mirrored = record.offset
