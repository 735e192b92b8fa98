"""Suspended transactions: synchronous ones that a side without a majority has set aside, and whose log was kept.

Where that side gives way, its transactions wait again like all others.  Where it stays, or is part of the next
majority, its effects have them without a change: then each is submitted again, as a new transaction whose id is derived
from its place in the log, so that all masters submit the same one.  If the log has a decision on the first one, which
masters may have acted on before the split, that is the decision on the new one, too: see `Limbo.fate_of`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.codec.envelope import text_id
from quadlog.core.model import Transaction, payload_digest
from quadlog.core.synchronous import RESUMES, RESUMES_INDEX, SUSPENDED, marked, resumed_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.model import Payload
    from quadlog.master.clients.pending_requests import PendingRequests
    from quadlog.masterstore.store import MasterStore, Payloads

log = structlog.get_logger()

AGAIN_MS: Final = 2_000.0
"""Milliseconds until a suspended transaction is submitted again that is not in the queue: its master may be gone."""


def resumed(payload: Payload, index: int, chain: bytes) -> Payload:
    """Return the transaction that continues a suspended one; equal at all masters.

    `index` and `chain` are those of the suspended one's entry.
    """
    added = {RESUMES: text_id(payload.transaction.id), RESUMES_INDEX: str(index)}
    options = {**payload.transaction.options, **added}
    digest = payload_digest(
        origin=payload.origin,
        created=payload.created,
        media_type=payload.media_type,
        traceparent=payload.traceparent,
        body=payload.body,
        options=options,
    )
    transaction = Transaction(id=resumed_id(chain), digest=marked(digest, options), options=options)
    return replace(payload, transaction=transaction)


class SuspendedTransactions:
    """Submits suspended transactions again.  Owned by the node's thread."""

    def __init__(
        self,
        agreement: Agreement,
        *,
        store: MasterStore,
        bodies: Payloads,
        pending_requests: PendingRequests,
        submit: Callable[[Payload], None],
    ) -> None:
        """`submit` makes a transaction durable in this data centre and has it ordered."""
        self._agreement, self._store, self._bodies = agreement, store, bodies
        self._pending_requests, self._submit = pending_requests, submit
        pending_requests.suspended |= {
            index
            for index in store.rejected_for(SUSPENDED)
            if (entry := store.entry(index)) and store.logged(resumed_id(entry[0])) is None
        }
        self._lacking: set[int] = set()
        """Indexes of those whose payloads are not here: another data centre submits them."""
        self._tried_at = float("-inf")

    @property
    def first(self) -> int:
        """Index of the first one that must be submitted again here; 0: there is none."""
        return min(self._pending_requests.suspended - self._lacking, default=0)

    def tick(self, moment: float, *, leads: bool, is_whole: bool) -> None:
        """Submit them again if a majority is together.

        `leads`: this master does so for its data centre; `is_whole`: the effects here are those of the view, so that
        what they set aside stays set aside.
        """
        suspended = self._pending_requests.suspended
        if not suspended:
            self._lacking.clear()
            return
        if not is_whole or not self._agreement.has_majority:
            return
        for index in sorted(suspended):
            entry = self._store.entry(index)
            if entry is None or self._agreement.is_synchronised(resumed_id(entry[0])):
                suspended.discard(index)
        if leads and moment - self._tried_at >= AGAIN_MS:
            self._tried_at = moment
            for index in sorted(suspended):
                self._resume(index)

    def _resume(self, index: int) -> None:
        entry = self._store.entry(index)
        assert entry is not None, "it was found just now"
        chain, pair = entry
        if resumed_id(chain) in self._agreement.queue:
            return
        try:
            payload = self._bodies[pair.key]
        except KeyError:
            self._lacking.add(index)
            return
        log.info("transaction_resumed", index=index, transaction=text_id(pair.id))
        self._submit(resumed(payload, index, chain))
