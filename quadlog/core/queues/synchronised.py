"""The synchronised queue: its newest entries, which a member that lags may need, and every id in it."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from quadlog.core.model import Entry, LogPosition, chain_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.core.messages import LoggedDigests
    from quadlog.core.model import Pair, Transaction, View


class SynchronisedQueue:
    """Entries, each chained to the previous one."""

    def __init__(
        self,
        last: LogPosition,
        tail: Iterable[tuple[LogPosition, Pair]],
        *,
        logged: LoggedDigests,
        length: int,
    ) -> None:
        """Continue from the saved state.

        `tail`: the newest entries, oldest first; `logged`: digests of all entries, and may lack the newest `length`,
        which are kept here.
        """
        self.last = last
        self.logged = logged
        self._length = length
        self._tail: deque[tuple[LogPosition, Pair]] = deque(tail, maxlen=length)
        self._tail_digests = {pair.id: pair.digest for _, pair in self._tail}

    def __contains__(self, transaction_id: bytes) -> bool:
        """Return whether a transaction of this id is synchronised."""
        return transaction_id in self._tail_digests or transaction_id in self.logged

    def digest(self, transaction_id: bytes) -> bytes | None:
        """Return the digest of the synchronised transaction of this id; None if there is none."""
        return self._tail_digests.get(transaction_id) or self.logged.get(transaction_id)

    def append(self, pair: Pair, transaction: Transaction, view: View) -> Entry:
        """Append a pair; return the entry that it becomes."""
        previous = self.last.chain
        self.last = LogPosition(self.last.index + 1, chain_hash(previous, transaction, pair.timestamp))
        if len(self._tail) == self._length:
            self._tail_digests.pop(self._tail[0][1].id, None)
        self._tail.append((self.last, pair))
        self._tail_digests[pair.id] = pair.digest
        return Entry(
            index=self.last.index,
            pair=pair,
            kind=transaction.kind,
            options=transaction.options,
            previous=previous,
            chain=self.last.chain,
            view=view,
        )

    def since(self, index: int) -> tuple[Pair, ...]:
        """Return the pairs of the entries after an index, oldest first, as far as they are kept here."""
        newest_first = islice(reversed(self._tail), max(self.last.index - index, 0))
        return tuple(pair for _, pair in newest_first)[::-1]

    def chain_at(self, index: int) -> bytes | None:
        """Return the chain hash of the entry at an index; None if it is not kept here."""
        if index == self.last.index:
            return self.last.chain
        kept = self._kept(index)
        return None if kept is None else kept[0].chain

    def pair_at(self, index: int) -> Pair | None:
        """Return the pair of the entry at an index; None if it is not kept here."""
        kept = self._kept(index)
        return None if kept is None else kept[1]

    def _kept(self, index: int) -> tuple[LogPosition, Pair] | None:
        back = self.last.index - index
        return self._tail[-1 - back] if 0 <= back < len(self._tail) else None
