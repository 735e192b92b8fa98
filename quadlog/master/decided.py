"""Decided: up to where the own data centre's topic has effects of the log as it is, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.model import OF_A_BRANCH
from quadlog.master.lineage import held

if TYPE_CHECKING:
    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.model import Held
    from quadlog.core.records import Seed
    from quadlog.master.crew import Crew
    from quadlog.master.desk import Desk
    from quadlog.ports import Record
    from quadlog.store import MasterStore


class Decided:
    """Owned by the node's thread."""

    def __init__(
        self, ledger: EffectsLedger, *, store: MasterStore, topic: str, desk: Desk, crew: Crew
    ) -> None:
        """Go on.

        Args:
            ledger: follows the topic.
            store: has the log, and how far the topic was heard.
            topic: the own effects.
            desk: is told what was rejected, and what is decided anew.
            crew: the workers here: how far back they have to go.

        """
        self.ledger: Final = ledger
        self.topic: Final = topic
        self.heard = store.position(topic) or 0
        """Offset behind the last record."""
        self._store, self._desk, self._crew = store, desk, crew
        cut = store.cut()
        self._forked = cut.index if cut is not None else None
        """The last entry before the newest cut, until effects are known to be those of the log behind it."""
        self._tell_the_crew()

    @property
    def seed(self) -> Seed | None:
        """What the log begins with, if that is known to be a seed."""
        return self.ledger.seed

    @property
    def index(self) -> int:
        """Up to which entry effects are here; those of a branch that was cut are to be taken back, and do not count."""
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
        """Index of the last effect that is one of the log, where those behind it are of a branch; None: all are."""
        index = self.index
        return index if index < self.ledger.index else None

    @property
    def held(self) -> Held:
        """What posts say of these effects."""
        if self.fork is not None:
            return OF_A_BRANCH
        return held(self.ledger.duty.terms, self.ledger.index)

    def cut(self, index: int) -> None:
        """The log is another one behind an entry."""
        self._forked = index

    def hear(self, record: Record, *, agreed: int) -> bool:
        """A record of the topic; whether another history is followed since, or somebody else has the duty.

        Args:
            record: the next one.
            agreed: index of the last entry of the log.

        """
        ledger = self.ledger
        before = ledger.rewound, ledger.duty
        if rejection := ledger.hear(record):
            index, reason = rejection
            if index <= self.index or index > agreed:
                self._desk.rejected[index] = reason
        has_turned = (ledger.rewound, ledger.duty) != before
        self._tell_the_crew()
        if has_turned:
            self._desk.go_back(ledger.index)
        self.heard = record.offset + 1
        return has_turned

    def _tell_the_crew(self) -> None:
        if self.seed is not None:
            self._crew.seed = self.seed.signature
        self._crew.rewound = self.ledger.rewound, self.ledger.stays
