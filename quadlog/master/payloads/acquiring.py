"""Acquisition of payloads: those of clients are made durable here, those of peers are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from consumers.payloads import origin_offset
from quadlog.clock import now
from quadlog.core.messages import Acquired, Submitted
from quadlog.core.model import TransactionKind
from quadlog.failpoints import Failpoint, visit
from quadlog.master.events import Event, PayloadDurable, PayloadMirrored

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from producers.payloads import PayloadsProducer
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import Payload
    from quadlog.master.clients.admission import Admission
    from quadlog.master.clients.pending_requests import PendingRequests, Waiter
    from quadlog.master.payloads.bodies import Bodies
    from quadlog.master.payloads.intake import Intake
    from quadlog.ports import Record


class LostOriginals(NamedTuple):
    """Payloads of a data centre's own clients that its topic lacks, because that topic was lost."""

    dc: str
    offset: int
    """End of the topic at the start: originals from there on are lost."""


class Acquiring:
    """Acquirer of payloads from clients and from peers.  Owned by the node's thread."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        producer: PayloadsProducer,
        intakes: Mapping[str, Intake],
        own: str,
        bodies: Bodies,
        pending_requests: PendingRequests,
        admission: Admission,
        put: Callable[[Event], None],
        lost: LostOriginals | None = None,
    ) -> None:
        """Continue each topic at its saved position.

        `intakes`: by payloads topic, the local one, `own`, and the peers'.  `put` enqueues an event for the node,
        from any thread.  `lost`: payloads of this data centre's clients that its topic may lack, as this master
        begins without its disk; None: it does not.
        """
        self._lost: LostOriginals | None = None
        """Until this master is let in: what only other data centres may still have of this one's payloads."""
        self.topics: Final = intakes
        """Intakes by payloads topic, the local one and the peers': each knows how far its topic was read."""
        self.peers: Final = {topic: intake for topic, intake in intakes.items() if topic != own}
        """Intakes of other data centres, by topic."""
        self._own: Final = intakes[own]
        self._agreement, self._producer, self._bodies = agreement, producer, bodies
        self._pending_requests, self._admission, self._put = pending_requests, admission, put
        if lost is not None:
            self._lost = lost
            for intake in self.peers.values():
                intake.lose(lost.dc)

    # --- payloads of clients ------------------------------------------------------------------------

    def offer(self, payload: Payload, waiter: Waiter) -> None:
        """Accept a client's transaction: it is made durable here first, and ordered afterwards."""
        transaction_id, size = payload.transaction.id, len(payload.body)
        queue = self._agreement.queue
        undecided = self._agreement.limbo.undecided
        is_update = payload.transaction.kind is TransactionKind.TX  # a setting may be the way out
        blocked = self._agreement.last.index - undecided[0].point.index if undecided and is_update else 0
        refusal = self._admission.refusal(size, queued=len(queue), blocked=blocked)
        if refusal and not (transaction_id in queue or self._pending_requests.is_known(transaction_id)):
            waiter.tell(refusal)
            return
        if not self._pending_requests.wait(transaction_id, waiter) or transaction_id in queue:
            return  # an id never runs twice: a repeated request waits for the first one
        self.submit(payload)

    def submit(self, payload: Payload) -> None:
        """Write a transaction of this master to the local payloads topic; it is ordered once it is durable."""
        self._own.sent()
        self._admission.sent(len(payload.body))
        self._producer.publish(payload, lambda offset: self._put(PayloadDurable(payload, offset)))

    def durable(self, said: PayloadDurable) -> None:
        """Handle the acknowledgement of a submitted payload."""
        visit(Failpoint.AFTER_PAYLOAD)
        self._admission.durable(len(said.payload.body))
        self._own.acknowledged(said.offset)
        self._acquire(said.payload)
        self._pending_requests.durable(said.payload.transaction.id)

    # --- payloads of peers --------------------------------------------------------------------------

    def on_record(self, record: Record, *, leads: bool) -> None:
        """Process a record of a payloads topic; with `leads`, this master copies payloads of peers."""
        intake = self.topics[record.topic]
        if self._lost is not None and not self._agreement.is_blank:
            for peer in self.peers.values():
                peer.regain(self._lost.dc)
            self._lost = None
        payload = intake.on_record(record)
        if payload is None:
            return
        if intake is self._own:
            self._acquire(payload)
        else:
            self._mirror(payload, record, intake, leads=leads)

    def _mirror(self, payload: Payload, record: Record, source: Intake, *, leads: bool) -> None:
        """Copy a peer's payload into this data centre, unless it is here already."""
        transaction, agreement = payload.transaction, self._agreement
        if not agreement.needs_payload(transaction.key):
            return
        original = origin_offset(record, source.dc)
        lost = self._lost
        if lost is not None and payload.origin_dc == lost.dc and (original or 0) < lost.offset:
            return  # the original is in this data centre's own topic
        if not leads:
            source.await_other(transaction.key)
            return
        source.sent()
        self._own.sent()
        self._producer.publish(
            payload,
            lambda offset: self._put(PayloadMirrored(payload, offset, record.topic, record.offset)),
            origin_offset=original,
        )

    def mirrored(self, said: PayloadMirrored) -> None:
        """Handle the acknowledgement of a copy."""
        self._own.acknowledged(said.offset)
        visit(Failpoint.HALF_MIRROR)
        self.topics[said.source].acknowledged(said.source_offset)
        self._acquire(said.payload)

    def begin_again(self, topic: str) -> dict[str, int]:
        """Restart a peer's re-created topic; payloads that it had may exist only where they were copied to.

        Returns:
            Topics that must be read again, each with the offset to begin at.

        """
        lost = self.topics[topic]
        others = {name: intake for name, intake in self.peers.items() if intake is not lost}
        places = {name: intake.lose(lost.dc) for name, intake in others.items()}
        lost.begin_again()
        return {name: place for name, place in places.items() if place is not None}

    # --- both kinds of payloads -----------------------------------------------------------------------

    def _acquire(self, payload: Payload) -> None:
        """Submit a payload to the agreement: it is durable in this data centre's Kafka, so it may be ordered."""
        transaction, agreement = payload.transaction, self._agreement
        for intake in self.topics.values():
            intake.arrived(transaction.key)
        given = Submitted if payload.origin == agreement.node else Acquired
        if transaction.key not in self._bodies and agreement.needs_payload(transaction.key):
            self._bodies.add(payload)  # the step may give way to a log that contains it, and still save it
        agreement.step(given(transaction=transaction), now())

    def synchronised(self, ids: Container[bytes]) -> None:
        """Stop waiting for payloads of these transactions, except for twins that may be needed."""
        for intake in self.topics.values():
            intake.synchronised(ids, self._agreement.needs_payload)
