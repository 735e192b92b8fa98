"""Limits on the load that a text causes in pyoxigraph.

pyoxigraph's parser is recursive, and the time of its optimiser grows more than quadratically with the number of
joins.  Small texts exceed both: 8,000 times `+1` overflow the stack, 500 joined patterns take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.text.tokens import CLOSING, OPENING, TERMS, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

# Maximum nesting of brackets in a text for pyoxigraph, whose time is quadratic in it (0.1 s at 1,000);
# at about 5,000, the stack overflows and the process dies.
MAX_NESTING: Final = 100
# Maximum number of operators, BINDs, FILTERs, … in total: 8,000 kill the process or hang it, 2,000 do not.
MAX_OPERATORS: Final = 500
# Maximum number of joins, which the optimiser orders: 0.1 s at 60, 1.4 s at 120, minutes at 500.
MAX_JOINS: Final = 80
# Maximum number of joins if all above MAX_JOINS are ground triples: 0.06 s at 1,000; 5,000 overflow the stack.
MAX_GROUND: Final = 500
# Maximum number of OPTIONALs, and of VALUES: 0.5 s at 60, more than 2 s at 120.
MAX_OPTIONALS: Final = 50

_CHAINING = frozenset(("||", "&&", "|", "/", "+", "-", "*", "!", "^", "~"))
_CHAINING_WORDS = ("UNION", "FILTER", "BIND", "MINUS", "AS", "OPTIONAL", "VALUES")


@dataclass(slots=True, kw_only=True)
class Weight:
    """Counts of the parts of a text."""

    depth: int = 0
    """Maximum nesting of brackets."""
    operators: int = 0
    joins: int = 0
    """Number of patterns, groups, collection items and steps of paths; unlimited in data."""
    listed: int = 0
    """Number of terms after another term outside collections: in triples, projections, orderings."""
    optionals: int = 0
    values: int = 0
    service: bool = False

    @property
    def is_tame(self) -> bool:
        """True if a recursive parser survives the text."""
        return self.depth <= MAX_NESTING and self.operators <= MAX_OPERATORS

    @property
    def is_light(self) -> bool:
        """True if the text can also be evaluated."""
        return (
            self.is_tame
            and self.joins <= MAX_JOINS
            and self.listed <= MAX_OPERATORS
            and max(self.optionals, self.values) <= MAX_OPTIONALS
        )


def is_tame(text: str) -> bool:
    """Return whether pyoxigraph's parser survives a text.

    >>> is_tame("SELECT * { ?s ?p ?o }"), is_tame("(" * 200), is_tame("1||" * 9999), is_tame(f"({'+1' * 999})")
    (True, False, False, False)
    """
    return weigh(text).is_tame


def weigh(text: str) -> Weight:
    """Count the parts of a text."""
    weight = Weight()
    for inside, kind, value, before in _in_brackets(text, weight):
        if inside == "row":
            continue
        behind = before == "operand"
        if kind == "word":
            _count_word(weight, value.upper())
        elif kind == "mark":
            _count_mark(weight, inside, value, before)
        elif inside == "(" and behind:
            weight.operators += kind == "number" and value[0] in "+-"
            weight.joins += kind != "lang"
        elif behind:
            weight.listed += 1
        elif before in {")", "}"} and inside == "{":
            weight.joins += 1
    return weight


def _in_brackets(text: str, weight: Weight) -> Iterator[tuple[str, str, str, str]]:
    """Yield the innermost open bracket, kind and value of each token, and what precedes it: ``operand`` or a mark.

    In a block of VALUES every bracket is a ``row``: it contains no operators, and any number of terms.
    """
    opened: list[str] = []
    before = ""
    values = False
    for token in tokens(text):
        kind = token.lastgroup or ""
        value = token[kind]
        inside = opened[-1] if opened else ""
        yield inside, kind, value, "operand" if before in {")", "}"} and inside == "(" else before
        before = value if kind == "mark" else "operand" if kind in TERMS else ""
        if kind == "word":
            values = values or value.upper().endswith("VALUES")
            before = "operand" if value.upper() in {"TRUE", "FALSE"} else ""
        elif kind == "mark" and value in OPENING:
            opened.append("row" if inside == "row" or (values and value == "{") else value)
            values = values and value != "{"
            weight.depth = max(weight.depth, len(opened))
        elif kind == "mark" and value in CLOSING and opened:
            opened.pop()
            before = {")>>": ")", ">>": ")", "]": "operand"}.get(value, value)


def _count_word(weight: Weight, word: str) -> None:
    # pyoxigraph needs no space between words: `trueSERVICE` consists of two words.
    weight.service = weight.service or "SERVICE" in word
    weight.optionals += word.endswith("OPTIONAL")
    if word.endswith("VALUES"):
        weight.values += 1
        weight.joins += 1
    weight.operators += word.endswith(_CHAINING_WORDS)


def _count_mark(weight: Weight, inside: str, value: str, before: str) -> None:
    weight.operators += value in _CHAINING or (value == "(" and before == ")")
    if value == "/" or (value in OPENING and (value != "(" or before == "operand")):
        weight.joins += 1
    weight.joins += inside in {"{", "[", "{|"} and value in {".", ";", ",", "~"}
