"""Check for literals that the store would alter; used for all inputs.

pyoxigraph's store encodes numbers, dates and durations by their values (oxigraph/oxigraph#526).  A valid literal is
read back with the same value, maybe in another lexical form (docs/conformance.md has the table).  An ill-typed literal
is stored as it was written, unless the store interprets it as a value of a wider type: such a literal is refused here.
A language-tagged string without its tag, which no RDF format can express, is refused, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyoxigraph import Literal

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

UNTAGGED: Final = frozenset((f"{RDF}langString", f"{RDF}dirLangString"))
"""Datatypes that only literals with a language tag have (RDF 1.1, section 3.3)."""

_RANGES: Final[dict[str, tuple[int | None, int | None]]] = {
    f"{XSD}long": (-(1 << 63), (1 << 63) - 1),
    f"{XSD}int": (-(1 << 31), (1 << 31) - 1),
    f"{XSD}short": (-(1 << 15), (1 << 15) - 1),
    f"{XSD}byte": (-(1 << 7), (1 << 7) - 1),
    f"{XSD}unsignedLong": (0, (1 << 64) - 1),
    f"{XSD}unsignedInt": (0, (1 << 32) - 1),
    f"{XSD}unsignedShort": (0, (1 << 16) - 1),
    f"{XSD}unsignedByte": (0, (1 << 8) - 1),
    f"{XSD}nonNegativeInteger": (0, None),
    f"{XSD}positiveInteger": (1, None),
    f"{XSD}nonPositiveInteger": (None, 0),
    f"{XSD}negativeInteger": (None, -1),
}
"""Types derived from xsd:integer, with their bounds; the store converts each of them to xsd:integer."""

_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,30}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN")
_ZONED: Final = re.compile(r".*(?:Z|[+-][0-9]{2}:[0-9]{2})")
_DAYS: Final = r"-?P(?=.)(?:[0-9]+D)?(?:T(?=.)(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?"
_FORMS: Final = {
    f"{XSD}double": _FLOAT,
    f"{XSD}float": _FLOAT,
    f"{XSD}dateTimeStamp": _ZONED,
    f"{XSD}duration": re.compile(_DAYS.replace("(?=.)", "(?=.)(?:[0-9]+Y)?(?:[0-9]+M)?", 1)),
    f"{XSD}yearMonthDuration": re.compile(r"-?P(?=.)(?:[0-9]+Y)?(?:[0-9]+M)?"),
    f"{XSD}dayTimeDuration": re.compile(_DAYS),
}
"""Lexical forms of XSD 1.1 part 2, for types of which the store accepts more: `nan`, `P1YT`, no time zone."""

ALTERED: Final = frozenset((*_RANGES, *_FORMS, *UNTAGGED))
"""Datatypes some of whose literals are refused."""


class IllFormedLiteral(ValueError):
    """A literal that would be stored as another term, or that does not exist in RDF."""


def is_valid(value: str, datatype: str) -> bool:
    """Return whether a lexical form is valid for a datatype in `ALTERED`; True for all other datatypes.

    >>> [is_valid(value, f"{XSD}byte") for value in ("+03", "300", "x")], is_valid("x", f"{XSD}integer")
    ([True, False, False], True)
    >>> is_valid("0" * 5000 + "3", f"{XSD}byte"), is_valid("-" + "0" * 5000 + "129", f"{XSD}byte")
    (True, False)
    """
    bounds = _RANGES.get(datatype)
    if bounds is not None:
        low, high = bounds
        if not _INTEGER.fullmatch(value):
            return False
        digits = value.lstrip("+-").lstrip("0") or "0"  # Python parses at most 4,300 digits, including zeros
        number = -int(digits) if value.startswith("-") else int(digits)
        return (low is None or low <= number) and (high is None or number <= high)
    form = _FORMS.get(datatype)
    return datatype not in UNTAGGED if form is None else form.fullmatch(value) is not None


def refuse_untagged(value: str, datatype: str) -> None:
    """Raise `IllFormedLiteral` for a language-tagged string without a tag."""
    if datatype in UNTAGGED:
        short = datatype.removeprefix(RDF)
        raise IllFormedLiteral(
            f'"{value[:100]}"^^rdf:{short} has no language tag: write "…"@en, or leave the datatype out'
        )


def refuse_ill_typed(literal: Literal, stored: Literal) -> None:
    """Raise `IllFormedLiteral` if a literal is invalid, and the store therefore holds the other term `stored`."""
    name, value = literal.datatype.value, literal.value
    if not is_valid(value, name):
        raise IllFormedLiteral(
            f'"{value[:100]}" is no value of xsd:{name.removeprefix(XSD)}, and would be stored as another term,'
            f" {str(stored)[:200]}: correct it, or give it another datatype"
        )
