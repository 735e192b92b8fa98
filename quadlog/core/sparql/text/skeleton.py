"""Division of an update's text into its skeleton and its constants.

Clients send the same few texts repeatedly, with different IRIs, strings and numbers.  A skeleton in which
any constant might have another meaning is marked as not sure, and gets no plan.

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
"""Matches the prefixes at the beginning: the meaning of names is a part of the skeleton."""

_CONSTANT: Final = re.compile(
    rf"""
    ({_IRI}
    |"(?:[^"\\\r\n\ud800-\udfff]++|\\[tbnrf"'\\])*+"(?!")
    |'(?:[^'\\\r\n\ud800-\udfff]++|\\[tbnrf"'\\])*+'(?!')
    |(?<=[ \t\r\n(,])(?:0|[1-9][0-9]{{0,17}})(?=[ \t\r\n),;}}\]]))
    """,
    re.VERBOSE,
)
"""Matches a constant.  Integers are those of 64 bits whose lexical form the store does not change."""

_UNSURE: Final = re.compile(r"""['"\\]|<(?!=?\ )|(?i:base|prefix|version)""", re.VERBOSE)
"""Matches text outside constants that may change their meaning: a quote or a backslash, because an apparent constant
may be inside a string; a `<` that may begin an IRI; and words that may change the meaning of all later text.
Constants in a comment stay in it."""

_KINDS: Final = str.maketrans("0123456789'", '1111111111"')
"""Kind of a constant by its first character."""


class Skeleton(NamedTuple):
    """A text without its constants."""

    declared: str
    gaps: tuple[str, ...]
    """Text before, between and after the constants: one part more than there are constants."""
    kinds: str
    """One character per constant: `<` for an IRI, `"` for a string, `1` for an integer."""

    @property
    def is_sure(self) -> bool:
        """True if every text of this skeleton has its constants at the same places."""
        return _UNSURE.search("\n".join(self.gaps)) is None

    def text(self, constants: Sequence[str]) -> str:
        """Return the text with these constants."""
        return self.declared + filled_in(self.gaps, constants)


def taken_apart(text: str) -> tuple[Skeleton, Sequence[str]]:
    """Return the skeleton of a text, and its constants."""
    declared = _DECLARED.match(text)
    start = 0 if declared is None else declared.end()
    parts = _CONSTANT.split(text[start:])
    constants = parts[1::2]
    kinds = "".join([constant[0] for constant in constants]).translate(_KINDS)
    return Skeleton(text[:start], tuple(parts[::2]), kinds), constants


def filled_in(gaps: Sequence[str], constants: Sequence[str]) -> str:
    """Return the gaps with the constants between them, as one text."""
    parts = [""] * (len(gaps) + len(constants))
    parts[::2], parts[1::2] = gaps, constants
    return "".join(parts)
