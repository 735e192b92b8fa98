"""The node: one thread that owns the agreement, and performs what it asks for in order."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from consumers import agreed, rounds, status
from quadlog.clock import Turns, now
from quadlog.core.messages import Acquired, Heard, Submitted, Tick
from quadlog.core.model import Heartbeat
from quadlog.errors import StateError
from quadlog.failpoints import Failpoint, visit
from quadlog.master.chores import LOOK_MS
from quadlog.master.events import (
    Dismissed,
    Durable,
    Event,
    Left,
    Located,
    Mirrored,
    Offered,
    Published,
    Stop,
    Told,
)
from quadlog.master.perform import perform
from quadlog.store import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from consumers.effects import EffectsLedger
    from producers.payloads import PayloadsProducer
    from producers.rounds import RoundsProducer
    from quadlog.core.agreement import Agreement
    from quadlog.core.messages import Ready, Save
    from quadlog.core.model import Entry, Payload, Post, Seed
    from quadlog.master.admission import Admission
    from quadlog.master.bodies import Bodies
    from quadlog.master.chores import Chores
    from quadlog.master.crew import Crew
    from quadlog.master.desk import Desk, Waiter
    from quadlog.master.intake import Intake
    from quadlog.master.watch import Watch
    from quadlog.ports import Record, Together
    from quadlog.store import MasterStore

log = structlog.get_logger()

BATCHES: Final = 8
"""What tails have read and the node has not heard yet: two for each of a usual master's tails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mouths:
    """Where a master says things."""

    payloads: PayloadsProducer
    rounds: RoundsProducer
    together: Together


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Which topic means what."""

    own_payloads: str
    payloads: dict[str, Intake]
    """The own topic and the peers'."""
    rounds: frozenset[str]
    agreed: str
    """Heard only where other masters of the data centre write to it too."""
    effects: str
    """Of the home of the effects, followed everywhere."""
    sources: frozenset[str]
    """Effects that may be copied from: the home's; in the home, those of all others."""
    status: str


class Node:
    """A master's heart.  Everything but reads of settled facts happens on its thread."""

    def __init__(
        self,
        *,
        agreement: Agreement,
        store: MasterStore,
        mouths: Mouths,
        ears: Ears,
        ledger: EffectsLedger,
        desk: Desk,
        crew: Crew,
        watch: Watch,
        admission: Admission,
        bodies: Bodies,
        chores: Callable[[Node], Chores],
        settle: Callable[[], None],
        failed: Callable[[str], None],
    ) -> None:
        """Wire the parts together.

        Args:
            agreement: decides.
            store: remembers.
            mouths: says.
            ears: sorts what is heard.
            ledger: how far the effects are.
            desk: who waits.
            crew: the workers here.
            watch: whether they are there and right.
            admission: tells clients to wait.
            bodies: payloads that wait.
            chores: makes what this master may have to do for its data centre.
            settle: waits until all that was said is acknowledged.
            failed: ends the process with a reason.

        """
        self.agreement: Final = agreement
        self.store: Final = store
        self.desk: Final = desk
        self.crew: Final = crew
        self.watch: Final = watch
        self.unreadable: Final[Counter[str]] = Counter()
        """Records that are none of ours, by topic."""
        self._mouths, self._ears, self._ledger = mouths, ears, ledger
        self._admission, self._settle, self._failed = admission, settle, failed
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._batches = threading.Semaphore(BATCHES)
        self._ended = threading.Event()
        self._bodies: Final = bodies
        self._published: list[tuple[bytes, bytes]] = []
        self._effects_at = {topic: store.position(topic) or 0 for topic in {ears.effects, *ears.sources}}
        self._duty_saved = store.duty()
        self._seed_saved: Seed | None = store.seed()
        self.crew.seed = ledger.seed.signature if ledger.seed else None
        self.chores: Final = chores(self)
        self._turns = Turns(most_ms=20, each_ms=0.3)
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)

    # --- from any thread ----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to take part."""
        self._thread.start()

    @property
    def seed(self) -> Seed | None:
        """What the log begins with, if that is known to be a seed."""
        return self._ledger.seed

    @property
    def has_begun(self) -> bool:
        """Whether the log holds anything."""
        return self.agreement.last.index > 0 or self.has_effects

    @property
    def has_effects(self) -> bool:
        """Whether any entry was decided."""
        return self._ledger.index > 0

    def put(self, event: Event) -> None:
        """Hand over something that happened."""
        self._inbox.put(event)

    def hear(self, tail: str, records: Sequence[Record]) -> None:
        """Hand over what a tail read; waits while the node has more than enough to hear."""
        del tail
        while not self._batches.acquire(timeout=1):
            if self._ended.is_set():
                return
        self._inbox.put(Told(records))

    def stop(self) -> None:
        """End the thread; what was promised is durable already."""
        self._inbox.put(Stop())
        self._thread.join(timeout=5)

    # --- the loop -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._tend(now().steady)
            while self._turn():
                pass
        except Exception as error:
            log.exception("the node cannot go on")
            self._failed(str(error))
        finally:
            self._ended.set()

    def _turn(self) -> bool:
        """1. Take in all there is.  2. Decide once.  3. Perform."""
        self._turns.gather(len(self.desk) + len(self.agreement.queue))
        events = self._waiting_events()
        with self._mouths.together():
            for event in events:
                if isinstance(event, Stop):
                    return False
                self._take(event)
            moment = now()
            self.agreement.step(Tick(), moment)
            if ready := self.agreement.ready():
                self._perform(ready)
        self.watch.compare()
        self.desk.settle(decided=self._ledger.index, applied=self.crew.applied())
        self._tend(moment.steady)
        self.watch.look(moment, agreed=self.agreement.last.index, leads=self.chores.leads)
        return True

    def _tend(self, moment: float) -> None:
        self.chores.tend(self.agreement.heard_at, moment, last_index=self.agreement.last.index)

    def _waiting_events(self) -> list[Event]:
        """All that is there; waits for the first one until the agreement or the duty has to be seen to."""
        pause = min(self.agreement.wake_at - now().steady, LOOK_MS) / 1000
        events: list[Event] = []
        try:
            events.append(self._inbox.get(timeout=max(pause, 0.0)))
            while True:
                events.append(self._inbox.get_nowait())
        except queue.Empty:
            return events

    def _take(self, event: Event) -> None:
        match event:
            case Offered(payload=payload, waiter=waiter):
                self._offer(payload, waiter)
            case Left(transaction_id=transaction_id, waiter=waiter):
                self.desk.leave(transaction_id, waiter, queued=transaction_id in self.agreement.queue)
            case Durable(payload=payload, offset=offset):
                visit(Failpoint.AFTER_PAYLOAD)
                self._admission.durable(len(payload.body))
                self._own.acknowledged(offset)
                self._acquire(payload)
            case Mirrored(payload=payload, offset=offset, source=source, source_offset=source_offset):
                self._own.acknowledged(offset)
                visit(Failpoint.HALF_MIRROR)
                self._ears.payloads[source].acknowledged(source_offset)
                self._acquire(payload)
            case Published(index=index):
                self._note_published(index)
            case Told(records=records):
                self._batches.release()
                for record in records:
                    self._hear_if_ours(record)
            case Located() | Dismissed():
                self._arrange(event)
            case Stop():
                pass
            case _:
                assert_never(event)

    def _arrange(self, event: Located | Dismissed) -> None:
        """What concerns the workers here, and is not said by them."""
        match event:
            case Located(handover=handover):
                self.chores.duty.located(handover)
            case Dismissed(worker=worker):
                self.crew.dismiss(worker, now().steady)

    # --- taking in ----------------------------------------------------------------------------------

    @property
    def _own(self) -> Intake:
        return self._ears.payloads[self._ears.own_payloads]

    def _offer(self, payload: Payload, waiter: Waiter) -> None:
        """A client's transaction: durable here first, ordered then."""
        transaction_id, size = payload.transaction.id, len(payload.body)
        refusal = self._admission.refusal(size, queued=len(self.agreement.queue))
        if refusal and not (transaction_id in self.agreement.queue or self.desk.is_known(transaction_id)):
            waiter.tell(refusal)
            return
        if not self.desk.wait(transaction_id, waiter) or transaction_id in self.agreement.queue:
            return  # an id never runs twice: whoever asks again waits for the first
        self.submit(payload)

    def submit(self, payload: Payload) -> None:
        """Make a transaction of this master durable; then it is ordered.  On the node's thread."""
        self._own.sent()
        self._admission.sent(len(payload.body))
        self._mouths.payloads.say(payload, lambda offset: self.put(Durable(payload, offset)))

    def _hear_if_ours(self, record: Record) -> None:
        """What another program wrote to a topic is passed over and counted: it must not stop the order."""
        try:
            self._hear(record)
        except StateError as error:
            self.unreadable[record.topic] += 1
            log.warning("passed over a record", topic=record.topic, offset=record.offset, error=str(error))

    def _hear(self, record: Record) -> None:
        topic = record.topic
        if topic in self._ears.rounds:
            self.agreement.step(Heard(post=rounds.hear(record)), now())
        elif topic == self._ears.own_payloads:
            if payload := self._own.hear(record):
                self._acquire(payload)
        elif topic in self._ears.payloads:
            if payload := self._ears.payloads[topic].hear(record):
                self._mirror(payload, record)
        elif topic == self._ears.status:
            if isinstance(beat := status.hear(record), Heartbeat):
                self.crew.hear(beat, now().steady)
        elif topic in self._effects_at:
            self._follow_effects(record)
        elif topic == self._ears.agreed:
            self._note_published(agreed.held_with(record))

    def _mirror(self, payload: Payload, record: Record) -> None:
        """A peer's payload is copied into this data centre, unless it is here."""
        transaction = payload.transaction
        if self.agreement.queue.has_payload(transaction.key) or self.agreement.is_synchronised(
            transaction.id
        ):
            return
        source = self._ears.payloads[record.topic]
        if not self.chores.leads:
            source.await_other(transaction.key)
            return
        source.sent()
        self._own.sent()
        self._mouths.payloads.say(
            payload, lambda offset: self.put(Mirrored(payload, offset, record.topic, record.offset))
        )

    def _acquire(self, payload: Payload) -> None:
        """A payload is durable in this data centre's Kafka: it may be ordered."""
        transaction = payload.transaction
        for intake in self._ears.payloads.values():
            intake.arrived(transaction.key)
        given = Submitted if payload.origin == self.agreement.node else Acquired
        queue = self.agreement.queue
        known = transaction.key in self._bodies or queue.has_payload(transaction.key)
        self.agreement.step(given(transaction=transaction), now())
        if not known and queue.has_payload(transaction.key):  # else it was synchronised before
            self._bodies.add(payload)

    def _follow_effects(self, record: Record) -> None:
        if record.topic == self._ears.effects:
            if rejection := self._ledger.hear(record):
                index, reason = rejection
                self.desk.rejected[index] = reason
            self.chores.follow(self._ledger.duty)
            if self._ledger.seed is not None:
                self.crew.seed = self._ledger.seed.signature
        if record.topic in self._ears.sources:
            self.chores.copy(record)
        self._effects_at[record.topic] = record.offset + 1

    # --- performing -----------------------------------------------------------------------------------

    def _perform(self, ready: Ready) -> None:
        self.chores.duty.note(ready.entries)
        perform(ready, save=self._save, publish=self._publish, post=self._post, settle=self._settle)
        self.desk.agreed(ready.entries, self._bodies)
        if ids := {entry.pair.id for entry in ready.entries}:
            for intake in self._ears.payloads.values():
                intake.synchronised(ids)
        for key in ready.save.released:
            self._bodies.drop(key)

    def _save(self, save: Save) -> None:
        positions = {topic: intake.position for topic, intake in self._ears.payloads.items()}
        for topic, heard in self._effects_at.items():
            positions[topic] = self.chores.copies.position(topic, heard)
        duty, seed = (self.chores.duty.agreed, self._ledger.duty), self._ledger.seed
        unpublished = {entry.pair.key for entry in save.entries}
        rejected = self.desk.rejected
        self.store.save(
            save,
            payloads=self._bodies,
            taken=Taken(
                positions=positions,
                effects=(self._ledger.index, self._ledger.attempt),
                rejected=rejected,
                duty=duty if duty != self._duty_saved else None,
                seed=seed if seed != self._seed_saved else None,
            ),
            unneeded=[*self._published, *(key for key in save.released if key not in unpublished)],
        )
        self._bodies.saved()
        self._published, self.desk.rejected = [], {}
        self._duty_saved, self._seed_saved = duty, seed

    def _publish(self, entry: Entry) -> None:
        self.chores.scribe.write(entry)

    def _note_published(self, index: int) -> None:
        """The agreed topic holds all entries up to this one: their bodies are kept nowhere else any more."""
        keys = self.chores.scribe.holds(index)
        self._published += keys
        for key in keys:
            self._bodies.drop(key)

    def _post(self, post: Post) -> None:
        self._mouths.rounds.say(post, at=now().wall)
