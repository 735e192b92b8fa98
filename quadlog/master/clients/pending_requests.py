"""Pending requests: which client waits for the outcome of which transaction.

Owned by the node's thread, except for `state_of`, which only reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quadlog.core.synchronous import ROLLED_BACK, SUSPENDED, is_synchronous, resumed_id
from quadlog.errors import KeyReused, OutcomeUnknown, Rejected, RolledBack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quadlog.core.model import Entry
    from quadlog.masterstore.store import MasterStore, Payloads


REUSED: Final = (
    "this Idempotency-Key was used with another body, other parameters or another Quadlog-Commit; use a new key for a"
    " new update"
)

REMEMBERED: Final = 100_000
"""Entries that were synchronous by their effects and are remembered, for answers to repeated requests."""

ENDED: Final = (
    "the log here gave way to another data centre's, and this change ended with it; it may still be agreed where it was"
    " passed on to before: ask /tx/ in Location, or send it again with the same Idempotency-Key"
)


SUPERSEDED: Final = (
    "it was entry {index} of a log that gave way to another data centre's, and ended with it; it may still be agreed"
    " where it was passed on to before. To have it, send it again with the same Idempotency-Key"
)


class TxState(StrEnum):
    """State of a transaction as `/tx/{id or key}` reports it, unless only a branch has agreed on it."""

    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"
    ROLLED_BACK = "rolled back"
    """It was synchronous, and not committed within `synchro-timeout`."""
    SUSPENDED = "suspended"
    """It is synchronous, and a side without a majority has set it aside."""
    SUPERSEDED = "superseded"
    """It was agreed on a branch and ended with it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class TxAnswer:
    """Place of a transaction in the log."""

    index: int | None
    """None: it is lazy, and not agreed yet.  Of a barrier: index that a worker here shows, and the read must show."""
    chain: bytes
    members: Sequence[str] = field(default=(), compare=False)
    """Members of the view in which this master appended it, all of which have it; empty: it is not known."""
    is_synchronous: bool = False
    """True if only its effect has shown that it is."""
    by_majority: bool = False
    """True if this master appended it in a view that holds a majority (`Agreement.confirms`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A client that waits for a transaction with this body."""

    body_hash: bytes
    tell: Callable[[TxAnswer | Exception], None]
    """Called once, on the node's thread."""
    is_lazy: bool = False
    """True if the answer is due as soon as the transaction is durable in this data centre."""
    is_barrier: bool = False
    """True if the answer is due as soon as a worker here shows what strict reads behind the transaction must show."""


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
        self._offered: dict[bytes, bytes] = {}
        """By transaction that waits, the hash of the body that was offered first."""
        self._durable: set[bytes] = set()
        """Those of them that are durable in this data centre."""
        self._agreed: dict[int, tuple[bytes, TxAnswer, list[Waiter]]] = {}
        """Id, place and waiters, by index."""
        self._barriers: set[int] = set()
        """Indexes of them that are barriers of strict reads."""
        self.rejected: dict[int, str] = {}
        """Rejections that are not saved yet, by index."""
        self.back: int | None = None
        """Index after which saved rejections are void; None if all of them count."""
        self.settled = 0
        """Index up to which effects are here, and applied by a worker of this data centre."""
        self.decided = 0
        """Index up to which effects are here."""
        self.suspended: set[int] = set()
        """Indexes of suspended entries that are not submitted again."""
        self._found: set[int] = set()
        """Indexes of entries that are synchronous by their effects."""
        self._confirmed = decided_before
        """Index up to which effects are in the topics of enough data centres for synchronous transactions."""

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
            return self._wait_for_agreement(transaction_id, waiter)
        index, body_hash = known
        entry = self._store.entry(index)
        if entry is not None and self._reason(index) == SUSPENDED:
            again = self._store.logged(resumed_id(entry[0]))
            index = index if again is None else again[0]
            entry = self._store.entry(index)
        answer = TxAnswer(index=index, chain=entry[0] if entry else b"")
        if waiter.is_lazy and waiter.body_hash == body_hash and index > self.settled:
            waiter.tell(answer)
            return False
        self._await(transaction_id, answer, body_hash, [waiter])
        self._answer_settled()
        return False

    def _wait_for_agreement(self, transaction_id: bytes, waiter: Waiter) -> bool:
        """Add a waiter for a transaction that is not agreed; return True if it is new here."""
        is_new = transaction_id not in self._waiting
        offered = self._offered.setdefault(transaction_id, waiter.body_hash)
        waiters = self._waiting.setdefault(transaction_id, [])
        if waiter.is_lazy and waiter.body_hash != offered:
            waiter.tell(KeyReused(REUSED))  # who waits for the outcome learns which of them is agreed
        elif waiter.is_lazy and transaction_id in self._durable:
            waiter.tell(TxAnswer(index=None, chain=b""))
        else:
            waiters.append(waiter)
        return is_new

    def leave(self, transaction_id: bytes, waiter: Waiter, *, queued: bool) -> None:
        """Remove a waiter, as its transaction may wait for days.  `queued`: True if that is in the incoming queue."""
        waiters = self._waiting.get(transaction_id)
        if waiters is None:
            known = self._store.logged(transaction_id)
            waiters = self._agreed[known[0]][2] if known and known[0] in self._agreed else []
        if waiter in waiters:
            waiters.remove(waiter)
        if not self._waiting.get(transaction_id) and queued:
            self._forget(transaction_id)  # else it is still on its way into the queue

    def _forget(self, transaction_id: bytes) -> list[Waiter]:
        """Stop waiting for a transaction to be agreed; return who waited."""
        self._offered.pop(transaction_id, None)
        self._durable.discard(transaction_id)
        return self._waiting.pop(transaction_id, [])

    def agreed(
        self, entries: Sequence[Entry], payloads: Payloads, *, confirms: Callable[[Entry], bool]
    ) -> None:
        """Note entries that are synchronised and saved; `confirms` returns whether a majority agreed on an entry."""
        for entry in entries:
            waiters = self._forget(entry.pair.id)
            if waiters:
                answer = TxAnswer(
                    index=entry.index,
                    chain=entry.chain,
                    members=entry.view.members,
                    by_majority=confirms(entry),
                )
                self._await(entry.pair.id, answer, payloads[entry.pair[1:]].body_hash, waiters)

    def _await(
        self, transaction_id: bytes, answer: TxAnswer, body_hash: bytes, waiters: Sequence[Waiter]
    ) -> None:
        same = [waiter for waiter in waiters if waiter.body_hash == body_hash]
        if same:
            assert answer.index is not None, "it is agreed"
            self._agreed.setdefault(answer.index, (transaction_id, answer, []))[2].extend(same)
            if any(waiter.is_barrier for waiter in same):
                self._barriers.add(answer.index)
        for waiter in waiters:
            if waiter.body_hash != body_hash:
                waiter.tell(KeyReused(REUSED))

    def reject(self, index: int, reason: str) -> None:
        """Note that the entry at an index is not applied, and why."""
        self.rejected[index] = reason
        if reason == SUSPENDED:
            self.suspended.add(index)

    def note_synchronous(self, index: int) -> None:
        """Note that the entry at an index is synchronous by its effect."""
        self._found.add(index)
        if len(self._found) > REMEMBERED:
            self._found.remove(min(self._found))

    def durable(self, transaction_id: bytes) -> None:
        """Answer lazy waiters of a transaction, now that it is durable in this data centre."""
        waiters = self._waiting.get(transaction_id)
        if waiters is None:
            return
        self._durable.add(transaction_id)
        for waiter in [waiter for waiter in waiters if waiter.is_lazy]:
            waiters.remove(waiter)
            waiter.tell(TxAnswer(index=None, chain=b""))

    def complete(self, *, decided: int, applied: int, confirmed: int = 0) -> None:
        """Answer waiters.

        By index: `decided`: effects are here; `applied`: a worker here shows them; `confirmed`: enough data centres
        have them for synchronous transactions.
        """
        self.decided = max(self.decided, decided)
        settled = min(self.decided, applied)
        if settled > self.settled or confirmed > self._confirmed:
            self.settled = max(settled, self.settled)
            self._confirmed = max(confirmed, self._confirmed)
            self._answer_settled()

    def answer_barriers(self, read_index: Callable[[int], int]) -> None:
        """Answer strict reads whose barriers are agreed, if a worker here shows what they need.

        A barrier that no majority has agreed on is answered at once: its read is refused.

        `read_index` returns what a read must show, by the index of its barrier (`ReadIndex`).
        """
        for at in sorted(self._barriers):
            _, answer, waiters = self._agreed[at]
            index = read_index(at) if answer.by_majority else at
            if index <= self.settled or not answer.by_majority:
                self._barriers.remove(at)
                del self._agreed[at]
                for waiter in waiters:
                    waiter.tell(replace(answer, index=index))

    def go_back(self, index: int) -> None:
        """Note that effects are here up to `index` only; what was decided after it will be decided again."""
        self.decided, self.settled = min(self.decided, index), min(self.settled, index)
        self._confirmed = min(self._confirmed, index)
        self.suspended = {at for at in self.suspended if at <= index}
        self._decided_before = min(self._decided_before, index)
        self.rejected = {at: reason for at, reason in self.rejected.items() if at <= index}
        self.back = index if self.back is None else min(self.back, index)

    def saved(self) -> None:
        """Note that the store has all rejections, and none that is void."""
        self.rejected, self.back = {}, None

    def truncate(self, index: int, *, waits: Callable[[bytes], bool], dequeued: Iterable[bytes]) -> None:
        """Note that the log was replaced after an entry, and that this is saved.

        Transactions that were agreed after it are elsewhere in the log, or wait again.

        `waits` returns whether a transaction with this id is in the incoming queue.  `dequeued`: ids that left the
        queue, and may be in the log or nowhere now: control entries end with their branch.
        """
        self.go_back(index)
        ended = {transaction_id for transaction_id in dequeued if not waits(transaction_id)}
        for at in sorted(at for at in self._agreed if at > index):
            transaction_id, _, waiters = self._agreed.pop(at)
            self._barriers.discard(at)
            self._waiting.setdefault(transaction_id, []).extend(waiters)
            if not waits(transaction_id):
                ended.add(transaction_id)
        for transaction_id in list(self._waiting):
            if known := self._store.logged(transaction_id):
                at, body_hash = known
                answer = TxAnswer(index=at, chain=self._store.chain_at(at) or b"")
                self._await(transaction_id, answer, body_hash, self._forget(transaction_id))
            elif transaction_id in ended:
                for waiter in self._forget(transaction_id):
                    waiter.tell(
                        OutcomeUnknown(ENDED, retry_after=5)
                    )  # seed 78 of the weather: it was agreed later

    def _answer_settled(self) -> None:
        for index in sorted(index for index in self._agreed if index <= self.settled):
            reason = self._reason(index)
            if index > self._confirmed and reason not in _STATES and self._is_synchronous(index):
                continue
            _, answer, waiters = self._agreed.pop(index)
            self._barriers.discard(index)
            answer = replace(answer, is_synchronous=index in self._found)
            for waiter in waiters:
                waiter.tell(answer if reason is None else _failure_of(reason))

    def _is_synchronous(self, index: int) -> bool:
        entry = self._store.entry(index)
        return index in self._found or (entry is not None and is_synchronous(entry[1]))

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
        state = visible if reason is None else _STATES.get(reason, TxState.REJECTED)
        if state is TxState.SUSPENDED:
            again = self.state_of(resumed_id(chain), queued=False)
            return again if again.index is not None else replace(SUSPENDED_STATUS, index=index, chain=chain)
        return TxStatus(state=state, index=index, chain=chain, reason=reason)


SUSPENDED_STATUS: Final = TxStatus(state=TxState.SUSPENDED, reason=SUSPENDED)

_STATES: Final = {ROLLED_BACK: TxState.ROLLED_BACK, SUSPENDED: TxState.SUSPENDED}
"""States of transactions that are not applied, by the reason in the effect; all others are rejected."""


def _failure_of(reason: str) -> Exception:
    """Return the answer about a transaction that is not applied for a reason."""
    if reason == SUSPENDED:
        return OutcomeUnknown(
            f"{reason}; it waits until the split is over: ask /tx/ in Location", retry_after=5
        )
    return RolledBack(reason) if reason == ROLLED_BACK else Rejected(reason)
