"""Copies of payloads that were passed over, because the original comes out of its own data centre's topic.

Should that be out of reach before the original was taken in, the copies are read after all: from the first one on
that may be needed.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

MARKS: Final = 1_000
"""Places that are remembered; above it every second one is forgotten, and some more is read again."""


class PassedOver:
    """Of one origin, in the topic of another data centre.  Its master copies in the order of the originals.

    >>> passed = PassedOver()
    >>> for offset, original in [(10, 3), (12, 4), (13, 4), (17, 6)]:
    ...     passed.note(offset, original)
    >>> passed.first(3), passed.first(4), passed.first(5), passed.first(7)
    (10, 12, 12, None)
    """

    def __init__(self) -> None:
        """Nothing was passed over."""
        self._marks: deque[tuple[int, int]] = deque()
        """Offset of a copy, of its original; each stands for all up to the next one."""
        self._last = -1
        """Offset of the last original of which a copy was passed over."""

    def note(self, offset: int, original: int) -> None:
        """A copy was passed over; what is not behind all originals before is another copy."""
        if original <= self._last:
            return
        self._last = original
        self._marks.append((offset, original))
        if len(self._marks) > MARKS:
            self._marks = deque(islice(self._marks, 0, None, 2))

    def first(self, taken: int) -> int | None:
        """Where the copies begin that may be needed, if all originals before offset `taken` are here."""
        marks = self._marks
        while marks and (marks[1][1] if len(marks) > 1 else self._last + 1) <= taken:
            marks.popleft()
        return marks[0][0] if marks else None
