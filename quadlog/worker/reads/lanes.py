"""Questions that wait for a reading process: short ones and long ones, in the order of their arrival."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.worker.reads.call import ReadCall

LONG_MS: Final = 250.0
"""CPU milliseconds from which a question is long.  Elapsed time is no measure: on a busy machine all take long."""

HELD_MS: Final = 2000.0
"""Elapsed milliseconds from which a question counts as long where that takes no place from others: it waits for a disk,
for its client, or for a core."""

KNOWN: Final = 1000
"""Maximum texts that are remembered as long, by their hashes."""


class Lanes:
    """Waiting questions, and the texts that are known to run long."""

    def __init__(self) -> None:
        self.short: deque[ReadCall] = deque()
        self.long: deque[ReadCall] = deque()
        self._known: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of waiting questions."""
        return len(self.short) + len(self.long)

    def __iter__(self) -> Iterator[ReadCall]:
        """Iterate over all waiting questions."""
        return chain(self.short, self.long)

    def _of(self, call: ReadCall) -> deque[ReadCall]:
        return self.long if call.is_long else self.short

    def add(self, call: ReadCall) -> None:
        """Add a question that has just arrived."""
        text = call.question.text
        call.is_long = text is None or self.is_known(text)
        self._of(call).append(call)

    def is_known(self, text: str) -> bool:
        """Return whether a text ran long when it was asked last."""
        return bool(self._known) and hash(text) in self._known

    def put_back(self, calls: Iterable[ReadCall]) -> None:
        """Add questions in this order before all others, because they arrived earlier."""
        for call in reversed(list(calls)):
            self._of(call).appendleft(call)

    def remove(self, call: ReadCall) -> None:
        """Remove a question if it is there."""
        if call in (lane := self._of(call)):
            lane.remove(call)

    def take_all(self) -> list[ReadCall]:
        """Remove all questions, and return them."""
        calls = list(self)
        self.short.clear()
        self.long.clear()
        return calls

    def learn(self, text: str | None, *, is_long: bool) -> None:
        """Remember whether a text ran long."""
        key = hash(text)
        if not is_long:
            self._known.pop(key, None)
            return
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
