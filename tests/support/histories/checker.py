"""Whether a history of appends keeps the promises of the cluster.

`check` compares everything with the final lists, which stand for the one order that all agreed on.
The rules of this module concern one transaction at a time, and the final lists.
"""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.histories.facts import HistoryFacts, KnownTransaction
from tests.support.histories.model import (
    Anomaly,
    AnomalyKind,
    AppendMode,
    AppendTransaction,
    ListAppend,
    described,
)
from tests.support.histories.reads import check_reads, shown_reads
from tests.support.histories.real_time import RealTimeRules
from tests.support.histories.total_order import order_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.histories.model import Operation


def check(history: Iterable[Operation]) -> list[Anomaly]:
    """All anomalies of a history; none if it can be explained by one order that keeps every promise.

    Raises:
        ValueError: the history is malformed: without a final read, or with one value appended twice.

    """
    with _uncollected():
        return _check(HistoryFacts(history))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cyclic garbage: nothing here is any, and half of the time would go there."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check(facts: HistoryFacts) -> list[Anomaly]:
    anomalies = [*_final_lists(facts), *_indexes(facts)]
    for transaction in facts.transactions:
        anomalies += _outcome(transaction)
        anomalies += _reports(transaction)
        anomalies += _minority(transaction, facts.centres)
    shown = shown_reads(facts, anomalies)
    anomalies += check_reads(facts, shown)
    anomalies += RealTimeRules(facts, shown).check()
    anomalies += order_cycles(facts, shown, {id(one) for found in anomalies for one in found.operations})
    return anomalies


def _final_lists(facts: HistoryFacts) -> Iterator[Anomaly]:
    reference = {key: values for key, values in facts.final_read.lists.items() if values}
    for read in facts.finals:
        lists = {key: values for key, values in read.lists.items() if values}
        if lists != reference:
            differing = sorted(key for key in lists | reference if lists.get(key) != reference.get(key))
            text = f"{read.master} and {facts.final_read.master} end with different lists of {differing}."
            yield Anomaly(AnomalyKind.DIVERGENT_WORKERS, text, (read, facts.final_read))
    for key, values in facts.final_read.lists.items():
        for value, count in Counter(values).items() if len(values) > len(facts.final[key]) else ():
            if count == 1:
                continue
            owner = facts.owner.get((key, value))
            text = f"The final list of {key} has {value} {count} times."
            operations = owner.operations if owner else ()
            yield Anomaly(AnomalyKind.DOUBLED_APPEND, text, (*operations, facts.final_read))
        for value, owner in zip(facts.final[key], facts.owners[key], strict=True):
            if owner is None:
                text = f"The final list of {key} has {value}, which nobody appended."
                yield Anomaly(AnomalyKind.UNASKED_VALUE, text, (facts.final_read,))


def _indexes(facts: HistoryFacts) -> Iterator[Anomaly]:
    """No index is acknowledged for two transactions, and each final list is in the order of the indexes."""
    by_index = dict[int, KnownTransaction]()
    for transaction in facts.transactions:
        for index in set(transaction.indexes):
            other = by_index.setdefault(index, transaction)
            if other is not transaction:
                text = f"{other.id} and {transaction.id} are both acknowledged with index {index}."
                yield Anomaly(AnomalyKind.DUPLICATE_INDEX, text, (*other.operations, *transaction.operations))
    for key, owners in facts.owners.items():
        highest: KnownTransaction | None = None
        for owner in owners:
            if owner is None or owner.index is None:
                continue
            if highest is not None and highest.index is not None and owner.index < highest.index:
                text = (
                    f"{owner.id} with index {owner.index} is after {highest.id} with index {highest.index}"
                    f" in the final list of {key}."
                )
                yield Anomaly(AnomalyKind.INDEX_ORDER, text, (*highest.operations, *owner.operations))
            else:
                highest = owner


def _outcome(transaction: KnownTransaction) -> Iterator[Anomaly]:
    """What its clients were answered is true in the end."""
    missing, places = transaction.missing, transaction.places
    if transaction.done and missing:
        text = f"{transaction.id} was done, and the final lists lack {_listed(missing)}."
        yield Anomaly(AnomalyKind.LOST_APPEND, text, transaction.operations)
    elif missing and places:
        text = f"{transaction.id} is in the final lists without {_listed(missing)}."
        yield Anomaly(AnomalyKind.FRACTURED_READ, text, transaction.operations)
    answer = "rolled back" if transaction.rolled_back else "" if transaction.effective else "refused"
    if answer and places:
        text = f"{transaction.id} was {answer}, and the final lists have {_listed(places)}."
        yield Anomaly(AnomalyKind.FALSE_ROLLBACK, text, transaction.operations)


def _reports(transaction: KnownTransaction) -> Iterator[Anomaly]:
    """What `/tx` told is true in the end, and was told only once."""
    missing, places = transaction.missing, transaction.places
    if transaction.told_applied and not transaction.done and missing:
        text = f"{transaction.id} was reported as applied, and the final lists lack {_listed(missing)}."
        yield Anomaly(AnomalyKind.CONTRADICTED_REPORT, text, transaction.operations)
    if transaction.told_rolled_back and not transaction.rolled_back and places:
        text = f"{transaction.id} was reported as rolled back, and the final lists have {_listed(places)}."
        yield Anomaly(AnomalyKind.CONTRADICTED_REPORT, text, transaction.operations)
    if transaction.is_acknowledged and (transaction.rolled_back or transaction.told_rolled_back):
        text = f"{transaction.id} was said to be done, and was said to be rolled back."
        yield Anomaly(AnomalyKind.TURNED_DECISION, text, transaction.operations)
    if len(set(transaction.indexes)) > 1:
        text = f"{transaction.id} was acknowledged with the indexes {sorted(set(transaction.indexes))}."
        yield Anomaly(AnomalyKind.TURNED_DECISION, text, transaction.operations)


def _minority(transaction: KnownTransaction, centres: dict[str, str]) -> Iterator[Anomaly]:
    """A synchronous transaction is done only if one of its requests so far was open at a majority."""
    if transaction.mode is not AppendMode.SYNC or not transaction.done:
        return
    first = min(transaction.done, key=lambda one: one.completed)
    open_until_then = [one for one in transaction.effective if one.invoked <= first.completed]
    if all(_is_minority(one, centres) for one in open_until_then):
        text = f"{described(first)} was acknowledged by {first.master}, which had no majority."
        yield Anomaly(AnomalyKind.MINORITY_COMMIT, text, tuple(open_until_then))


def _is_minority(request: AppendTransaction, centres: dict[str, str]) -> bool:
    if request.majority is not None and not request.majority:
        return True
    members = {centres[name] for name in request.view_members if name in centres}
    return bool(request.view_members and centres) and 2 * len(members) <= len(set(centres.values()))


def _listed(appends: Iterable[ListAppend]) -> str:
    """For an explanation."""
    return ", ".join(f"{one.value} of {one.key}" for one in appends)
