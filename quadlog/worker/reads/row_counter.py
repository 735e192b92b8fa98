"""The number of solutions in an answer, counted in its bytes while they are sent.

pyoxigraph offers no way to count the solutions that it writes, so they are counted in its output.  Each
format has a mark that occurs between rows, or in each of them, and nowhere else outside of quoted text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class _Format:
    """How rows are recognised in a format."""

    marks: tuple[bytes, ...]
    quoted: re.Pattern[bytes] | None = None
    """Text in which marks have no meaning."""
    before: int = 0
    """Number of marks that are not rows."""


_JSON = _Format((b"[{", b"},{"), re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL))  # no other array has objects
_XML = _Format((b"<result>",))
_CSV = _Format((b"\n",), re.compile(rb'"[^"]*+"'), before=1)
_TSV = _Format((b"\n",), before=1)

FORMATS: Final = {
    "application/sparql-results+json": _JSON,
    "application/json": _JSON,
    "application/sparql-results+xml": _XML,
    "application/xml": _XML,
    "text/csv": _CSV,
    "text/tab-separated-values": _TSV,
}


class RowCounter:
    """Counts the rows of one answer."""

    def __init__(self, media_type: str) -> None:
        self._format = FORMATS[media_type]
        self._marks = -self._format.before
        self._carry = self._open = b""

    def feed(self, piece: bytes) -> int:
        """Process the next bytes; return the number of rows so far."""
        text = self._carry + self._unquoted(self._open + piece)
        self._marks += self._marks_in(text) - self._marks_in(self._carry)
        longest = max(map(len, self._format.marks))
        self._carry = text[len(text) - min(len(text), longest - 1) :]
        return max(self._marks, 0)

    def _marks_in(self, text: bytes) -> int:
        return sum(map(text.count, self._format.marks))

    def _unquoted(self, text: bytes) -> bytes:
        """Return the text without quotations; of an unfinished one, keep only what its end depends on."""
        self._open = b""
        if self._format.quoted is None:
            return text
        text = self._format.quoted.sub(b"", text)
        outside, quote, rest = text.partition(b'"')
        escapes = len(rest) - len(rest.rstrip(b"\\"))
        self._open = quote + b"\\" * (escapes % 2)
        return outside
