"""Rules for what was over before something else began: strict serializability, strict and session reads.

Two operations that touch at one moment are concurrent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from tests.support.histories.facts import KnownTransaction, ShownRead
from tests.support.histories.model import Anomaly, AnomalyKind, AppendMode, ReadKind, described

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.histories.facts import HistoryFacts
    from tests.support.histories.model import AppendTransaction, Operation

K = TypeVar("K")
BEGIN, END = 0, 1
"""Of two events at one time, a begin is first."""
Event = tuple[float, int, KnownTransaction | ShownRead, "AppendTransaction | None"]
"""Time, `BEGIN` or `END`, of what; a request, if it ends for its client alone."""


class MostRequired(Generic[K]):
    """By key the longest prefix of the final list that was acknowledged or shown so far, and by what."""

    def __init__(self) -> None:
        self._most: dict[K, tuple[int, Sequence[Operation]]] = {}

    def add(self, key: K, length: int, because: Sequence[Operation]) -> None:
        """From now on, `length` values of a key are required."""
        if length > self._most.get(key, (0, ()))[0]:
            self._most[key] = (length, because)

    def beyond(self, key: K, length: int) -> Sequence[Operation]:
        """What requires more than `length` values; empty if nothing does."""
        required, because = self._most.get(key, (0, ()))
        return because if required > length else ()


class RealTimeRules:
    """Follows the history once, in the order of time."""

    def __init__(self, facts: HistoryFacts, shown: Sequence[ShownRead]) -> None:
        self._acknowledged = MostRequired[str]()
        """By key: what a strict read has to show."""
        self._synchronous = MostRequired[str]()
        """By key: what a synchronous transaction has to follow."""
        self._of_client = MostRequired[tuple[str, str]]()
        """By client and key: what a session read has to show."""
        self._highest: KnownTransaction | None = None
        """Of the synchronous transactions that are done."""
        self._transactions, self._shown = facts.transactions, shown

    def check(self) -> Iterator[Anomaly]:
        """Anomalies in the order of time."""
        events = [*self._events_of_transactions(), *self._events_of_reads()]
        events.sort(key=lambda event: event[:2])
        for _, role, subject, request in events:
            if role == END:
                self._end(subject, request)
            elif isinstance(subject, KnownTransaction):
                yield from self._follow(subject)
            else:
                yield from self._show(subject)

    def _events_of_transactions(self) -> Iterator[Event]:
        for one in self._transactions:
            if one.mode is AppendMode.SYNC:
                yield one.invoked, BEGIN, one, None
            if one.is_acknowledged:
                yield one.acknowledged, END, one, None
            for request in one.done:
                yield request.completed, END, one, request

    def _events_of_reads(self) -> Iterator[Event]:
        for one in self._shown:
            if one.read.kind in {ReadKind.STRICT, ReadKind.SESSION}:
                yield one.read.invoked, BEGIN, one, None
            if one.read.kind is ReadKind.STRICT:
                yield one.read.completed, END, one, None

    def _end(self, subject: KnownTransaction | ShownRead, request: AppendTransaction | None) -> None:
        """From now on more is required."""
        if not isinstance(subject, KnownTransaction):
            for key, length in subject.lengths.items():
                self._acknowledged.add(key, length, (subject.read,))
        elif request is None:
            self._acknowledge(subject)
        else:
            for one, place in subject.places.items():
                self._of_client.add((request.client, one.key), place + 1, (request,))

    def _acknowledge(self, transaction: KnownTransaction) -> None:
        for one, place in transaction.places.items():
            self._acknowledged.add(one.key, place + 1, transaction.operations)
            if transaction.mode is AppendMode.SYNC:
                self._synchronous.add(one.key, place + 1, transaction.operations)
        if transaction.mode is AppendMode.SYNC and transaction.index is not None:
            highest = self._highest or transaction
            self._highest = max(highest, transaction, key=lambda one: one.index or 0)

    def _follow(self, transaction: KnownTransaction) -> Iterator[Anomaly]:
        """A synchronous transaction begins: all that are done are before it."""
        for one, place in transaction.places.items():
            if before := self._synchronous.beyond(one.key, place):
                text = (
                    f"{transaction.id} was sent after {described(before[0])} was done, and is before it in the final"
                    f" list of {one.key}."
                )
                yield Anomaly(AnomalyKind.REAL_TIME_ORDER, text, (*before, *transaction.operations))
        if self._highest is None or self._highest.index is None or transaction.index is None:
            return
        if transaction.index < self._highest.index:
            text = (
                f"{transaction.id} was sent after {self._highest.id} was done with index {self._highest.index}, and"
                f" has index {transaction.index}."
            )
            operations = (*self._highest.operations, *transaction.operations)
            yield Anomaly(AnomalyKind.REAL_TIME_ORDER, text, operations)

    def _show(self, shown: ShownRead) -> Iterator[Anomaly]:
        """A strict or a session read begins: it shows all that is required now."""
        read = shown.read
        for key, length in shown.lengths.items():
            if read.kind is ReadKind.STRICT:
                because = self._acknowledged.beyond(key, length)
            else:
                because = self._of_client.beyond((read.client, key), length)
            if because:
                text = (
                    f"The {described(read)} shows {length} values of {key}, less than"
                    f" {described(because[0])}, which had ended before."
                )
                yield Anomaly(AnomalyKind.STALE_READ, text, (read, *because))
