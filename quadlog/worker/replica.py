"""The replica: one thread that applies the log to the store, and evaluates it when that is its duty."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from consumers.agreed import AgreedConsumer
from consumers.effects import EffectsConsumer
from quadlog.clock import Turns, now
from quadlog.core import control, signature
from quadlog.core.model import Effect, Fence, Handover, Heartbeat, Point, Seed, WorkerState
from quadlog.errors import StateError, Unavailable
from quadlog.failpoints import Failpoint, visit
from quadlog.ports import apart
from quadlog.quadstore import Applied
from quadlog.worker.backlog import Backlog
from quadlog.worker.health import Health
from quadlog.worker.tenure import Asked, Tenure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from producers.effects import EffectsProducer
    from producers.status import StatusProducer
    from quadlog.ports import Record, Together
    from quadlog.quadstore import QuadStore
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.feed import Feed

log = structlog.get_logger()

BATCHES: Final = 16
"""What the tail has read and the replica has not heard yet: beyond them the tail waits."""

AGAIN_S: Final = 0.002
"""Until the evaluator goes on that did not come to an end, or waits for reads to start."""

BEAT_EACH_MS: Final = 2.0
BEAT_MOST_MS: Final = 25.0
"""Between two heartbeats, for each effect that the next one tells of, and at most: under load one of them
tells of many.  A heartbeat is a produce request, and a record that every master here reads."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Records that the tail read."""

    records: Sequence[Record]


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
        effects: EffectsProducer,
        status: StatusProducer,
        failed: Callable[[str], None],
        settle: Callable[[], None] | None = None,
        together: Together = apart,
        health: Health | None = None,
        lacks: Callable[[Seed], bool] = lambda _: False,
    ) -> None:
        """Go on behind what `store` has applied.

        Args:
            settings: of this worker.
            topics: of its data centre.
            store: its quads.
            feed: tells its reading processes what it applies.
            effects: where it says what it evaluated.
            status: where it says how it is.
            failed: ends the process with a reason.
            settle: waits until all that was said is acknowledged; for failpoints.
            together: what effects are said within.
            health: what heartbeats tell of the store beside what it applied.
            lacks: told of the seed that the log begins with; whether the store was not made of it.

        """
        self._lacks = lacks
        self._lacking: Seed | None = None
        """The seed that the log begins with and the store does not: nothing is applied, evaluated or served."""
        self.store: Final = store
        self._feed = feed
        self._settings, self._topics = settings, topics
        self._say_status, self._failed = status, failed
        self.health: Final = health or Health()
        applied = store.applied
        self._agreed = AgreedConsumer(Point(applied.index, applied.chain))
        self._effects = EffectsConsumer(
            index=applied.index,
            signature=applied.signature.to_bytes(32, "big"),
            term=applied.term,
            attempt=applied.attempt,
            handover=applied.handover,
        )
        self._backlog = Backlog()
        self._turns, self._heard = Turns(most_ms=15, each_ms=0.5), 0
        self._more = False
        """Whether the evaluator has more to do soon, whatever is heard."""
        self._beat_at, self._beaten = float("-inf"), -1
        self._inbox: queue.SimpleQueue[Asked | Heard | Fetched | Stop] = queue.SimpleQueue()
        self.tenure: Final = Tenure(
            settings=settings,
            store=store,
            heard=self._effects,
            backlog=self._backlog,
            effects=effects,
            settle=settle,
            together=together,
            fetched=lambda: self._inbox.put(Fetched()),
        )
        self._batches = threading.Semaphore(BATCHES)
        self._no_more_entries = frozenset({topics.agreed})
        self._nothing_more = frozenset({topics.agreed, topics.effects})
        self._thread = threading.Thread(target=self._run, name="replica", daemon=True)
        self._stopping = threading.Event()
        self._pulse = threading.Thread(target=self._beat_while_busy, name="pulse", daemon=True)

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
        self._thread.start()
        self._pulse.start()
        self.tenure.start()

    def hear(self, tail: str, records: Sequence[Record]) -> None:
        """Hand over what the tail read; waits while too much of it waits."""
        del tail
        while not self._batches.acquire(timeout=1):
            if self._stopping.is_set() or not self._thread.is_alive():
                return
        self._inbox.put(Heard(records))

    def full(self) -> frozenset[str]:
        """Topics to hear no more of for now: entries wait for effects, effects never for long."""
        if self._lacking is not None:
            return self._nothing_more
        return self._no_more_entries if self._backlog.is_full else frozenset()

    def ask_to_evaluate(self, asked: Asked) -> None:
        """A master asks this worker to evaluate."""
        self._inbox.put(asked)

    def void_effects(self) -> dict[str, int]:
        """Effects that did not count, by reason."""
        return dict(self._effects.void)

    def stop(self) -> None:
        """End the threads."""
        self._stopping.set()
        self.tenure.stop_watching()
        self._inbox.put(Stop())
        self._thread.join(timeout=5)
        self.tenure.close()

    def refuse_unless_seeded(self) -> None:
        """Before a read.

        Raises:
            Unavailable: the store is not what the log begins with.

        """
        if self._lacking is not None:
            raise Unavailable(
                "this worker lacks the seed that the log begins with; ask another one", retry_after=2
            )

    def beat(self, state: WorkerState = WorkerState.SERVING) -> Heartbeat:
        """What this worker says of itself now."""
        applied = self.store.applied
        if self._lacking is not None:
            state = WorkerState.STARTING
        return Heartbeat(
            worker=self._settings.node_id,
            dc=self._settings.dc,
            url=self._settings.worker_url,
            state=state,
            evaluating=self.tenure.evaluator is not None,
            attempt=self._effects.attempt,
            applied=Point(applied.index, applied.chain),
            signature=applied.signature.to_bytes(32, "big"),
            quads=applied.quads,
            sent=now().wall,
            store=self.store.name,
            scrub=self.health.scrub,
            scrub_failure=self.health.scrub_failure,
            mend=self.health.mend,
        )

    # --- the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._turn():
                pass
            self._say_status.say(self.beat(WorkerState.STOPPING))
        except Exception as error:
            log.exception("the worker cannot go on")
            self._failed(str(error))

    def _turn(self) -> bool:
        """1. Take in all there is.  2. Apply what is agreed and decided.  3. Evaluate what is only agreed."""
        self._turns.gather(self._heard)
        self._heard = 0
        for event in self._events():
            match event:
                case Stop():
                    return False
                case Asked():
                    if self._lacking is None:
                        self.tenure.take_over(event)
                case Fetched():
                    pass  # the evaluator goes on, below
                case Heard(records=records):
                    self._batches.release()
                    self._heard += len(records)
                    for record in records:
                        self._hear(record)
        self._apply()
        self._evaluate()
        if now().steady >= self._next_beat:
            self._beat_at, self._beaten = now().steady, self.store.applied.index
            self._say_status.say(self.beat())
        return True

    def _beat_while_busy(self) -> None:
        """A large transaction takes seconds: the worker that is at it is not dead, and must not be replaced.

        Else its successor would be replaced in turn, and the transaction be evaluated for ever.
        """
        pause = self._settings.heartbeat
        while not self._stopping.wait(pause):
            if self._thread.is_alive() and now().steady - self._beat_at >= pause * 1000:
                self._say_status.say(self.beat())

    @property
    def _next_beat(self) -> float:
        """Soon after something was applied, the sooner the less; else now and then."""
        news = self.store.applied.index - self._beaten
        pause = min(BEAT_EACH_MS * news, BEAT_MOST_MS) if news else self._settings.heartbeat * 1000
        return self._beat_at + pause

    def _events(self) -> list[Asked | Heard | Fetched | Stop]:
        events: list[Asked | Heard | Fetched | Stop] = []
        try:
            wait = AGAIN_S if self._more else (self._next_beat - now().steady) / 1000
            events.append(self._inbox.get(timeout=min(max(wait, 0.0), self._settings.heartbeat)))
            while True:
                events.append(self._inbox.get_nowait())
        except queue.Empty:
            return events

    def _hear(self, record: Record) -> None:
        if self._lacking is not None:
            return  # the next process hears it again
        if record.topic == self._topics.agreed:
            if entry := self._agreed.hear(record):
                self._backlog.add_entry(entry, record.offset + 1)
            return
        match self._effects.hear(record):
            case Effect() as effect:
                self._backlog.add_effect(effect, record.offset + 1)
            case Fence() as fence:
                self.tenure.meet(fence)
            case Handover() as handover:
                self.tenure.hand_over(handover)
            case Seed() as seed:
                if self._lacks(seed):
                    self._lacking = seed
                    self.tenure.retire()
            case None:
                pass

    def _evaluate(self) -> None:
        self._more = self._lacking is None and self.tenure.evaluate()

    # --- applying -----------------------------------------------------------------------------------

    def _apply(self) -> None:
        """Apply all effects whose entries are here, a batch in one commit."""
        pairs = self._backlog.batch()
        if not pairs or self._lacking is not None:
            return
        effects = [pair.effect for pair in pairs]
        lines, anticipated = self.tenure.due(effects)
        self._check_signatures(effects)
        last = pairs[-1]
        applied = Applied.after(
            last.effect,
            agreed_offset=last.agreed_offset,
            effects_offset=last.effects_offset,
            handover=self._effects.handover_of(last.effect.term),
        )
        self._feed.add(effects, applied)
        controls = control.changes_of((pair.entry, pair.effect) for pair in pairs)
        self.store.apply(lines, applied, anticipated=anticipated, controls=controls)
        visit(Failpoint.AFTER_APPLY)
        self._backlog.drop(len(pairs))
        self.tenure.applied(effects)

    def _check_signatures(self, effects: Sequence[Effect]) -> None:
        """Does each lead from the state that the one before left to the one that it says?"""
        after = self.store.applied.signature
        for effect in effects:
            after = signature.after(after, effect)
            if after.to_bytes(32, "big") != effect.signature_after:
                message = (
                    f"the signature after entry {effect.index} ({effect.id.hex()}) is {after:064x} here and"
                    f" {effect.signature_after.hex()} in its effect: this worker has to be rebuilt"
                )
                raise StateError(message)
