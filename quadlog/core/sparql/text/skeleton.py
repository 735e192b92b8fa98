"""An update's text, taken apart: its skeleton, and the constants that stand in it.

Clients send the same few texts over and over with other IRIs, strings and numbers in them.  What is cut
out here is cut out for sure: a skeleton in which anything might be read otherwise makes no plan.

>>> skeleton, constants = taken_apart('INSERT DATA { <urn:s> <urn:p> "o", 1 }')
>>> skeleton.gaps, skeleton.kinds, constants
(('INSERT DATA { ', ' ', ' ', ', ', ' }'), '<<"1', ['<urn:s>', '<urn:p>', '"o"', '1'])
>>> skeleton.is_sure, taken_apart("INSERT DATA { <urn:s> <urn:p> '''o''' }")[0].is_sure
(True, False)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPACE = r"[ \t\r\n]"
_IRI = r'<[^<>"{}|^`\\\x00-\x20]++>'

_DECLARED: Final = re.compile(
    rf"{_SPACE}*+(?:(?i:PREFIX){_SPACE}++[A-Za-z0-9_.\-]*+:{_SPACE}*+{_IRI}{_SPACE}*+)*+"
)
"""Prefixes at the beginning: what names mean is part of the skeleton."""

_CONSTANT: Final = re.compile(
    rf"""
    ({_IRI}
    |"(?:[^"\\\r\n\ud800-\udfff]++|\\[tbnrf"'\\])*+"(?!")
    |'(?:[^'\\\r\n\ud800-\udfff]++|\\[tbnrf"'\\])*+'(?!')
    |(?<=[ \t\r\n(,])(?:0|[1-9][0-9]{{0,17}})(?=[ \t\r\n),;}}\]]))
    """,
    re.VERBOSE,
)
"""Integers are those of 64 bits that are stored as they are written."""

_UNSURE: Final = re.compile(r"""['"\\]|<(?!=?\ )|(?i:base|prefix|version)""", re.VERBOSE)
"""Beside constants: a quote, for what looks like a constant may be in a string; a `<` that may be the start of an
IRI; and words that may change what is meant by all that follows.  Constants in a comment stay in it."""

_KINDS: Final = str.maketrans("0123456789'", '1111111111"')
"""By the first character."""


class Skeleton(NamedTuple):
    """All of a text but its constants."""

    declared: str
    gaps: tuple[str, ...]
    """What stands between the constants: one more than there are of those."""
    kinds: str
    """Of the constants: `<` an IRI, `"` a string, `1` an integer."""

    @property
    def is_sure(self) -> bool:
        """Whether every text of it has its constants where this one has them."""
        return _UNSURE.search("\n".join(self.gaps)) is None

    def text(self, constants: Sequence[str]) -> str:
        """The text with these constants."""
        return self.declared + filled_in(self.gaps, constants)


def taken_apart(text: str) -> tuple[Skeleton, Sequence[str]]:
    """The skeleton of a text, and its constants."""
    declared = _DECLARED.match(text)
    start = 0 if declared is None else declared.end()
    parts = _CONSTANT.split(text[start:])
    constants = parts[1::2]
    kinds = "".join([constant[0] for constant in constants]).translate(_KINDS)
    return Skeleton(text[:start], tuple(parts[::2]), kinds), constants


def filled_in(gaps: Sequence[str], constants: Sequence[str]) -> str:
    """Gaps, with the constants between them."""
    parts = [""] * (len(gaps) + len(constants))
    parts[::2], parts[1::2] = gaps, constants
    return "".join(parts)
