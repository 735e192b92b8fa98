"""The replica: one thread that applies the log to the store, and evaluates it when that is its duty."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import Turns, now
from quadlog.codec import decode_ahead
from quadlog.core.effects.signature import as_bytes
from quadlog.core.model import Point
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.worker.repair.health import Health
from quadlog.worker.replica.backlog import Hearing
from quadlog.worker.replica.following import Following
from quadlog.worker.replica.pulse import Pulse
from quadlog.worker.replica.returning import Returning
from quadlog.worker.replica.tenure import Asked, Floored, Tenure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.codec import Part
    from quadlog.ports import Record
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.replica.host import Host, Mouths

log = structlog.get_logger()

BATCHES: Final = 4
"""What the tail has read and the replica has not heard yet: beyond them the tail waits."""

LOOK_S: Final = 0.1
"""Until it is looked again whether what was said is taken."""

AGAIN_S: Final = 0.002
"""Until the evaluator goes on that did not come to an end, or waits for reads to start."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Records that the tail read."""

    records: Sequence[Record]
    parts: Sequence[Part | None]
    """What they say, each as far as it was decoded ahead."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the evaluator waits for to be loaded is there, or never will be."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The process ends."""


class Replica:
    """A worker's heart."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        topics: Topics,
        store: QuadStore,
        feed: Feed,
        mouths: Mouths,
        host: Host,
        health: Health | None = None,
    ) -> None:
        """Go on behind what `store` has applied.

        Args:
            settings: of this worker.
            topics: of its data centre.
            store: its quads.
            feed: tells its reading processes what it applies.
            mouths: where it says what.
            host: its process.
            health: what heartbeats tell of the store beside what it applied.

        """
        self._settings, self._topics, self._host = settings, topics, host
        self._voice: Final = mouths.voice
        self.store: Final = store
        self.health: Final = health or Health()
        self._inbox: queue.SimpleQueue[Asked | Floored | Heard | Fetched | Stop] = queue.SimpleQueue()
        self._batches = threading.Semaphore(BATCHES)
        self._turns, self._heard = Turns(most_ms=15, each_ms=0.5), 0
        self._more = False
        """Whether the evaluator has more to do soon, whatever is heard."""
        self._hearing: Final = Hearing.behind(store.applied)
        self.tenure: Final = Tenure(
            settings=settings,
            store=store,
            hearing=self._hearing,
            mouths=mouths,
            host=host,
            fetched=lambda: self._inbox.put(Fetched()),
        )
        self._returning: Final = Returning(
            topics=topics, store=store, feed=feed, hearing=self._hearing, tenure=self.tenure, host=host
        )
        self._following: Final = Following(
            topics=topics,
            store=store,
            feed=feed,
            hearing=self._hearing,
            tenure=self.tenure,
            returning=self._returning,
            host=host,
        )
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)
        self._stopping = threading.Event()
        self._pulse: Final = Pulse(
            store,
            mouths.status,
            self.beat,
            pause=settings.heartbeat,
            lives=self._thread.is_alive,
            evaluates=lambda: self.tenure.evaluator is not None,
            look=(lambda _: None) if mouths.voice is None else mouths.voice.look,
        )

    # --- from any thread ----------------------------------------------------------------------------

    @property
    def dc(self) -> str:
        """The data centre of this worker."""
        return self._settings.dc

    def offsets(self) -> dict[str, int]:
        """Topics and from where on they have to be read."""
        applied = self.store.applied
        return {self._topics.agreed: applied.agreed_offset, self._topics.effects: applied.effects_offset}

    def start(self) -> None:
        """Begin to apply."""
        self._following.commits.begin()
        self._thread.start()
        self._pulse.start()
        self.tenure.start()

    def hear(self, tail: str, records: Sequence[Record]) -> None:
        """Hand over what the tail read; waits while too much of it waits.

        It is decoded here, by the tail's thread: the replica's is half of its time in the store, without Python's lock.
        """
        del tail
        parts = [decode_ahead(record.value) for record in records]
        while not self._batches.acquire(timeout=1):
            if self._stopping.is_set() or not self._thread.is_alive():
                return
        self._inbox.put(Heard(records, parts))

    def full(self) -> frozenset[str]:
        """Topics to hear no more of for now."""
        return self._following.full

    def ask_to_evaluate(self, asked: Asked) -> None:
        """A master asks this worker to evaluate."""
        self._inbox.put(asked)

    def void_behind(self, floored: Floored) -> None:
        """A master says what counts no more, whatever an old evaluator may still say."""
        self._inbox.put(floored)

    def void_effects(self) -> dict[str, int]:
        """Effects that did not count, by reason."""
        return dict(self._hearing.effects.void)

    def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        self._pulse.stop()
        self.tenure.stop_watching()
        self._inbox.put(Stop())
        self._thread.join(timeout=5)
        self.tenure.close()

    def refuse_unless_seeded(self) -> None:
        """Before a read.

        Raises:
            Unavailable: the store is not what the log begins with.

        """
        self._following.refuse_unless_seeded()

    def beat(self, state: WorkerState = WorkerState.SERVING) -> Heartbeat:
        """What this worker says of itself now."""
        applied = self.store.applied
        if self._following.is_seedless:
            state = WorkerState.STARTING
        return Heartbeat(
            worker=self._settings.node_id,
            dc=self._settings.dc,
            url=self._settings.worker_url,
            state=state,
            evaluating=self.tenure.evaluator is not None,
            attempt=self._hearing.effects.attempt,
            applied=Point(applied.index, applied.chain),
            signature=as_bytes(applied.signature),
            quads=applied.quads,
            sent=now().wall,
            store=self.store.name,
            scrub=self.health.scrub_behind(applied.rewound),
            scrub_failure=self.health.scrub_failure,
            mend=self.health.mend,
            set_aside=self.health.set_aside,
            epoch=applied.rewound,
            unsaid=self._voice.reason if self._voice is not None else "",
        )

    # --- the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            self._following.commits.close()
            self._pulse.end()
        except BaseException as error:  # a panic of pyoxigraph's is no Exception
            if self.store.damage.note(error) or self.store.damage.reason:
                return
            log.exception("worker_failed")
            self._host.failed(str(error))

    def _turn(self) -> bool:
        """1. Take in all there is.  2. Apply what is agreed and decided.  3. Evaluate what is only agreed."""
        self._turns.gather(self._heard)
        self._heard = 0
        for event in self._events():
            match event:
                case Stop():
                    return False
                case Asked():
                    if not self._following.is_idle:
                        self.tenure.take_over(event)
                case Floored():
                    self._hearing.effects.floor = event.epoch, event.index
                case Fetched():
                    pass  # the evaluator goes on, below
                case Heard(records=records, parts=parts):
                    self._batches.release()
                    self._heard += len(records)
                    for record, part in zip(records, parts, strict=True):
                        self._following.hear(record, part)
                    if self._voice is not None and any(r.topic == self._topics.effects for r in records):
                        self._voice.heard(now().steady)
        self._following.apply()
        self._look_after_voice()
        self._evaluate()
        self._pulse.tend()
        return True

    def _look_after_voice(self) -> None:
        if self._voice is not None:
            self._voice.look(now().steady)
            self.tenure.fall_silent()

    def _evaluate(self) -> None:
        self._more = self._following.goes_on and self.tenure.evaluate()

    def _pause_s(self) -> float:
        """How long nothing has to be done, if nothing happens."""
        if self._following.has_more:
            return 0.0
        wait = AGAIN_S if self._more else (self._pulse.next_at - now().steady) / 1000
        if self._voice is not None and self._voice.waits:
            wait = min(wait, LOOK_S)
        return min(max(wait, 0.0), self._settings.heartbeat)

    def _events(self) -> list[Asked | Floored | Heard | Fetched | Stop]:
        events: list[Asked | Floored | Heard | Fetched | Stop] = []
        try:
            events.append(self._inbox.get(timeout=self._pause_s()))
            while True:
                events.append(self._inbox.get_nowait())
        except queue.Empty:
            return events
