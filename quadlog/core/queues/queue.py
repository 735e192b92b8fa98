"""The incoming queue: the waiting pairs, and which of their payloads are acquired.

The queue may hold 100,000 transactions and more, so an ordinary transaction costs only a pair and a
dictionary entry: one pair, its payload acquired, kind TX and no options.  Exceptions are kept in additional
dictionaries.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from quadlog.core.approval import implied_by
from quadlog.core.model import Transaction, TransactionKind
from quadlog.core.synchronous import decision_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from quadlog.core.model import Pair
    from quadlog.core.synchronous import Decision


class IncomingQueue:
    """Pairs that wait for the agreement.  Only those whose payload is acquired may be posted.

    Id and digest of a pair identify its payload.  A payload may arrive before any pair of its id, and a pair
    before its payload.  A decision needs none: its digest determines it.
    """

    def __init__(self, pairs: Iterable[Pair], acquired: Iterable[Transaction]) -> None:
        self.replace(pairs, acquired)

    def replace(self, pairs: Iterable[Pair], acquired: Iterable[Transaction]) -> None:
        """Replace the whole content of the queue."""
        self._first: dict[bytes, Pair] = {}
        self._twins: dict[bytes, tuple[Pair, ...]] = {}
        """Further pairs of an id: submitted to two masters at the same time, or with two bodies."""
        self._lacking: set[Pair] = set()
        """Pairs whose payload is not acquired."""
        self._early: dict[bytes, tuple[bytes, ...]] = {}
        """Digests of acquired payloads that no pair refers to yet, by id."""
        self._special: dict[tuple[bytes, bytes], Transaction] = {}
        """Acquired transactions with another kind than TX, or with options."""
        self._decisions: dict[tuple[bytes, bytes], Decision] = {}
        """Decisions on synchronous transactions that wait."""
        for transaction in acquired:
            self.acquire(transaction)
        for pair in pairs:
            self.add(pair)
        self._early = dict(self._early)  # it held all payloads, and a dictionary never shrinks

    def __contains__(self, transaction_id: bytes) -> bool:
        """Return whether any pair of this id waits."""
        return transaction_id in self._first

    def __len__(self) -> int:
        """Return the number of waiting transactions, including those without their payload."""
        return len(self._first)

    def pairs(self, transaction_id: bytes) -> tuple[Pair, ...]:
        """Return all waiting pairs of an id."""
        first = self._first.get(transaction_id)
        return () if first is None else (first, *self._twins.get(transaction_id, ()))

    def transaction(self, pair: Pair) -> Transaction | None:
        """Return the transaction of a pair; None if its payload is not acquired."""
        return self._transaction(pair.key) if self.has_payload(pair.key) else None

    def _transaction(self, key: tuple[bytes, bytes]) -> Transaction:
        return implied_by(key) or self._special.get(key) or Transaction(id=key[0], digest=key[1])

    def has_payload(self, key: tuple[bytes, bytes]) -> bool:
        """Return whether the payload of this id and digest is acquired."""
        transaction_id, digest = key
        if implied_by(key) is not None:
            return True
        if digest in self._early.get(transaction_id, ()):
            return True
        first = self._first.get(transaction_id)
        if first is None:
            return False
        if first.digest == digest and first not in self._lacking:
            return True
        twins = self._twins.get(transaction_id, ())
        return any(twin.digest == digest and twin not in self._lacking for twin in twins)

    def acquired(self) -> list[Pair]:
        """Return all pairs whose payload is acquired, in order: the content of a snapshot."""
        pairs = chain(self._first.values(), *self._twins.values())
        return sorted(pair for pair in pairs if pair not in self._lacking)

    def everything(self) -> list[Pair]:
        """Return all pairs, including those without their payload, in order."""
        return sorted(chain(self._first.values(), *self._twins.values()))

    def transactions(self) -> list[Transaction]:
        """Return all acquired transactions, with or without a pair; none that need no payload."""
        keys = dict.fromkeys(pair.key for pair in self.acquired())
        keys.update(dict.fromkeys(self.early()))
        return [self._transaction(key) for key in keys if implied_by(key) is None]

    def special(self) -> Iterable[Transaction]:
        """Return the acquired transactions with another kind than TX, or with options."""
        return self._special.values()

    def decisions(self) -> Collection[Decision]:
        """Return the decisions on synchronous transactions that wait."""
        return self._decisions.values()

    def add(self, pair: Pair) -> bool:
        """Add a pair that is not there yet; return whether it may be posted now."""
        has_payload = self.has_payload(pair.key)
        if (decision := decision_in(pair.digest)) is not None:
            self._decisions[pair.key] = decision
        if pair.id in self._first:
            self._twins[pair.id] = (*self._twins.get(pair.id, ()), pair)
        else:
            self._first[pair.id] = pair
        if not has_payload:
            self._lacking.add(pair)
            return False
        others = tuple(digest for digest in self._early.pop(pair.id, ()) if digest != pair.digest)
        if others:
            self._early[pair.id] = others
        return True

    def acquire(self, transaction: Transaction) -> list[Pair]:
        """Note that a payload that was not there is durable in this DC; return the pairs that may be posted now."""
        if transaction.kind is not TransactionKind.TX or transaction.options:
            self._special[transaction.key] = transaction
        arrived = [p for p in self.pairs(transaction.id) if p.digest == transaction.digest]
        if arrived:
            self._lacking.difference_update(arrived)
        else:
            self._early[transaction.id] = (*self._early.get(transaction.id, ()), transaction.digest)
        return arrived

    def spend(self, agreed: Pair) -> tuple[tuple[Pair, ...], list[tuple[bytes, bytes]]]:
        """Remove all pairs of an id that is agreed; return them, and the keys of its other payloads, which stay."""
        transaction_id = agreed.id
        pairs = self.pairs(transaction_id)
        digests = {*self._early.pop(transaction_id, ()), *(p.digest for p in pairs if p not in self._lacking)}
        self._first.pop(transaction_id, None)
        self._twins.pop(transaction_id, None)
        self._lacking.difference_update(pairs)
        for digest in digests:
            self._decisions.pop((transaction_id, digest), None)
        self._special.pop(agreed.key, None)
        digests.discard(agreed.digest)
        others = [key for digest in sorted(digests) if implied_by(key := (transaction_id, digest)) is None]
        if others:
            self._early[transaction_id] = tuple(digest for _, digest in others)
        return pairs, others

    def forget(self, key: tuple[bytes, bytes]) -> None:
        """Forget an acquired payload that no pair refers to."""
        transaction_id, digest = key
        self._special.pop(key, None)
        left = tuple(one for one in self._early.pop(transaction_id, ()) if one != digest)
        if left:
            self._early[transaction_id] = left

    def early(self) -> Iterable[tuple[bytes, bytes]]:
        """Return the keys of the acquired payloads that no pair refers to."""
        return ((name, digest) for name, digests in self._early.items() for digest in digests)
