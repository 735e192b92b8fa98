"""State of a muted master: a muted master's knowledge of its workers, the log and the source."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from consumers import status
from consumers.agreed import place_of
from consumers.effects_ledger import EffectsLedger
from quadlog.clock import now
from quadlog.core.records import Cut
from quadlog.master.topics.foreign_records import understood
from quadlog.master.workers.alarms import AlarmName, Alarms, Trouble
from quadlog.master.workers.worker_watch import WorkerWatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quadlog.core.messages import Now
    from quadlog.core.records import Place
    from quadlog.master.workers.alarms import Alarm
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.master.workers.worker_watch import WorkerActions
    from quadlog.ports import Record
    from quadlog.topics import Topics

TOLERATED_MS: Final = 5_000.0
"""Milliseconds for which the source may not answer before an alarm is raised: it is asked every two seconds."""


class MutedState:
    """Reader of the local topics; any thread may pass records to it."""

    def __init__(
        self,
        topics: Topics,
        worker_registry: WorkerRegistry,
        worker_actions: WorkerActions,
        *,
        source: str,
        max_lag_ms: float,
    ) -> None:
        """Watch the workers by `topics`, whose effects must be read from their beginning.

        `source`: the data centre that is copied; `max_lag_ms`: as for `WorkerWatch`.
        """
        self.worker_registry: Final = worker_registry
        self.ledger: Final = EffectsLedger()
        self.agreed = 0
        """Index of the last copied entry."""
        self._cut = 1
        self._topics, self._source = topics, source
        self._watch: Final = WorkerWatch(worker_registry, self.ledger, worker_actions, max_lag_ms=max_lag_ms)
        self._own: Final = Alarms()
        self._lock = threading.Lock()
        self.behind: dict[str, int] = {}
        """By topic of the source: records that were not copied yet when the source last answered."""
        self.unheard_since: float | None = now().steady
        """Steady milliseconds since when the source does not answer; None if it does."""

        self._lost = ""
        """Reason why copying has ended."""

    @property
    def shown(self) -> int:
        """Index that a session's reads must show: the most advanced worker's, as nothing is acknowledged here."""
        return self.worker_registry.applied()

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash at an index, from the last 2,000 effects; older points cannot be checked."""
        with self._lock:
            after = self.ledger.state_after(index)
        return None if after is None else after.entry_chain

    @property
    def elsewhere(self) -> Sequence[str]:
        """Empty: nothing is acknowledged here, so workers here show all there is."""
        return ()

    def alarms(self) -> list[Alarm]:
        """Return all raised alarms."""
        return [*self._own.all(), *self._watch.alarms.all()]

    def on_records(self, records: Sequence[Record]) -> None:
        """Process records of the local topics."""
        with self._lock:
            for topic in {record.topic for record in records}:
                self._hear([record for record in records if record.topic == topic], topic)

    def _hear(self, records: Sequence[Record], topic: str) -> None:
        if topic == self._topics.status:
            for _, beat in understood(records, status.hear):
                if beat is not None:
                    self.worker_registry.on_heartbeat(beat, now().steady)
        elif topic == self._topics.effects:
            for _ in understood(records, self.ledger.on_record):
                pass
            if self.ledger.seed is not None:
                self.worker_registry.seed = self.ledger.seed.signature
            self.worker_registry.rewound = self.ledger.rewound, self.ledger.stays
        else:
            for _, place in understood(records, place_of):
                self._follow(place)

    def _follow(self, place: Place | Cut | None) -> None:
        """Apply the usual rules: after a cut, smaller epochs are void, and so is an entry that is not the next one."""
        if isinstance(place, Cut):
            if place.epoch > self._cut and place.index <= self.agreed:
                self._cut, self.agreed = place.epoch, place.index
        elif place is not None and place.epoch >= self._cut and place.index == self.agreed + 1:
            self.agreed = place.index

    def dismiss(self, name: str) -> None:
        """Forget a worker that will not come back."""
        with self._lock:
            self.worker_registry.dismiss(name, now().steady)

    def source_says(self, behind: dict[str, int] | None) -> None:
        """Store how many records of each topic are not copied yet; None: the source did not answer."""
        if behind is not None:
            self.behind, self.unheard_since = behind, None
        elif self.unheard_since is None:
            self.unheard_since = now().steady

    def source_lost(self, reason: str) -> None:
        """Store the reason why the followed topics are not those that were copied any more."""
        self._lost = self._lost or reason

    def check(self, moment: Now, more: Iterable[Trouble] = ()) -> None:
        """Compare the workers with the effects, and update the alarms; `more`: further troubles."""
        with self._lock:
            self._watch.compare()
            self._watch.check(moment, agreed=self.agreed, leads=True)
            since, troubles = self.unheard_since, list(more)
            if since is not None and moment.steady - since > TOLERATED_MS:
                reason = f"{self._source} is followed, and its Kafka does not answer"
                troubles.append(Trouble(name=AlarmName.UNFOLLOWED, index=self.agreed, reason=reason))
            if self._lost:
                troubles.append(Trouble(name=AlarmName.LOST, index=self.agreed, reason=self._lost))
            self._own.set(troubles, moment.wall)
