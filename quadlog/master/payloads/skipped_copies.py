"""Copies of payloads that were passed over, because the original arrives from its own data centre's topic.

If that topic is out of reach before the original was received, the copies are read after all, beginning with
the first one that may be needed.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

MARKS: Final = 1_000
"""Maximum places that are remembered; above it, every second one is dropped, and more records are read again."""


class SkippedCopies:
    """Passed-over copies of one origin, in the topic of another data centre.

    The master there copies in the order of the originals.

    >>> passed = SkippedCopies()
    >>> for offset, original in [(10, 3), (12, 4), (13, 4), (17, 6)]:
    ...     passed.note(offset, original)
    >>> passed.first(3), passed.first(4), passed.first(5), passed.first(7)
    (10, 12, 12, None)
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()
        """Pairs of the offset of a copy and that of its original; each represents all copies up to the next pair."""
        self._last = -1
        """Offset of the last original of which a copy was passed over."""

    def note(self, offset: int, original: int) -> None:
        """Note a passed-over copy; ignore a duplicate, whose original is not after all earlier ones."""
        if original <= self._last:
            return
        self._last = original
        self._marks.append((offset, original))
        if len(self._marks) > MARKS:
            self._marks = deque(islice(self._marks, 0, None, 2))

    def first(self, taken: int) -> int | None:
        """Return the offset of the first copy that may be needed, or None; originals before `taken` are here."""
        marks = self._marks
        while marks and (marks[1][1] if len(marks) > 1 else self._last + 1) <= taken:
            marks.popleft()
        return marks[0][0] if marks else None
