"""Acquiring: how payloads become durable here, a client's and copies of those that peers have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from consumers.payloads import origin_offset
from quadlog.clock import now
from quadlog.core.messages import Acquired, Submitted
from quadlog.failpoints import Failpoint, visit
from quadlog.master.events import Durable, Event, Mirrored

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from producers.payloads import PayloadsProducer
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import Payload
    from quadlog.master.clients.admission import Admission
    from quadlog.master.clients.desk import Desk, Waiter
    from quadlog.master.payloads.bodies import Bodies
    from quadlog.master.payloads.intake import Intake
    from quadlog.ports import Record


class Acquiring:
    """Owned by the node's thread."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        mouth: PayloadsProducer,
        intakes: Mapping[str, Intake],
        own: str,
        bodies: Bodies,
        desk: Desk,
        admission: Admission,
        put: Callable[[Event], None],
    ) -> None:
        """Go on where each topic was taken in.

        Args:
            agreement: is told what is acquired.
            mouth: writes to the own payloads.
            intakes: of the payloads topics, the own one and the peers'.
            own: which one is this data centre's.
            bodies: payloads that wait.
            desk: who waits.
            admission: tells clients to wait.
            put: has the node take an event, from any thread.

        """
        self.topics: Final = intakes
        """Of payloads, the own one and the peers', each with how far it was taken in."""
        self.peers: Final = {topic: intake for topic, intake in intakes.items() if topic != own}
        """Those of other data centres."""
        self._own: Final = intakes[own]
        self._agreement, self._mouth, self._bodies = agreement, mouth, bodies
        self._desk, self._admission, self._put = desk, admission, put

    # --- of clients ---------------------------------------------------------------------------------

    def offer(self, payload: Payload, waiter: Waiter) -> None:
        """A client's transaction: durable here first, ordered then."""
        transaction_id, size = payload.transaction.id, len(payload.body)
        queue = self._agreement.queue
        refusal = self._admission.refusal(size, queued=len(queue))
        if refusal and not (transaction_id in queue or self._desk.is_known(transaction_id)):
            waiter.tell(refusal)
            return
        if not self._desk.wait(transaction_id, waiter) or transaction_id in queue:
            return  # an id never runs twice: whoever asks again waits for the first
        self.submit(payload)

    def submit(self, payload: Payload) -> None:
        """Make a transaction of this master durable; then it is ordered."""
        self._own.sent()
        self._admission.sent(len(payload.body))
        self._mouth.say(payload, lambda offset: self._put(Durable(payload, offset)))

    def durable(self, said: Durable) -> None:
        """What was submitted is."""
        visit(Failpoint.AFTER_PAYLOAD)
        self._admission.durable(len(said.payload.body))
        self._own.acknowledged(said.offset)
        self._acquire(said.payload)

    # --- of peers -----------------------------------------------------------------------------------

    def hear(self, record: Record, *, leads: bool) -> None:
        """A record of a payloads topic.  `leads`: this master is to copy what comes from peers."""
        intake = self.topics[record.topic]
        payload = intake.hear(record)
        if payload is None:
            return
        if intake is self._own:
            self._acquire(payload)
        else:
            self._mirror(payload, record, intake, leads=leads)

    def _mirror(self, payload: Payload, record: Record, source: Intake, *, leads: bool) -> None:
        """A peer's payload is copied into this data centre, unless it is here."""
        transaction, agreement = payload.transaction, self._agreement
        if agreement.queue.has_payload(transaction.key) or agreement.is_synchronised(transaction.id):
            return
        if not leads:
            source.await_other(transaction.key)
            return
        source.sent()
        self._own.sent()
        self._mouth.say(
            payload,
            lambda offset: self._put(Mirrored(payload, offset, record.topic, record.offset)),
            origin_offset=origin_offset(record, source.dc),
        )

    def mirrored(self, said: Mirrored) -> None:
        """A copy is durable here."""
        self._own.acknowledged(said.offset)
        visit(Failpoint.HALF_MIRROR)
        self.topics[said.source].acknowledged(said.source_offset)
        self._acquire(said.payload)

    def begin_again(self, topic: str) -> dict[str, int]:
        """A peer's topic was made anew; what it had may be left only where it was copied to.

        Returns:
            topics that are to be read again, each from an offset on.

        """
        lost = self.topics[topic]
        others = {name: intake for name, intake in self.peers.items() if intake is not lost}
        places = {name: intake.lose(lost.dc) for name, intake in others.items()}
        lost.begin_again()
        return {name: place for name, place in places.items() if place is not None}

    # --- both -----------------------------------------------------------------------------------------

    def _acquire(self, payload: Payload) -> None:
        """A payload is durable in this data centre's Kafka: it may be ordered."""
        transaction, agreement = payload.transaction, self._agreement
        for intake in self.topics.values():
            intake.arrived(transaction.key)
        given = Submitted if payload.origin == agreement.node else Acquired
        known = transaction.key in self._bodies or agreement.queue.has_payload(transaction.key)
        if not known and not agreement.is_synchronised(transaction.id):
            self._bodies.add(payload)  # the step may give way to a log that has it, and still save it
        agreement.step(given(transaction=transaction), now())

    def synchronised(self, ids: Container[bytes]) -> None:
        """Nobody needs any payload of these transactions any more."""
        for intake in self.topics.values():
            intake.synchronised(ids)
