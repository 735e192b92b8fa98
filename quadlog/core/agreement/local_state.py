"""Local state of one master: its incoming queue, the end of its log, and the unsaved changes of both.

All changes made here go into the next `Save`, which otherwise contains only counter, sequence and standing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from quadlog.core.agreement.limbo import Limbo
from quadlog.core.messages import Adopted
from quadlog.core.model import Entry, Pair, Transaction
from quadlog.core.queues.queue import IncomingQueue
from quadlog.core.queues.synchronised import SynchronisedQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.agreement.inheritance import RebasedQueue
    from quadlog.core.messages import JoinedLog, LoggedDigests, RecoveredState
    from quadlog.core.model import LogPosition, View


@dataclass(slots=True)
class PendingWrites:
    """Changes that are not saved yet."""

    acquired: list[Transaction] = field(default_factory=list[Transaction])
    enqueued: dict[Pair, None] = field(default_factory=dict[Pair, None])
    dequeued: list[Pair] = field(default_factory=list[Pair])
    entries: list[Entry] = field(default_factory=list[Entry])
    released: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    adopted: Adopted | None = None


class LocalState:
    """Queue and log of one master."""

    def __init__(self, durable: RecoveredState, *, logged: LoggedDigests, length: int) -> None:
        """Continue from the saved state; `logged` and `length` as of `SynchronisedQueue`."""
        self.queue: Final = IncomingQueue(durable.queue, durable.acquired)
        self.log = SynchronisedQueue(durable.last, durable.tail, logged=logged, length=length)
        self.limbo: Final = Limbo(durable.marks)
        self.changes = PendingWrites()
        self._logged: Final = logged
        self._length: Final = length
        self._is_adopted = False
        self._twins = {key: durable.last.index for key in self.queue.early() if key[0] in self.log}
        """Payloads whose ids are synchronised with other ones, by key, with an index at or after these entries."""

    def begin_turn(self) -> None:
        """Begin a turn: the changes taken last are saved, including an adopted log."""
        if self._is_adopted:
            self.log.logged, self._is_adopted = self._logged, False

    def take_changes(self) -> PendingWrites:
        """Return the changes to save now, and start with no changes."""
        changes, self.changes = self.changes, PendingWrites()
        self._is_adopted = changes.adopted is not None
        return changes

    # --- the log ------------------------------------------------------------------------------------

    def append(self, pair: Pair, transaction: Transaction, view: View, now: float) -> bool:
        """Append a waiting pair as the next entry, at steady milliseconds `now`; return whether the limbo changes."""
        self.changes.entries.append(self.log.append(pair, transaction, view))
        self._spend(pair)
        return self.limbo.append(self.log.last, pair, now)

    def _spend(self, agreed: Pair) -> None:
        """Spend all pairs of an id, and release the payload that is agreed; others of this id become twins."""
        pairs, twins = self.queue.spend(agreed)
        for pair in pairs:
            self._dequeue(pair)
        self.changes.released.append(agreed.key)
        for key in twins:
            self._twins[key] = self.log.last.index

    def adopt(self, joined_log: JoinedLog, last: LogPosition, rebased_queue: RebasedQueue) -> None:
        """Replace the log by a joined log up to `last`, and the queue by the rebased one."""
        tail, logged = joined_log.tail(last.index, self._length), joined_log.digests(last.index)
        self.log = SynchronisedQueue(last, tail, logged=logged, length=self._length)
        self.changes.adopted = Adopted(joined_log, last, rebased_queue.ended)
        self.limbo.cut(min(joined_log.fork.index, last.index), joined_log.marks(last.index))
        self.changes.acquired += rebased_queue.regained
        self.changes.released += rebased_queue.released
        self.replace_queue(rebased_queue.pairs, rebased_queue.acquired)
        self._twins = dict.fromkeys(rebased_queue.twins, last.index)

    # --- the queue ----------------------------------------------------------------------------------

    def enqueue(self, pair: Pair) -> bool:
        """Add a pair that is not there yet; return whether it may be posted now."""
        self.changes.enqueued[pair] = None
        return self.queue.add(pair)

    def _dequeue(self, pair: Pair) -> None:
        if pair in self.changes.enqueued:
            del self.changes.enqueued[pair]
        else:
            self.changes.dequeued.append(pair)

    def acquire(self, transaction: Transaction) -> list[Pair]:
        """Note that a payload that was not there is durable in this DC; return the pairs that may be posted now."""
        self.changes.acquired.append(transaction)
        return self.queue.acquire(transaction)

    def acquire_twin(self, transaction: Transaction) -> None:
        """Note that a payload is durable in this DC, and that its id is synchronised with another one."""
        self.acquire(transaction)
        self._twins[transaction.key] = self.log.last.index

    @property
    def has_twins(self) -> bool:
        """True if there are payloads whose ids are synchronised with other ones."""
        return bool(self._twins)

    def release_twins(self, settled: int) -> None:
        """Release the twins of entries up to an index, which are never cut."""
        for key in [key for key, index in self._twins.items() if index <= settled]:
            del self._twins[key]
            self.queue.forget(key)
            self.changes.released.append(key)

    def has_payload(self, pair: Pair) -> bool:
        """Return whether the payload of a pair is here, or its transaction is already agreed."""
        return pair.id in self.log or self.queue.has_payload(pair.key)

    def replace_queue(self, pairs: Sequence[Pair], acquired: Sequence[Transaction]) -> None:
        """Replace the whole content of the queue."""
        before, after = set(self.queue.everything()), set(pairs)
        for pair in sorted(before - after):
            self._dequeue(pair)
        self.changes.enqueued.update(dict.fromkeys(sorted(after - before)))
        self.queue.replace(pairs, acquired)
