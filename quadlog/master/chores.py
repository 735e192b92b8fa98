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
    from quadlog.core.model import Handover
    from quadlog.master.copies import Copies
    from quadlog.master.crew import Crew
    from quadlog.master.duty import Duty
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

    appoint: Callable[[str, Handover], None]
    """Asks the worker at a URL to evaluate, in a term."""
    mirrored: Callable[[str], int]
    """Offset of the record in this topic that the own topic's last copy of one is of, -1 if it is not known;
    Unavailable if Kafka does not tell."""
    settle: Callable[[], None]
    """Waits until all that was said is acknowledged."""
    read: Callable[[str, int], None]
    """Has a topic of a peer read from an offset on, again or for the first time."""
    leave: Callable[[str], None]
    """Has a topic of a peer read no more."""


class Chores:
    """The agreed topic, the copies of effects, the worker that evaluates.  Owned by the node's thread.

    Peers' payloads are copied by the node itself; `leads` says whether it is to.
    """

    def __init__(
        self,
        *,
        lead: Lead,
        scribe: Scribe,
        copies: Copies,
        duty: Duty,
        ledger: EffectsLedger,
        crew: Crew,
        peers: Mapping[str, Intake],
        sources: Mapping[str, int],
        others: Mapping[str, str],
        reach: Reach,
    ) -> None:
        """Begin by standing by.

        Args:
            lead: whose turn it is.
            scribe: writes the agreed topic.
            copies: of effects.
            duty: which data centre evaluates.
            ledger: how far effects are heard and copied.
            crew: the workers here.
            peers: payloads topics of other data centres.
            sources: topics that effects are copied from, and the offset of the last record that was.
            others: in the home the effects topic of each other data centre, copied from while the duty is there.
            reach: what taking over needs.

        """
        self.scribe: Final = scribe
        self.leads = False
        self.copies: Final = copies
        self.duty: Final = duty
        self._lead, self._ledger, self._crew = lead, ledger, crew
        self._peers, self._reach = peers, reach
        self._looked_at = float("-inf")
        self._copied, self._others = dict(sources), others
        self._rewound: set[str] = set()
        self._followed = ledger.duty

    def tend(self, heard_at: Mapping[str, float], moment: float, *, last_index: int) -> None:
        """See now and then whose turn it is, and that a worker evaluates.

        Args:
            heard_at: when other masters were heard last.
            moment: milliseconds of the steady clock, as those.
            last_index: of the last agreed entry.

        """
        if moment - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment
        mine = self._lead.is_mine(heard_at, moment)
        if mine != self.leads:
            self._change(mine=mine)
        if not self.leads:
            return
        self.duty.tend(moment, last_index=last_index)
        if self.duty.is_here and (worker := self._crew.to_appoint(moment)):
            log.info("asking a worker to evaluate", worker=worker.beat.worker)
            self._reach.appoint(worker.beat.url, self.duty.agreed)

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
        for topic in self._copied:
            # Nothing was to be copied before the term began; of the home's topic, where the duty is here, nothing
            # before the handover.
            begins = self._ledger.duty.start if self._others else self._ledger.duty_at
            self._copied[topic] = max(self._reach.mirrored(topic), begins - 1)
            self._rewound.add(topic)
            self._reach.read(topic, self._copied[topic] + 1)
        for topic, intake in self._peers.items():
            if intake.awaited is not None:
                self._reach.read(topic, intake.awaited)

    def follow(self, duty: Handover) -> None:
        """In the home: read the effects of the data centre that has the duty now, and of no other."""
        if duty is self._followed:
            return
        self._followed = duty
        source = self._others.get(duty.dc)
        for topic in [known for known in self._copied if self._others and known != source]:
            del self._copied[topic]
            self._reach.leave(topic)
        if source is not None and source not in self._copied:
            self._copied[source] = duty.start - 1
            self._reach.read(source, duty.start)

    def copy(self, record: Record) -> None:
        """A record of a source: into the own topic, once, in order."""
        topic, offset = record.topic, record.offset
        if not self.leads or topic not in self._copied or offset <= self._copied[topic]:
            return
        if topic in self._rewound and offset > self._copied[topic] + 1:
            return  # read before the topic was rewound: it comes again
        self._rewound.discard(topic)
        if self.copies.wants(record):
            self.copies.send(record)
            visit(Failpoint.HALF_MIRROR, self._reach.settle)
        self._copied[topic] = offset
