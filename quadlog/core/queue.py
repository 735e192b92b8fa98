"""The incoming queue: what is known, what of it is acquired, in the order of timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sortedcontainers import SortedList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.model import Pair, Transaction


class IncomingQueue:
    """Pairs that wait for the agreement.  Only those whose payload is acquired may be posted.

    A pair's payload is named by its id and digest; the payload of an id may be there before any
    pair of it, and a pair before its payload.
    """

    def __init__(self, pairs: Iterable[Pair], acquired: Iterable[Transaction]) -> None:
        """Continue with what was saved."""
        self._posting: SortedList[Pair] = SortedList()
        self._pairs: dict[bytes, set[Pair]] = {}
        self._payloads: dict[bytes, dict[bytes, Transaction]] = {}
        self._length = 0
        for transaction in acquired:
            self.acquire(transaction)
        for pair in pairs:
            self.add(pair)

    def __contains__(self, transaction_id: bytes) -> bool:
        """Does any pair of this id wait?"""
        return transaction_id in self._pairs

    def __len__(self) -> int:
        """Count of pairs, those without their payload included."""
        return self._length

    def pairs(self, transaction_id: bytes) -> Iterable[Pair]:
        """All waiting pairs of an id."""
        return self._pairs.get(transaction_id, ())

    def transaction(self, pair: Pair) -> Transaction | None:
        """What the pair stands for, if it is acquired."""
        return self._payloads.get(pair.id, {}).get(pair.digest)

    def has_payload(self, key: tuple[bytes, bytes]) -> bool:
        """Is the payload of this id and digest acquired?"""
        return key[1] in self._payloads.get(key[0], ())

    def acquired_prefix(self, length: int) -> tuple[Pair, ...]:
        """The first pairs whose payload is acquired: what a post holds."""
        return tuple(self._posting[:length])

    def add(self, pair: Pair) -> bool:
        """Add a pair that is not there yet.  True if it may be posted now."""
        self._pairs.setdefault(pair.id, set()).add(pair)
        self._length += 1
        if not self.has_payload(pair[1:]):
            return False
        self._posting.add(pair)
        return True

    def acquire(self, transaction: Transaction) -> bool:
        """The payload is durable in this DC.  True if pairs waited for it and may be posted now."""
        self._payloads.setdefault(transaction.id, {})[transaction.digest] = transaction
        arrived = [p for p in self._pairs.get(transaction.id, ()) if p.digest == transaction.digest]
        self._posting.update(arrived)
        return bool(arrived)

    def remove(self, transaction_id: bytes) -> tuple[set[Pair], list[tuple[bytes, bytes]]]:
        """Forget an id: its pairs and the keys of its payloads are returned."""
        pairs = self._pairs.pop(transaction_id, set())
        payloads = self._payloads.pop(transaction_id, {})
        for pair in pairs:
            self._posting.discard(pair)
        self._length -= len(pairs)
        return pairs, [(transaction_id, digest) for digest in payloads]
