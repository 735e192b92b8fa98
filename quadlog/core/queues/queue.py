"""The incoming queue: what waits, and which of it is acquired.

Kept for 100,000 transactions and more, so the usual one costs a pair and a place in a dictionary:
one pair, its payload acquired, nothing special about it.  Whatever else may be is kept beside.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from quadlog.core.model import Kind, Transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.model import Pair


class IncomingQueue:
    """Pairs that wait for the agreement.  Only those whose payload is acquired may be posted.

    A pair's payload is named by its id and digest; the payload of an id may be there before any
    pair of it, and a pair before its payload.
    """

    def __init__(self, pairs: Iterable[Pair], acquired: Iterable[Transaction]) -> None:
        """Continue with what was saved."""
        self.replace(pairs, acquired)

    def replace(self, pairs: Iterable[Pair], acquired: Iterable[Transaction]) -> None:
        """Hold these and no others."""
        self._first: dict[bytes, Pair] = {}
        self._twins: dict[bytes, tuple[Pair, ...]] = {}
        """Further pairs of an id: given to two masters at once, or with two bodies."""
        self._lacking: set[Pair] = set()
        """Pairs whose payload is not acquired."""
        self._early: dict[bytes, tuple[bytes, ...]] = {}
        """Digests of acquired payloads that no pair names yet, by id."""
        self._special: dict[tuple[bytes, bytes], Transaction] = {}
        """Acquired transactions that are more than id and digest."""
        for transaction in acquired:
            self.acquire(transaction)
        for pair in pairs:
            self.add(pair)
        self._early = dict(self._early)  # all were in it, and a dictionary does not shrink by itself

    def __contains__(self, transaction_id: bytes) -> bool:
        """Does any pair of this id wait?"""
        return transaction_id in self._first

    def __len__(self) -> int:
        """Count of transactions that wait, those without their payload included."""
        return len(self._first)

    def pairs(self, transaction_id: bytes) -> tuple[Pair, ...]:
        """All waiting pairs of an id."""
        first = self._first.get(transaction_id)
        return () if first is None else (first, *self._twins.get(transaction_id, ()))

    def transaction(self, pair: Pair) -> Transaction | None:
        """What the pair stands for, if it is acquired."""
        if not self.has_payload(pair.key):
            return None
        return self._special.get(pair.key) or Transaction(id=pair.id, digest=pair.digest)

    def has_payload(self, key: tuple[bytes, bytes]) -> bool:
        """Is the payload of this id and digest acquired?"""
        transaction_id, digest = key
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
        """All pairs whose payload is acquired, in order: what a snapshot holds."""
        pairs = chain(self._first.values(), *self._twins.values())
        return sorted(pair for pair in pairs if pair not in self._lacking)

    def everything(self) -> list[Pair]:
        """All pairs, those without their payload included, in order."""
        return sorted(chain(self._first.values(), *self._twins.values()))

    def transactions(self) -> list[Transaction]:
        """All that is acquired, by a pair or before any."""
        keys = dict.fromkeys(pair.key for pair in self.acquired())
        keys.update(dict.fromkeys((i, digest) for i, digests in self._early.items() for digest in digests))
        return [self._special.get(key) or Transaction(id=key[0], digest=key[1]) for key in keys]

    def add(self, pair: Pair) -> bool:
        """Add a pair that is not there yet.  True if it may be posted now."""
        has_payload = self.has_payload(pair.key)
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
        """A payload that was not there is durable in this DC.  Pairs that may be posted now are returned."""
        if transaction.kind is not Kind.TX or transaction.options:
            self._special[transaction.key] = transaction
        arrived = [p for p in self.pairs(transaction.id) if p.digest == transaction.digest]
        if arrived:
            self._lacking.difference_update(arrived)
        else:
            self._early[transaction.id] = (*self._early.get(transaction.id, ()), transaction.digest)
        return arrived

    def remove(self, transaction_id: bytes) -> tuple[tuple[Pair, ...], list[tuple[bytes, bytes]]]:
        """Forget an id: its pairs and the keys of its payloads are returned."""
        pairs = self.pairs(transaction_id)
        digests = {*self._early.pop(transaction_id, ()), *(p.digest for p in pairs if p not in self._lacking)}
        self._first.pop(transaction_id, None)
        self._twins.pop(transaction_id, None)
        self._lacking.difference_update(pairs)
        keys = [(transaction_id, digest) for digest in sorted(digests)]
        for key in keys:
            self._special.pop(key, None)
        return pairs, keys
