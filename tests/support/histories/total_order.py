"""Whether one total order explains a history: a graph of what precedes what has no cycle.

A cycle shows what no rule for two operations shows, like two reads of two lists that each lack what the other one has.
The edges:

- the transactions of a final list, in its order;
- the last transaction that a read shows, the read, and the first transaction of the list that it lacks;
- transactions and reads with indexes, in the order of these;
- transactions that are done, and strict reads, before strict reads that began later;
- synchronous transactions that are done before synchronous transactions that began later;
- transactions that are done for a client before session reads of this client that began later;
- reads before transactions that began later.
"""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tests.support.histories.facts import KnownTransaction, ShownRead
from tests.support.histories.model import Anomaly, AnomalyKind, AppendMode, ReadKind, described

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tests.support.histories.facts import HistoryFacts
    from tests.support.histories.model import Operation

MOST_CYCLES: Final = 10
"""That are reported."""
STARTS: Final = 8
"""So many nodes of a cycle are tried for a shorter one."""
Subject = KnownTransaction | ShownRead
Events = list[tuple[float, int, int]]
"""Time, `SINK` or `SOURCE`, node."""
SINK, SOURCE = 0, 1
"""Of two events at one time, the sink is first: these two are concurrent."""


def order_cycles(
    facts: HistoryFacts, shown: Sequence[ShownRead], left_out: AbstractSet[int]
) -> Iterator[Anomaly]:
    """Cycles without the operations whose `id` is left out: those are in anomalies already."""
    transactions = [one for one in facts.transactions if one.places and not _is_in(left_out, one.operations)]
    reads = [one for one in shown if id(one.read) not in left_out]
    graph = OrderGraph([*transactions, *reads])
    graph.add_lists(facts, reads)
    graph.add_indexes(transactions, reads)
    graph.add_times(transactions, reads)
    yield from graph.cycles()


def _is_in(left_out: AbstractSet[int], operations: Iterable[Operation]) -> bool:
    return any(id(one) in left_out for one in operations)


class OrderGraph:
    """Nodes are numbers: those of the subjects come first, the others are moments in between."""

    def __init__(self, subjects: Sequence[Subject]) -> None:
        self._subjects = subjects
        self._number = {id(subject): number for number, subject in enumerate(subjects)}
        self._after: list[list[int]] = [[] for _ in subjects]
        """By node: what is later."""
        self._count: list[int] = []
        """By node: so many are before it, of those that are not gone."""
        self._is_gone = bytearray()
        self._first_of_time = 0
        """Moments before this one are of indexes."""

    def _moment(self) -> int:
        self._after.append([])
        return len(self._after) - 1

    def add_lists(self, facts: HistoryFacts, reads: Iterable[ShownRead]) -> None:
        """The order of each final list, and what reads show of it."""
        numbers = dict[str, list[int | None]]()
        for key, owners in facts.owners.items():
            numbers[key] = [self._number.get(id(owner)) for owner in owners]
            there = [number for number in numbers[key] if number is not None]
            for one, other in pairwise(there):
                if one != other:
                    self._after[one].append(other)
        for shown in reads:
            read = self._number[id(shown)]
            for key, length in shown.lengths.items():
                of_key = numbers.get(key, ())
                if length and (last := of_key[length - 1]) is not None:
                    self._after[last].append(read)
                if length < len(of_key) and (first := of_key[length]) is not None:
                    self._after[read].append(first)

    def add_indexes(self, transactions: Iterable[KnownTransaction], reads: Iterable[ShownRead]) -> None:
        """Before a moment of its index is a transaction, and after it the reads of this index."""
        of_index = defaultdict[int, tuple[list[int], list[int]]](lambda: ([], []))
        for one in transactions:
            if one.index is not None:
                of_index[one.index][0].append(self._number[id(one)])
        for shown in reads:
            if shown.read.index is not None:
                of_index[shown.read.index][1].append(self._number[id(shown)])
        begin = self._moment()
        for index in sorted(of_index):
            end, following = self._moment(), self._moment()
            for transaction in of_index[index][0]:
                self._after[begin].append(transaction)
                self._after[transaction].append(end)
            self._after[begin].append(end)
            for read in of_index[index][1]:
                self._after[end].append(read)
                self._after[read].append(following)
            self._after[end].append(following)
            begin = following
        self._first_of_time = len(self._after)

    def add_times(self, transactions: Iterable[KnownTransaction], reads: Iterable[ShownRead]) -> None:
        """What had ended before something else began, where that is promised."""
        for_strict: Events = []
        for_synchronous: Events = []
        for_all: Events = []
        for_client = defaultdict[str, Events](list)
        for one in transactions:
            node = self._number[id(one)]
            for_strict.append((one.acknowledged, SOURCE, node))
            for_all.append((one.invoked, SINK, node))
            if one.mode is AppendMode.SYNC:
                for_synchronous += [(one.acknowledged, SOURCE, node), (one.invoked, SINK, node)]
            for request in one.done:
                for_client[request.client].append((request.completed, SOURCE, node))
        for shown in reads:
            node, read = self._number[id(shown)], shown.read
            for_all.append((read.completed, SOURCE, node))
            if read.kind is ReadKind.STRICT:
                for_strict += [(read.completed, SOURCE, node), (read.invoked, SINK, node)]
            elif read.kind is ReadKind.SESSION:
                for_client[read.client].append((read.invoked, SINK, node))
        for events in (for_strict, for_synchronous, for_all, *for_client.values()):
            self._add_chain(events)

    def _add_chain(self, events: Events) -> None:
        """Each sink is after all sources before it: a chain of moments, and not an edge for each pair."""
        moment, is_used = self._moment(), False
        for _, role, node in sorted(events):
            if role == SINK:
                self._after[moment].append(node)
                is_used = True
                continue
            if is_used:
                following = self._moment()
                self._after[moment].append(following)
                moment, is_used = following, False
            self._after[node].append(moment)

    def cycles(self) -> Iterator[Anomaly]:
        """Some short cycles that have no operation in common."""
        self._count = [0] * len(self._after)
        for others in self._after:
            for other in others:
                self._count[other] += 1
        self._is_gone = bytearray(len(self._after))
        self._remove([node for node, count in enumerate(self._count) if not count])
        before = defaultdict[int, list[int]](list)
        for node, others in enumerate(self._after):
            if not self._is_gone[node]:
                for other in others:
                    before[other].append(node)
        for _ in range(MOST_CYCLES):
            start = self._is_gone.find(0)
            if start < 0:
                return
            cycle = min((self._cycle(node) for node in self._loop(start, before)[:STARTS]), key=len)
            yield self._anomaly(cycle)
            self._remove([node for node in cycle if node < len(self._subjects)])

    def _remove(self, nodes: list[int]) -> None:
        """These, and all that have nothing before them then."""
        while nodes:
            node = nodes.pop()
            if self._is_gone[node]:
                continue
            self._is_gone[node] = True
            for other in self._after[node]:
                self._count[other] -= 1
                if not self._count[other]:
                    nodes.append(other)

    def _loop(self, node: int, before: Mapping[int, Sequence[int]]) -> list[int]:
        """Nodes of any cycle: something is before each node that is left."""
        way = dict[int, None]()
        while node not in way:
            way[node] = None
            node = next(one for one in before[node] if not self._is_gone[one])
        nodes = list(way)
        return nodes[nodes.index(node) :]

    def _cycle(self, start: int) -> list[int]:
        """The shortest way from a node back to it."""
        came = dict[int, int]()
        ways = deque([start])
        while start not in came:
            node = ways.popleft()
            for other in self._after[node]:
                if not self._is_gone[other] and other not in came:
                    came[other] = node
                    ways.append(other)
        cycle = [came[start]]
        while cycle[-1] != start:
            cycle.append(came[cycle[-1]])
        return cycle[::-1]

    def _anomaly(self, cycle: Sequence[int]) -> Anomaly:
        subjects = [self._subjects[node] for node in cycle if node < len(self._subjects)]
        operations = (
            one.operations if isinstance(one, KnownTransaction) else (one.read,) for one in subjects
        )
        names = [
            f"{self._name(node)} ({self._why(node, other)})"
            for node, other in pairwise([*cycle, cycle[0]])
            if node < len(self._subjects)
        ]
        text = f"No order is possible, as each is before the next one: {', '.join(names)}, and the first one again."
        return Anomaly(AnomalyKind.ORDER_CYCLE, text, tuple(one for of in operations for one in of))

    def _name(self, node: int) -> str:
        subject = self._subjects[node]
        return subject.id if isinstance(subject, KnownTransaction) else described(subject.read)

    def _why(self, node: int, other: int) -> str:
        if other >= len(self._subjects):
            return "in time" if other >= self._first_of_time else "by index"
        return f"in {', '.join(sorted(self._keys(node) & self._keys(other)))}"

    def _keys(self, node: int) -> AbstractSet[str]:
        subject = self._subjects[node]
        if isinstance(subject, KnownTransaction):
            return {one.key for one in subject.places}
        return subject.lengths.keys()
