"""Priority queue of pairs that arrive nearly in order and leave in order."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.model import Pair


class Pairs:
    """A priority queue of pairs.

    A pair that sorts after all others, as all pairs do except those with late payloads, has a constant
    cost, independent of the length; in a heap alone each removal would touch all levels.

    >>> pairs = Pairs()
    >>> for pair in [1, 5, 9, 3]:
    ...     pairs.push(pair)
    >>> [pairs.pop() for _ in range(4)]
    [1, 3, 5, 9]
    """

    __slots__ = ("_late", "_run")

    def __init__(self, ascending: Iterable[Pair] = ()) -> None:
        self._run = deque(ascending)
        self._late: list[Pair] = []

    def __iter__(self) -> Iterator[Pair]:
        """Yield all pairs, in no order."""
        yield from self._run
        yield from self._late

    def push(self, pair: Pair) -> None:
        """Add a pair."""
        if self._run and pair < self._run[-1]:
            heappush(self._late, pair)
        else:
            self._run.append(pair)

    @property
    def first(self) -> Pair | None:
        """The lowest pair; None: there are no pairs."""
        if self._late and (not self._run or self._late[0] < self._run[0]):
            return self._late[0]
        return self._run[0] if self._run else None

    def pop(self) -> Pair:
        """Remove and return the lowest pair."""
        if self._late and (not self._run or self._late[0] < self._run[0]):
            return heappop(self._late)
        return self._run.popleft()
