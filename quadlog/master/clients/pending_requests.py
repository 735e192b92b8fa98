"""Pending requests: which client waits for the outcome of which transaction.

Owned by the node's thread, except for `state_of`, which only reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quadlog.errors import KeyReused, OutcomeUnknown, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quadlog.core.model import Entry
    from quadlog.masterstore.store import MasterStore, Payloads


ENDED: Final = (
    "the log here gave way to another data centre's, and this change ended with it; it may still be agreed where it was"
    " passed on to before: ask /tx/ in Location, or send it again with the same Idempotency-Key"
)


SUPERSEDED: Final = (
    "it was entry {index} of a log that gave way to another data centre's, and ended with it; it may still be agreed"
    " where it was passed on to before. To have it, send it again with the same Idempotency-Key"
)


class TxState(StrEnum):
    """State of a transaction as `/tx/{id or key}` reports it."""

    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    """It was agreed on a branch and ended with it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxAnswer:
    """Place of a transaction in the log."""

    index: int
    chain: bytes
    by_majority: bool = False
    """True if this master appended it in a view that holds a majority (`Agreement.confirms`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A client that waits for a transaction with this body."""

    body_hash: bytes
    tell: Callable[[TxAnswer | Exception], None]
    """Called once, on the node's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TxStatus:
    """State of one transaction, with its index once it is agreed."""

    state: TxState
    index: int | None = None
    chain: bytes | None = None
    reason: str | None = None


class PendingRequests:
    """Waiters by transaction until it is agreed, then by index until its effect is here and applied."""

    def __init__(self, store: MasterStore, *, decided_before: int = 0) -> None:
        """`store` has everything that was agreed; effects up to `decided_before` were here before the start."""
        self._store: Final = store
        self._decided_before = decided_before
        self._waiting: dict[bytes, list[Waiter]] = {}
        self._agreed: dict[int, tuple[bytes, TxAnswer, list[Waiter]]] = {}
        """Id, place and waiters, by index."""
        self.rejected: dict[int, str] = {}
        """Rejections that are not saved yet, by index."""
        self.back: int | None = None
        """Index after which saved rejections are void; None if all of them count."""
        self.settled = 0
        """Index up to which effects are here, and applied by a worker of this data centre."""
        self.decided = 0
        """Index up to which effects are here."""

    @property
    def shown(self) -> int:
        """Index that a read must show: everything that was acknowledged here, also before the last start."""
        return max(self.settled, self._decided_before)

    def __len__(self) -> int:
        """Return the number of transactions for which a client waits."""
        return len(self._waiting) + len(self._agreed)

    def is_known(self, transaction_id: bytes) -> bool:
        """Return whether a transaction with this id is agreed, or on its way into the queue."""
        return transaction_id in self._waiting or self._store.logged(transaction_id) is not None

    def wait(self, transaction_id: bytes, waiter: Waiter) -> bool:
        """Add a waiter; return True if the transaction is new here, so that its payload must be published.

        The answer may be known at once: an id is never executed twice.
        """
        known = self._store.logged(transaction_id)
        if known is None:
            is_new = transaction_id not in self._waiting
            self._waiting.setdefault(transaction_id, []).append(waiter)
            return is_new
        index, body_hash = known
        entry = self._store.entry(index)
        answer = TxAnswer(index=index, chain=entry[0] if entry else b"")
        self._await(transaction_id, answer, body_hash, [waiter])
        self._answer_settled()
        return False

    def leave(self, transaction_id: bytes, waiter: Waiter, *, queued: bool) -> None:
        """Remove a waiter, as its transaction may wait for days.  `queued`: True if that is in the incoming queue."""
        waiters = self._waiting.get(transaction_id)
        if waiters is None:
            known = self._store.logged(transaction_id)
            waiters = self._agreed[known[0]][2] if known and known[0] in self._agreed else []
        if waiter in waiters:
            waiters.remove(waiter)
        if not self._waiting.get(transaction_id) and queued:
            self._waiting.pop(transaction_id, None)  # else it is still on its way into the queue

    def agreed(
        self, entries: Sequence[Entry], payloads: Payloads, *, confirms: Callable[[Entry], bool]
    ) -> None:
        """Note entries that are synchronised and saved; `confirms` returns whether a majority agreed on an entry."""
        for entry in entries:
            waiters = self._waiting.pop(entry.pair.id, None)
            if waiters:
                answer = TxAnswer(index=entry.index, chain=entry.chain, by_majority=confirms(entry))
                self._await(entry.pair.id, answer, payloads[entry.pair[1:]].body_hash, waiters)

    def _await(
        self, transaction_id: bytes, answer: TxAnswer, body_hash: bytes, waiters: Sequence[Waiter]
    ) -> None:
        same = [waiter for waiter in waiters if waiter.body_hash == body_hash]
        if same:
            self._agreed.setdefault(answer.index, (transaction_id, answer, []))[2].extend(same)
        for waiter in waiters:
            if waiter.body_hash != body_hash:
                message = "this Idempotency-Key was used with another body; use a new key for a new update"
                waiter.tell(KeyReused(message))

    def complete(self, *, decided: int, applied: int) -> None:
        """Answer waiters, now that effects are here up to `decided`, and a worker has applied up to `applied`."""
        self.decided = max(self.decided, decided)
        settled = min(self.decided, applied)
        if settled > self.settled:
            self.settled = settled
            self._answer_settled()

    def go_back(self, index: int) -> None:
        """Note that effects are here up to `index` only; what was decided after it will be decided again."""
        self.decided, self.settled = min(self.decided, index), min(self.settled, index)
        self._decided_before = min(self._decided_before, index)
        self.rejected = {at: reason for at, reason in self.rejected.items() if at <= index}
        self.back = index if self.back is None else min(self.back, index)

    def saved(self) -> None:
        """Note that the store has all rejections, and none that is void."""
        self.rejected, self.back = {}, None

    def truncate(self, index: int, *, waits: Callable[[bytes], bool], dequeued: Iterable[bytes]) -> None:
        """Note that the log was replaced after an entry, and that this is saved.

        Transactions that were agreed after it are elsewhere in the log, or wait again.

        Args:
            index: index of the last entry that stayed.
            waits: function that returns whether a transaction with this id is in the incoming queue.
            dequeued: ids that left the queue, and may be in the log or nowhere now: control entries end with
                their branch.

        """
        self.go_back(index)
        ended = {transaction_id for transaction_id in dequeued if not waits(transaction_id)}
        for at in sorted(at for at in self._agreed if at > index):
            transaction_id, _, waiters = self._agreed.pop(at)
            self._waiting.setdefault(transaction_id, []).extend(waiters)
            if not waits(transaction_id):
                ended.add(transaction_id)
        for transaction_id in list(self._waiting):
            if known := self._store.logged(transaction_id):
                at, body_hash = known
                entry = self._store.entry(at)
                answer = TxAnswer(index=at, chain=entry[0] if entry else b"")
                self._await(transaction_id, answer, body_hash, self._waiting.pop(transaction_id))
            elif transaction_id in ended:
                for waiter in self._waiting.pop(transaction_id):
                    waiter.tell(
                        OutcomeUnknown(ENDED, retry_after=5)
                    )  # seed 78 of the weather: it was agreed later

    def _answer_settled(self) -> None:
        for index in sorted(index for index in self._agreed if index <= self.settled):
            _, answer, waiters = self._agreed.pop(index)
            reason = self._reason(index)
            for waiter in waiters:
                waiter.tell(answer if reason is None else Rejected(reason))

    def _reason(self, index: int) -> str | None:
        if reason := self.rejected.get(index):
            return reason
        return None if self.back is not None and index > self.back else self._store.rejection(index)

    def state_of(self, transaction_id: bytes, *, queued: bool) -> TxStatus:
        """Return what is known about a transaction; `queued`: True if it is in the incoming queue.

        The state "unknown" means that nothing with this id is here.
        """
        known = self._store.logged(transaction_id)
        if known is None:
            if queued or transaction_id in self._waiting:
                return TxStatus(state=TxState.PENDING)
            had = self._store.ended(transaction_id)
            if had is None:
                return TxStatus(state=TxState.UNKNOWN)
            return TxStatus(state=TxState.SUPERSEDED, reason=SUPERSEDED.format(index=had))
        index = known[0]
        entry = self._store.entry(index)
        if entry is None or entry[1].id != transaction_id:  # the log was cut in between
            return TxStatus(state=TxState.PENDING)
        chain = entry[0]
        reason = self._reason(index)
        # Applied: a client that receives this state may read the change here.
        visible = TxState.APPLIED if index <= self.settled else TxState.PENDING
        state = visible if reason is None else TxState.REJECTED
        return TxStatus(state=state, index=index, chain=chain, reason=reason)
