"""Questions that wait for a reading process: short ones and long ones, in the order in which they came."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.worker.reads.call import Call

LONG_MS: Final = 250.0
"""CPU time from which on a question is a long one.  Not time on a clock: on a busy machine all take long."""

HELD_MS: Final = 2000.0
"""Time on a clock from which on a question is a long one all the same: it waits for a disk, or for its client."""

KNOWN: Final = 1000
"""Texts that are remembered as long ones, by their hashes."""


class Lanes:
    """What waits, and which texts are known to run long."""

    def __init__(self) -> None:
        """Nothing waits."""
        self.short: deque[Call] = deque()
        self.long: deque[Call] = deque()
        self._known: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """How many wait."""
        return len(self.short) + len(self.long)

    def __iter__(self) -> Iterator[Call]:
        """All that wait."""
        return chain(self.short, self.long)

    def _of(self, call: Call) -> deque[Call]:
        return self.long if call.is_long else self.short

    def add(self, call: Call) -> None:
        """It came just now."""
        text = call.question.text
        call.is_long = text is None or self.is_known(text)
        self._of(call).append(call)

    def is_known(self, text: str) -> bool:
        """Whether it ran long when it was asked last."""
        return bool(self._known) and hash(text) in self._known

    def put_back(self, calls: Iterable[Call]) -> None:
        """They came earlier than whatever waits, in this order."""
        for call in reversed(list(calls)):
            self._of(call).appendleft(call)

    def remove(self, call: Call) -> None:
        """Nobody waits for its answer."""
        if call in (lane := self._of(call)):
            lane.remove(call)

    def take_all(self) -> list[Call]:
        """Nothing waits any more."""
        calls = list(self)
        self.short.clear()
        self.long.clear()
        return calls

    def learn(self, text: str | None, *, is_long: bool) -> None:
        """How long it ran."""
        key = hash(text)
        if not is_long:
            self._known.pop(key, None)
            return
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
