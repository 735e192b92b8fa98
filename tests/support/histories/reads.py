"""Rules for single reads, and for reads and indexes: each read is a prefix of the one order, as of its index."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from tests.support.histories.facts import HistoryFacts, KnownTransaction, ShownRead
from tests.support.histories.model import Anomaly, AnomalyKind, described

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.support.histories.model import ListRead


def shown_reads(facts: HistoryFacts, anomalies: list[Anomaly]) -> list[ShownRead]:
    """What each read shows of the final lists; appends what no prefix of them explains to `anomalies`."""
    shown = list[ShownRead]()
    for read in (*facts.reads, facts.final_read):
        lengths = dict[str, int]()
        for key, values in read.lists.items():
            final = facts.final.get(key, ())
            if values == final[: len(values)]:
                lengths[key] = len(values)
                continue
            rest = values if read is facts.final_read else tuple(_known(facts, read, key, anomalies))
            rest = tuple(dict.fromkeys(rest))
            if rest == final[: len(rest)]:
                lengths[key] = len(rest)
            else:
                place = next(at for at, value in enumerate(rest) if value != final[at])
                text = (
                    f"The {described(read)} shows {rest[place]} of {key} where the final list has"
                    f" {final[place]}."
                )
                owners = (facts.owner.get((key, value)) for value in (rest[place], final[place]))
                operations = [one for owner in owners if owner for one in owner.operations]
                anomalies.append(Anomaly(AnomalyKind.INCOMPATIBLE_ORDERS, text, (read, *operations)))
        shown.append(ShownRead(read, lengths))
    return shown


def _known(facts: HistoryFacts, read: ListRead, key: str, anomalies: list[Anomaly]) -> Iterator[int]:
    """The values that are in the final list; the others, and what is repeated, are anomalies."""
    final, met = set(facts.final.get(key, ())), set[int]()
    is_doubled = len(facts.final_read.lists.get(key, ())) > len(final)
    for value in read.lists[key]:
        owner = facts.owner.get((key, value))
        if owner is None and value not in final:
            text = f"The {described(read)} shows {value} of {key}, which nobody appended."
            anomalies.append(Anomaly(AnomalyKind.UNASKED_VALUE, text, (read,)))
        elif value in met and not is_doubled:
            text = f"The {described(read)} shows {value} of {key} twice."
            operations = owner.operations if owner else ()
            anomalies.append(Anomaly(AnomalyKind.DOUBLED_APPEND, text, (read, *operations)))
        elif value not in final and owner and not owner.is_acknowledged:  # or else it was lost
            text = (
                f"The {described(read)} shows {value} of {key}, and {owner.id} was never said to be done"
                " and is not in the final lists."
            )
            anomalies.append(Anomaly(AnomalyKind.DIRTY_READ, text, (read, *owner.operations)))
        met.add(value)
        if value in final:
            yield value


def check_reads(facts: HistoryFacts, shown: Sequence[ShownRead]) -> Iterator[Anomaly]:
    """Anomalies of single reads, and of reads by their indexes."""
    bounds = {key: _KeyBounds(owners) for key, owners in facts.owners.items()}
    parts = _parts_of_transactions(facts)
    for one in shown:
        yield from _fractured(one, parts)
        for key, length in one.lengths.items():
            if key in bounds:
                yield from bounds[key].check(one.read, key, length)
    yield from _index_order(shown)


class _KeyBounds:
    """Of each prefix of one final list, the extremes of its transactions."""

    def __init__(self, owners: Sequence[KnownTransaction | None]) -> None:
        """Each list has one number more than the final list has values: for each length of a prefix."""
        indexes = [None if owner is None else owner.index for owner in owners]
        up_to = [-math.inf, *(-math.inf if index is None else index for index in indexes)]
        after = [*(math.inf if index is None else index for index in indexes), math.inf]
        self._highest_index = list(accumulate(up_to, max))
        self._lowest_index_after = list(accumulate(reversed(after), min))[::-1]
        invoked = [-math.inf, *(-math.inf if owner is None else owner.invoked for owner in owners)]
        self._latest_invoked = list(accumulate(invoked, max))
        self._owners = owners

    def check(self, read: ListRead, key: str, length: int) -> Iterator[Anomaly]:
        if self._latest_invoked[length] > read.completed:
            owner = next(one for one in self._owners[:length] if one and one.invoked > read.completed)
            text = f"The {described(read)} shows {owner.id} of {key}, which was sent after it ended."
            yield Anomaly(AnomalyKind.FUTURE_READ, text, (read, *owner.operations))
        if read.index is None:
            return
        if self._highest_index[length] > read.index:
            owner = self._with_index(self._highest_index[length])
            text = f"The {described(read)} has index {read.index} and shows {owner.id} of {owner.index}."
            yield Anomaly(AnomalyKind.INDEX_ORDER, text, (read, *owner.operations))
        if self._lowest_index_after[length] <= read.index:
            owner = self._with_index(self._lowest_index_after[length])
            text = f"The {described(read)} has index {read.index} and lacks {owner.id} of {owner.index}."
            yield Anomaly(AnomalyKind.INDEX_ORDER, text, (read, *owner.operations))

    def _with_index(self, index: float) -> KnownTransaction:
        return next(one for one in self._owners if one is not None and one.index == index)


class _Parts(NamedTuple):
    """For two keys: from which length of the first one on which part of the second one is due."""

    places: Sequence[int]
    """In the first key, ascending: a transaction of both keys begins at each."""
    due: Sequence[tuple[int, KnownTransaction]]
    """The last place in the second key of any transaction so far."""


def _parts_of_transactions(facts: HistoryFacts) -> Mapping[str, Mapping[str, _Parts]]:
    found = defaultdict[tuple[str, str], list[tuple[int, int, KnownTransaction]]](list)
    for transaction in facts.transactions:
        if len(transaction.places) > 1:
            places = defaultdict[str, list[int]](list)
            for one, place in transaction.places.items():
                places[one.key].append(place)
            for first, begins in places.items():
                for second, ends in places.items():
                    found[first, second].append((min(begins), max(ends), transaction))
    parts = defaultdict[str, dict[str, _Parts]](dict)
    for (first, second), entries in found.items():
        entries.sort(key=lambda entry: entry[:2])
        due = accumulate(((end, transaction) for _, end, transaction in entries), _later)
        parts[first][second] = _Parts([begin for begin, _, _ in entries], list(due))
    return parts


def _later(
    one: tuple[int, KnownTransaction], other: tuple[int, KnownTransaction]
) -> tuple[int, KnownTransaction]:
    return one if one[0] >= other[0] else other


def _fractured(shown: ShownRead, parts: Mapping[str, Mapping[str, _Parts]]) -> Iterator[Anomaly]:
    for first, length in shown.lengths.items():
        others = parts.get(first, {})
        for second in others.keys() & shown.lengths.keys():
            begun = bisect_left(others[second].places, length)
            if not begun:
                continue
            last, transaction = others[second].due[begun - 1]
            if last >= shown.lengths[second]:
                text = (
                    f"The {described(shown.read)} shows {transaction.id} in {first}, and lacks it in"
                    f" {second}."
                )
                operations = (shown.read, *transaction.operations)
                yield Anomaly(AnomalyKind.FRACTURED_READ, text, operations)


def _index_order(shown: Sequence[ShownRead]) -> Iterator[Anomaly]:
    """Reads of one index agree, and a read of a higher index never shows less."""
    indexed = [(one.read.index, one) for one in shown if one.read.index is not None]
    most = dict[str, tuple[int, ShownRead]]()
    for index, one in sorted(indexed, key=lambda found: found[0]):
        for key, length in one.lengths.items():
            before, earlier = most.setdefault(key, (length, one))
            if length < before or (length > before and earlier.read.index == index):
                text = (
                    f"The {described(one.read)} with index {index} shows {length} values of {key}, and"
                    f" the {described(earlier.read)} with index {earlier.read.index} shows {before}."
                )
                yield Anomaly(AnomalyKind.INDEX_ORDER, text, (earlier.read, one.read))
            if length >= before:
                most[key] = (length, one)
