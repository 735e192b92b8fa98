"""Faults that are planted into correct histories, generated or recorded: the checker has to find each of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tests.support.histories.model import (
    AnomalyKind,
    AppendMode,
    AppendOutcome,
    AppendTransaction,
    ListAppend,
    ListRead,
    Operation,
    ReadKind,
    TxReport,
)

if TYPE_CHECKING:
    from random import Random

History = Sequence[Operation]
Change = Callable[[str, tuple[int, ...]], tuple[int, ...]]
"""Of a key and its list."""


def plant(history: History, kind: AnomalyKind, chance: Random) -> History:
    """The history with one fault of a kind of `PLANTS`.

    Raises:
        IndexError: no operation of the history can have this fault.

    """
    return PLANTS[kind](history, chance)


def _lose(history: History, chance: Random) -> History:
    """A transaction that was done is not in the final lists; reads may have shown it."""
    lost = set(chance.choice([one for one in _appends(history) if one.outcome is AppendOutcome.DONE]).appends)

    def without(key: str, values: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(value for value in values if (key, value) not in lost)

    are_read = chance.random() < 0.5
    return [
        _with_lists(one, without)
        if isinstance(one, ListRead) and (one.kind is ReadKind.FINAL or not are_read)
        else one
        for one in history
    ]


def _double(history: History, chance: Random) -> History:
    """One value is in a list again: in a read, or in the final lists of all workers."""
    reads = [one for one in history if isinstance(one, ListRead) and one.is_ok and any(one.lists.values())]
    read = chance.choice(reads)
    key = chance.choice([key for key, values in read.lists.items() if values])
    first = chance.randrange(len(read.lists[key]))
    again = chance.randint(first + 1, len(read.lists[key]))

    def with_copy(of: str, values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values[:again], values[first], *values[again:]) if of == key else values

    return [
        _with_lists(one, with_copy)
        if isinstance(one, ListRead) and (one is read or one.kind is read.kind is ReadKind.FINAL)
        else one
        for one in history
    ]


def _make_stale(history: History, chance: Random) -> History:
    """A strict or a session read shows an old state: that of another read, or the empty one."""
    done = defaultdict[str, list[tuple[int, AppendTransaction]]](list)
    for one in _appends(history):
        if one.outcome is AppendOutcome.DONE:
            for key, value in one.appends:
                done[key].append((value, one))
    faults = list[tuple[ListRead, ListRead]]()
    for read in _reads(history):
        before = [
            (value in read.lists[key], one.client == read.client)
            for key in read.lists
            for value, one in done[key]
            if one.completed < read.invoked
        ]
        if read.kind is ReadKind.PREFIX and not all(is_shown for is_shown, _ in before):
            faults.append((read, replace(read, kind=ReadKind.STRICT)))
        is_due = read.kind is ReadKind.STRICT or any(is_own for _, is_own in before)
        if read.kind is not ReadKind.PREFIX and before and is_due:
            faults.append((read, replace(_with_lists(read, lambda *_: ()), index=0)))
    return _replaced(history, *chance.choice(faults))


def _make_dirty(history: History, chance: Random) -> History:
    """A read shows the value of a transaction that had no effect in the end."""
    read = chance.choice([one for one in _reads(history) if one.lists])
    key = chance.choice(list(read.lists))
    value = 1 + max(one.value for request in _appends(history) for one in request.appends)
    outcome = chance.choice((AppendOutcome.ROLLED_BACK, AppendOutcome.REFUSED, AppendOutcome.UNKNOWN))
    request = AppendTransaction(
        "dirty",
        "planted",
        read.master,
        chance.choice((AppendMode.SYNC, AppendMode.ASYNC)),
        (ListAppend(key, value),),
        read.invoked,
        read.completed,
        outcome,
    )

    def with_value(of: str, values: tuple[int, ...]) -> tuple[int, ...]:
        place = chance.randint(0, len(values))
        return (*values[:place], value, *values[place:]) if of == key else values

    return [*_replaced(history, read, _with_lists(read, with_value)), request]


def _deny(history: History, chance: Random) -> History:
    """A transaction that is in the final lists was answered with rolled back, or refused."""
    final = next(one for one in history if isinstance(one, ListRead) and one.kind is ReadKind.FINAL)
    effective = [
        one for one in _alone(history) if one.appends[0].value in final.lists.get(one.appends[0].key, ())
    ]
    request = chance.choice(effective)
    outcome = chance.choice((AppendOutcome.ROLLED_BACK, AppendOutcome.REFUSED))
    return _replaced(history, request, replace(request, outcome=outcome, index=None))


def _commit_alone(history: History, chance: Random) -> History:
    """A synchronous transaction was done at a master without a majority, as its links or its view show."""
    done = (one for one in _alone(history) if one.outcome is AppendOutcome.DONE)
    request = chance.choice([one for one in done if one.mode is AppendMode.SYNC])
    fault = (
        replace(request, majority=False, view_members=())
        if chance.random() < 0.5
        else replace(request, majority=None, view_members=(request.master,))
    )
    return _replaced(history, request, fault)


PLANTS: Final = {
    AnomalyKind.LOST_APPEND: _lose,
    AnomalyKind.DOUBLED_APPEND: _double,
    AnomalyKind.STALE_READ: _make_stale,
    AnomalyKind.DIRTY_READ: _make_dirty,
    AnomalyKind.FALSE_ROLLBACK: _deny,
    AnomalyKind.MINORITY_COMMIT: _commit_alone,
}


def _replaced(history: History, old: Operation, new: Operation) -> History:
    return [new if one is old else one for one in history]


def _with_lists(read: ListRead, change: Change) -> ListRead:
    return replace(read, lists={key: change(key, values) for key, values in read.lists.items()})


def _appends(history: History) -> list[AppendTransaction]:
    return [one for one in history if isinstance(one, AppendTransaction)]


def _alone(history: History) -> list[AppendTransaction]:
    """Requests of transactions that were sent once, and of which `/tx` told nothing."""
    ids = Counter(one.tx for one in history if isinstance(one, AppendTransaction | TxReport))
    return [one for one in _appends(history) if ids[one.tx] == 1]


def _reads(history: History) -> list[ListRead]:
    reads = [one for one in history if isinstance(one, ListRead)]
    return [one for one in reads if one.is_ok and one.kind is not ReadKind.FINAL]
