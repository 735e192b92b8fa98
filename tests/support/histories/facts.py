"""A history as the rules look at it: by transaction, by key, and by what each read shows of the final lists."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from tests.support.histories.model import (
    AppendOutcome,
    AppendTransaction,
    ListAppend,
    ListRead,
    Operation,
    ReadKind,
    ReportedState,
    TxReport,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class KnownTransaction:
    """One transaction: all requests with its id, and all that `/tx` told of it."""

    __slots__ = (
        "acknowledged",
        "appends",
        "done",
        "effective",
        "id",
        "index",
        "indexes",
        "invoked",
        "mode",
        "places",
        "reports",
        "requests",
        "rolled_back",
        "told_applied",
        "told_rolled_back",
    )

    def __init__(self, requests: Sequence[AppendTransaction], reports: Sequence[TxReport]) -> None:
        first = requests[0]
        if any((one.mode, one.appends) != (first.mode, first.appends) for one in requests[1:]):
            raise ValueError(f"the requests of {first.tx} ask for different transactions")
        if len(set(first.appends)) < len(first.appends):
            raise ValueError(f"{first.tx} appends a value twice")
        self.id, self.mode, self.appends = first.tx, first.mode, first.appends
        self.requests, self.reports = tuple(requests), tuple(reports)
        self.done = tuple(one for one in requests if one.outcome is AppendOutcome.DONE)
        self.rolled_back = any(one.outcome is AppendOutcome.ROLLED_BACK for one in requests)
        self.told_applied = tuple(one for one in reports if one.state is ReportedState.APPLIED)
        self.told_rolled_back = any(one.state is ReportedState.ROLLED_BACK for one in reports)
        times = [*(one.completed for one in self.done), *(one.at for one in self.told_applied)]
        self.acknowledged = min(times, default=math.inf)
        """When it was first said to be done."""
        indexes = [*(one.index for one in self.done), *(one.index for one in self.told_applied)]
        self.indexes = tuple(index for index in indexes if index is not None)
        self.index = self.indexes[0] if self.indexes else None
        """That was acknowledged first."""
        self.effective = tuple(one for one in requests if one.outcome is not AppendOutcome.REFUSED)
        """Requests that may have had an effect, as far as their clients know."""
        self.invoked = min(one.invoked for one in self.effective or requests)
        """It has no effect before."""
        self.places = dict[ListAppend, int]()
        """Of its values in the final lists."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether its client, or `/tx`, said that it is done."""
        return self.acknowledged < math.inf

    @property
    def missing(self) -> list[ListAppend]:
        """What of it is not in the final lists."""
        return [one for one in self.appends if one not in self.places]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All that the history has of it."""
        return (*self.requests, *self.reports)


class HistoryFacts:
    """What several rules need.

    Raises:
        ValueError: the history is malformed: the harness made an error, not the cluster.

    """

    def __init__(self, history: Iterable[Operation]) -> None:
        self.reads: list[ListRead] = []
        """That did not fail, without the final ones."""
        self.finals: list[ListRead] = []
        self.centres: dict[str, str] = {}
        self.transactions = self._take(history)
        if not self.finals:
            raise ValueError("the history has no final read")
        self.owner = dict[tuple[str, int], KnownTransaction]()
        """Of each value that was asked for."""
        for transaction in self.transactions:
            for one in transaction.appends:
                if self.owner.setdefault(one, transaction) is not transaction:
                    raise ValueError(f"{one.value} is appended to {one.key} by two transactions")
        self.final_read = _most_common(self.finals)
        """The reference for all lists."""
        self.final = {key: tuple(dict.fromkeys(values)) for key, values in self.final_read.lists.items()}
        """Each value once, at its first place."""
        self.owners = {key: [self.owner.get((key, value)) for value in self.final[key]] for key in self.final}
        """The transaction at each place of a final list; None if nobody asked for that value."""
        for key, owners in self.owners.items():
            for place, (value, owner) in enumerate(zip(self.final[key], owners, strict=True)):
                if owner is not None:
                    owner.places[ListAppend(key, value)] = place

    def _take(self, history: Iterable[Operation]) -> list[KnownTransaction]:
        """All reads, and the transactions."""
        requests = defaultdict[str, list[AppendTransaction]](list)
        reports = defaultdict[str, list[TxReport]](list)
        for operation in history:
            match operation:
                case AppendTransaction():
                    requests[operation.tx].append(operation)
                case TxReport():
                    reports[operation.tx].append(operation)
                case ListRead():
                    if operation.is_ok:
                        (self.finals if operation.kind is ReadKind.FINAL else self.reads).append(operation)
                case _:
                    self.centres |= operation.centres
        if strangers := reports.keys() - requests.keys():
            raise ValueError(f"reports of transactions that nobody asked for: {sorted(strangers)}")
        return [KnownTransaction(requests[tx], reports.get(tx, ())) for tx in requests]


class ShownRead(NamedTuple):
    """A read, and how much of the final list it shows by key; without keys of an incompatible order."""

    read: ListRead
    lengths: Mapping[str, int]


def _most_common(finals: Sequence[ListRead]) -> ListRead:
    """A read of the lists that most workers have."""
    states = [frozenset((key, values) for key, values in one.lists.items() if values) for one in finals]
    [(most, _)] = Counter(states).most_common(1)
    return finals[states.index(most)]
