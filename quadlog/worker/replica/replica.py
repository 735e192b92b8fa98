"""The replica: one thread that applies the log to the store, and evaluates entries while this is its duty."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from quadlog.clock import Turns, now
from quadlog.codec import decode_ahead
from quadlog.core.effects.signature import as_bytes
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.worker.repair.health import Health
from quadlog.worker.replica.backlog import CountedRecords
from quadlog.worker.replica.evaluator_term import EpochFloor, EvaluateRequest, EvaluatorTerm
from quadlog.worker.replica.following import Following
from quadlog.worker.replica.heartbeats import Heartbeats
from quadlog.worker.replica.rewind_handler import RewindHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.codec import Part
    from quadlog.ports import Record
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.replica.host import Host, Publishers

log = structlog.get_logger()

BATCHES: Final = 4
"""Batches that the tail has read and the replica has not processed, at most: above this the tail waits."""

LOOK_S: Final = 0.1
"""Seconds between two checks of whether published effects are accepted."""

AGAIN_S: Final = 0.002
"""Seconds until an evaluator continues that stopped before the last entry, or that waits for reads to start."""


@dataclass(frozen=True, slots=True)
class RecordsFetched:
    """Event: records that the tail read."""

    records: Sequence[Record]
    parts: Sequence[Part | None]
    """The value of each record, as far as it was decoded in advance."""


@dataclass(frozen=True, slots=True)
class DocumentsLoaded:
    """Event: the evaluator's requests to other servers are completed, or have failed."""


@dataclass(frozen=True, slots=True)
class StopReplica:
    """Event: the process ends."""


ReplicaEvent: TypeAlias = EvaluateRequest | EpochFloor | RecordsFetched | DocumentsLoaded | StopReplica


class Replica:
    """The replica's thread, its components, and the methods that other threads may call."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        topics: Topics,
        store: QuadStore,
        feed: Feed,
        publishers: Publishers,
        host: Host,
        health: Health | None = None,
    ) -> None:
        """Continue after what `store` has applied."""
        self._settings, self._topics, self._host = settings, topics, host
        self._publish_health: Final = publishers.publish_health
        self.store: Final = store
        self.health: Final = health or Health()
        self._inbox: queue.SimpleQueue[ReplicaEvent] = queue.SimpleQueue()
        self._batches = threading.Semaphore(BATCHES)
        self._turns, self._heard = Turns(most_ms=15, each_ms=0.5), 0
        self._more = False
        """True if the evaluator has more to do soon, even if no record arrives."""
        self._counted_records: Final = CountedRecords.behind(store.applied)
        self.evaluator_term: Final = EvaluatorTerm(
            settings=settings,
            store=store,
            counted_records=self._counted_records,
            publishers=publishers,
            host=host,
            fetched=lambda: self._inbox.put(DocumentsLoaded()),
        )
        self._returning: Final = RewindHandler(
            data_dir=settings.data_dir,
            topics=topics,
            store=store,
            health=self.health,
            feed=feed,
            counted_records=self._counted_records,
            evaluator_term=self.evaluator_term,
            host=host,
        )
        self._following: Final = Following(
            topics=topics,
            store=store,
            feed=feed,
            counted_records=self._counted_records,
            evaluator_term=self.evaluator_term,
            returning=self._returning,
            health=self.health,
            host=host,
        )
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)
        self._stopping = threading.Event()
        self._heartbeats: Final = Heartbeats(
            store,
            publishers.status,
            self.beat,
            pause=settings.heartbeat,
            lives=self._thread.is_alive,
            evaluates=lambda: self.evaluator_term.evaluator is not None,
            look=(lambda _: None) if publishers.publish_health is None else publishers.publish_health.check,
        )

    # --- from any thread ----------------------------------------------------------------------------

    @property
    def dc(self) -> str:
        """The data centre of this worker."""
        return self._settings.dc

    def offsets(self) -> dict[str, int]:
        """Return the offset from which on each topic must be read."""
        applied = self.store.applied
        return {self._topics.agreed: applied.agreed_offset, self._topics.effects: applied.effects_offset}

    def start(self) -> None:
        """Start the threads."""
        self._following.commits.begin()
        self._thread.start()
        self._heartbeats.start()
        self.evaluator_term.start()

    def on_records(self, records: Sequence[Record]) -> None:
        """Hand over records that the tail read; wait while `BATCHES` batches are not processed yet.

        They are decoded here, on the tail's thread: the replica's thread spends half of its time in the store,
        without Python's lock.
        """
        parts = [decode_ahead(record.value) for record in records]
        while not self._batches.acquire(timeout=1):
            if self._stopping.is_set() or not self._thread.is_alive():
                return
        self._inbox.put(RecordsFetched(records, parts))

    def full(self) -> frozenset[str]:
        """Return the topics of which no more records should be delivered for now."""
        return self._following.full

    def ask_to_evaluate(self, asked: EvaluateRequest) -> None:
        """Hand over a master's request to evaluate."""
        self._inbox.put(asked)

    def void_behind(self, floored: EpochFloor) -> None:
        """Hand over a master's floor: effects after it are void, even if an old evaluator still publishes some."""
        self._inbox.put(floored)

    def void_effects(self) -> dict[str, int]:
        """Return the number of effects that did not count, by reason."""
        return dict(self._counted_records.effects.void)

    def stop(self) -> None:
        """Stop the threads."""
        self._stopping.set()
        self._heartbeats.stop()
        self.evaluator_term.stop_watching()
        self._inbox.put(StopReplica())
        self._thread.join(timeout=5)
        self.evaluator_term.close()

    def refuse_unless_seeded(self) -> None:
        """Check, before a read, that the store has the log's seed; raises as `Following.refuse_unless_seeded`."""
        self._following.refuse_unless_seeded()

    def beat(self, state: WorkerState = WorkerState.SERVING) -> Heartbeat:
        """Return a heartbeat with the current state of this worker."""
        applied = self.store.applied
        if self._following.is_seedless:
            state = WorkerState.STARTING
        return Heartbeat(
            worker=self._settings.node_id,
            dc=self._settings.dc,
            url=self._settings.worker_url,
            state=state,
            evaluating=self.evaluator_term.evaluator is not None,
            attempt=self._counted_records.effects.attempt,
            applied=applied.point,
            signature=as_bytes(applied.signature),
            quads=applied.quads,
            sent=now().wall,
            store=self.store.name,
            scrub=self.health.scrub_behind(applied.rewound),
            scrub_failure=self.health.scrub_failure,
            mend=self.health.mend,
            set_aside=self.health.set_aside,
            fork=None if self.health.branch is None else self.health.branch.fork,
            epoch=max(applied.rewound, self._returning.rewound),
            unsaid=self._publish_health.reason if self._publish_health is not None else "",
        )

    # --- the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            self._following.commits.close()
            self._heartbeats.end()
        except BaseException as error:  # a panic in pyoxigraph is not an Exception
            if self.store.damage.note(error) or self.store.damage.reason:
                return
            log.exception("worker_failed")
            self._host.failed(str(error))

    def _turn(self) -> bool:
        """Process all events, apply agreed entries that have effects, and evaluate those that have none.

        Returns False once the replica must stop.
        """
        self._turns.gather(self._heard)
        self._heard = 0
        for event in self._events():
            match event:
                case StopReplica():
                    return False
                case EvaluateRequest():
                    if not self._following.is_idle:
                        self.evaluator_term.take_over(event)
                case EpochFloor():
                    self._counted_records.effects.floor = event.epoch, event.index
                case DocumentsLoaded():
                    pass  # the evaluator continues, below
                case RecordsFetched(records=records, parts=parts):
                    self._batches.release()
                    self._heard += len(records)
                    for record, part in zip(records, parts, strict=True):
                        self._following.on_record(record, part)
                    if self._publish_health is not None and any(
                        r.topic == self._topics.effects for r in records
                    ):
                        self._publish_health.heard(now().steady)
        self._following.apply()
        self._look_after_publishing()
        self._evaluate()
        self._heartbeats.tick()
        return True

    def _look_after_publishing(self) -> None:
        if self._publish_health is not None:
            self._publish_health.check(now().steady)
            self.evaluator_term.fall_silent()

    def _evaluate(self) -> None:
        self._more = self._following.goes_on and self.evaluator_term.evaluate()

    def _pause_s(self) -> float:
        """Return the seconds until there is something to do if no event arrives."""
        if self._following.has_more:
            return 0.0
        wait = AGAIN_S if self._more else (self._heartbeats.next_at - now().steady) / 1000
        if self._publish_health is not None and self._publish_health.waits:
            wait = min(wait, LOOK_S)
        return min(max(wait, 0.0), self._settings.heartbeat)

    def _events(self) -> list[ReplicaEvent]:
        events: list[ReplicaEvent] = []
        try:
            events.append(self._inbox.get(timeout=self._pause_s()))
            while True:
                events.append(self._inbox.get_nowait())
        except queue.Empty:
            return events
