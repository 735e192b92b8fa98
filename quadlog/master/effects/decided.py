"""Decided: up to where the own data centre's topic has effects of the log as it is, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from consumers.effects import epoch_of
from quadlog.core.model import OF_A_BRANCH
from quadlog.master.effects.lineage import held

if TYPE_CHECKING:
    from collections.abc import Callable

    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.model import Held, Standing, View
    from quadlog.core.records import Seed
    from quadlog.master.clients.desk import Desk
    from quadlog.master.workers.crew import Crew
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Record


log = structlog.get_logger()


class Decided:
    """Owned by the node's thread."""

    def __init__(
        self,
        ledger: EffectsLedger,
        *,
        store: MasterStore,
        topic: str,
        desk: Desk,
        crew: Crew,
        dc: str = "",
        standing: Standing | None = None,
        read: Callable[[int], None] = lambda _: None,
        foreseen: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Go on.

        Args:
            ledger: follows the topic.
            store: has the log, and how far the topic was heard.
            topic: the own effects.
            desk: is told what was rejected, and what is decided anew.
            crew: the workers here: how far back they have to go.
            dc: this data centre.
            standing: where this master stands.
            read: has the topic read from an offset on, again.
            foreseen: up to which entry effects are known that the topic has not got.

        """
        self.ledger: Final = ledger
        self.topic: Final = topic
        self.heard = store.position(topic) or 0
        """Offset behind the last record."""
        self._store, self._desk, self._crew = store, desk, crew
        self._dc, self._read, self._foreseen = dc, read, foreseen
        self._view: View | None = None
        self.is_held = False
        """Whether nothing is taken in until it is known where the next view has its home."""
        self._has_passed = False
        """Whether anything came meanwhile."""
        self._awaited: int | None = None
        """Offset that is read again next; what else comes was read before."""
        self.floor = store.floor()
        """Epoch of the view that last took the home away from here: what earlier views say here is void since."""
        if standing is not None:
            self.stand(standing)
        cut = store.cut()
        self._forked = cut.index if cut is not None else None
        """The last entry before the newest cut, until effects are known to be those of the log behind it."""
        self._tell_the_crew()

    def stand(self, standing: Standing) -> None:
        """Where this master stands has changed, and is to be saved.

        A home that is moved away while it lives says with its vote how far its effects are: so much the next home has
        before it decides anything.  So nothing more of them is taken in here, though the old evaluator may say more;
        and if the view is installed, nothing of earlier views ever is, until a rewind tells where that begins which
        the next home says.
        """
        before, self._view = self._view, standing.view
        ballot = standing.pending
        if before is not None and before.home == self._dc != standing.view.home:
            self.floor = standing.view.epoch
            log.info("home_moved", home=standing.view.home, effects=self.ledger.index)
            self._tell_the_crew()
        is_held = ballot is not None and standing.view.home == self._dc != ballot.home
        if self.is_held and not is_held and self._has_passed:
            self._has_passed, self._awaited = False, self.heard
            self._read(self.heard)
        self.is_held = is_held

    @property
    def floored(self) -> tuple[int, int] | None:
        """Epoch and index behind which earlier views' effects are void here; None: a rewind says so, or none are."""
        return (self.floor, self.ledger.index) if self._is_floored else None

    @property
    def _is_floored(self) -> bool:
        return self.ledger.rewound < self.floor

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
    def left(self) -> int | None:
        """Index of the last effect that counts, where void ones may stand behind it and no rewind says so yet."""
        return self.ledger.index if self.fork is None and self._is_floored else self.fork

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
        self.heard = (
            record.offset + 1
        )  # of another program's record, too: what copies effects waits for the end
        if self._is_floored and epoch_of(record) < self.floor:
            return False
        before = ledger.rewound, ledger.duty
        if rejection := ledger.hear(record):
            index, reason = rejection
            if index <= self.index or index > agreed:
                self._desk.rejected[index] = reason
        has_turned = (ledger.rewound, ledger.duty) != before
        self._tell_the_crew()
        if has_turned:
            self._desk.go_back(max(ledger.index, self._foreseen() or 0))
        return has_turned

    def _tell_the_crew(self) -> None:
        if self.seed is not None:
            self._crew.seed = self.seed.signature
        is_floored, ledger = self._is_floored, self.ledger
        self._crew.rewound = (self.floor, ledger.index) if is_floored else (ledger.rewound, ledger.stays)
