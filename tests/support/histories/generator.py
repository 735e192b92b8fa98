"""Correct histories of concurrent clients, from a sequential log: everything is decided by the seed."""

from __future__ import annotations

import random
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

from tests.support.histories.model import (
    AppendMode,
    AppendOutcome,
    AppendTransaction,
    ListAppend,
    ListRead,
    ReadKind,
    ReportedState,
    TxReport,
    VotingMasters,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.histories.model import Operation

CENTRES: Final = {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
WORKERS: Final = ("w1", "w2", "w3")
KEYS: Final = 4
"""That are in use at one time."""
ERA_S: Final = 30.0
"""After it other keys are in use, so that lists stay short."""
REORDERED: Final = 3
"""As many transactions may an asynchronous one precede that came before it, if no read has shown them."""


@dataclass(eq=False)
class PlannedAppend:
    """A transaction; `effect` is when it enters the log, None if never."""

    requests: list[AppendTransaction]
    effect: float | None
    reports: list[TxReport] = field(default_factory=list[TxReport])


@dataclass
class PlannedRead:
    """A read; `effect` is when its state is taken, and `length` how many transactions of the log it shows."""

    read: ListRead
    effect: float
    length: int = 0


def generate(seed: int, *, operations: int = 200, clients: int = 6) -> list[Operation]:
    """A history without anomalies: at least so many requests, and a final read at each worker."""
    return HistoryGenerator(seed, clients).run(operations)


class HistoryGenerator:
    """One run."""

    def __init__(self, seed: int, clients: int) -> None:
        self._random = random.Random(seed)
        self._times = dict.fromkeys((f"c{number}" for number in range(1, clients + 1)), 0.0)
        """By client when its last request ended."""
        self._values, self._ids = count(1), count(1)
        self._log: list[PlannedAppend] = []
        self._shown = 0
        """So many transactions of the log were shown by a read: their places are final."""
        self._appends: list[PlannedAppend] = []
        self._reads: list[PlannedRead] = []

    def run(self, operations: int) -> list[Operation]:
        chance = self._random
        for number in range(operations):
            client = list(self._times)[number % len(self._times)]
            self._append(client) if chance.random() < 0.5 else self._read(client)
        self._fill_log()
        indexes, index = list[int](), 0
        for _ in self._log:
            index += chance.randint(1, 3)
            indexes.append(index)
        index_of = {id(one): index for one, index in zip(self._log, indexes, strict=True)}
        history: list[Operation] = [VotingMasters(CENTRES)]
        for planned in self._appends:
            history += self._told(planned, index_of.get(id(planned)))
        return [*history, *self._answered_reads(indexes)]

    def _next(self, client: str) -> tuple[float, float]:
        """When a request of a client begins and ends."""
        begin = self._times[client] + self._random.expovariate(4)
        self._times[client] = end = begin + self._random.uniform(0.05, 1.5)
        return begin, end

    def _keys(self, at: float, most: int) -> list[str]:
        era = int(at / ERA_S)
        return [f"k{era * KEYS + self._random.randrange(KEYS)}" for _ in range(self._random.randint(1, most))]

    def _append(self, client: str) -> None:
        chance, (begin, end) = self._random, self._next(client)
        mode = chance.choice((AppendMode.SYNC, AppendMode.SYNC, AppendMode.ASYNC))
        appends = tuple(ListAppend(key, next(self._values)) for key in self._keys(begin, 3))
        drawn = chance.random()
        outcome = (
            AppendOutcome.REFUSED
            if drawn < 0.06
            else AppendOutcome.ROLLED_BACK
            if drawn < 0.12
            else AppendOutcome.UNKNOWN
            if drawn < 0.25
            else AppendOutcome.DONE
        )
        is_minority = outcome is not AppendOutcome.DONE or mode is AppendMode.ASYNC
        members = chance.randint(1 if is_minority else 2, 3)
        request = AppendTransaction(
            f"t{next(self._ids)}",
            client,
            chance.choice(list(CENTRES)),
            mode,
            appends,
            begin,
            end,
            outcome,
            majority=chance.choice((None, members > 1)),
            view_members=tuple(list(CENTRES)[:members]) if chance.random() < 0.5 else (),
        )
        effect = chance.uniform(begin, end) if outcome is AppendOutcome.DONE else None
        planned = PlannedAppend([request], effect)
        self._appends.append(planned)
        if outcome in {AppendOutcome.REFUSED, AppendOutcome.UNKNOWN} and chance.random() < 0.4:
            begin_again, end = self._next(client)
            again = replace(
                request, invoked=begin_again, completed=end, outcome=AppendOutcome.DONE, majority=True
            )
            planned.requests.append(replace(again, view_members=()))
            planned.effect = chance.uniform(begin if outcome is AppendOutcome.UNKNOWN else begin_again, end)
        elif outcome is AppendOutcome.UNKNOWN and chance.random() < 0.5:
            planned.effect = chance.uniform(begin, end + 5.0)

    def _read(self, client: str) -> None:
        chance, (begin, end) = self._random, self._next(client)
        kind = chance.choice((ReadKind.STRICT, ReadKind.SESSION, ReadKind.PREFIX))
        keys = self._keys(max(0.0, begin - chance.choice((0.0, 0.0, ERA_S / 3))), 4)
        read = ListRead(
            client,
            chance.choice(list(CENTRES)),
            kind,
            dict.fromkeys(keys, ()),
            begin,
            end,
            is_ok=chance.random() < 0.95,
        )
        self._reads.append(PlannedRead(read, chance.uniform(begin, end)))

    def _fill_log(self) -> None:
        """All effects in the order of time."""
        chance = self._random
        effects: list[tuple[float, PlannedAppend | PlannedRead]] = [
            *((one.effect, one) for one in self._appends if one.effect is not None),
            *((one.effect, one) for one in self._reads),
        ]
        for _, planned in sorted(effects, key=lambda effect: effect[0]):
            if isinstance(planned, PlannedRead):
                planned.length = self._length(planned.read)
                self._shown = max(self._shown, planned.length)
            elif planned.requests[0].mode is AppendMode.SYNC:
                self._log.append(planned)
            else:
                least = max(self._shown, len(self._log) - REORDERED)
                self._log.insert(chance.randint(least, len(self._log)), planned)

    def _length(self, read: ListRead) -> int:
        """How much of the log a read shows."""
        chance, most = self._random, len(self._log)
        if read.kind is ReadKind.STRICT:
            return most
        if read.kind is ReadKind.PREFIX:
            return 0 if chance.random() < 0.05 else chance.randint(max(0, most - 30), most)
        own = most
        while own and not any(
            one.client == read.client and one.outcome is AppendOutcome.DONE and one.completed < read.invoked
            for one in self._log[own - 1].requests
        ):
            own -= 1
        return chance.randint(own, most)

    def _told(self, planned: PlannedAppend, index: int | None) -> Sequence[Operation]:
        """The requests with their indexes, and what `/tx` told."""
        chance, last = self._random, planned.requests[-1]
        told = [
            replace(one, index=index if chance.random() < 0.9 else None)
            if one.outcome is AppendOutcome.DONE
            else one
            for one in planned.requests
        ]
        if last.outcome is AppendOutcome.REFUSED or chance.random() < 0.5:
            return told
        at = last.completed + chance.uniform(0.0, 3.0)
        if chance.random() < 0.3:
            state = chance.choice((ReportedState.PENDING, ReportedState.UNKNOWN))
            told_first = [TxReport(last.tx, last.master, at, state)]
        else:
            told_first = []
        at = max(at, planned.effect or 0.0) + chance.uniform(0.1, 1.0)
        state = ReportedState.ROLLED_BACK if planned.effect is None else ReportedState.APPLIED
        return [*told, *told_first, TxReport(last.tx, last.master, at, state, index)]

    def _answered_reads(self, indexes: Sequence[int]) -> list[ListRead]:
        """The reads with what they show, and a final read at each worker."""
        values, places = dict[str, list[int]](), dict[str, list[int]]()
        for place, planned in enumerate(self._log):
            for one in planned.requests[0].appends:
                values.setdefault(one.key, []).append(one.value)
                places.setdefault(one.key, []).append(place)
        bounds = [0, *indexes, indexes[-1] + 1 if indexes else 1]
        answered = list[ListRead]()
        for planned_read in self._reads:
            length, read = planned_read.length, planned_read.read
            lists = {
                key: tuple(values.get(key, ())[: bisect_left(places.get(key, ()), length)])
                for key in read.lists
            }
            last = bounds[length + 1] - 1
            index = last if read.kind is ReadKind.STRICT else self._random.randint(bounds[length], last)
            answered.append(replace(read, lists=lists, index=index if self._random.random() < 0.9 else None))
        end = max(self._times.values()) + 10.0
        lists = {key: tuple(of_key) for key, of_key in values.items()}
        finals = (
            ListRead("end", name, ReadKind.FINAL, lists, end, end + 1.0, bounds[-2]) for name in WORKERS
        )
        return [*answered, *finals]
