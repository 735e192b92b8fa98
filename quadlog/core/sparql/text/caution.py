"""What a text asks of pyoxigraph.

pyoxigraph's parser recurses, and its optimiser takes more than quadratic time for what is joined.
Both are met by small texts: 8,000 times `+1` overflow the stack, 500 joined patterns take minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.text.tokens import CLOSING, OPENING, TERMS, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

# Deepest nesting of brackets that is handed to pyoxigraph: it takes quadratic time (0.1 s at 1,000)
# and overflows the stack, killing the process, at some 5,000.
MAX_NESTING: Final = 100
# Operators, BINDs, FILTERs, … in all: 8,000 kill the process or hang it, 2,000 do not.
MAX_OPERATORS: Final = 500
# What the optimiser puts in an order: 0.1 s at 60, 1.4 s at 120, minutes at 500.
MAX_JOINS: Final = 80
# Of which the rest are ground triples: 0.06 s at 1,000; 5,000 overflow the stack.
MAX_GROUND: Final = 500
# OPTIONALs, and as many VALUES: 0.5 s at 60, more than 2 s at 120.
MAX_OPTIONALS: Final = 50

_CHAINING = frozenset(("||", "&&", "|", "/", "+", "-", "*", "!", "^", "~"))
_CHAINING_WORDS = ("UNION", "FILTER", "BIND", "MINUS", "AS", "OPTIONAL", "VALUES")


@dataclass(slots=True, kw_only=True)
class Weight:
    """What was counted in a text."""

    depth: int = 0
    """Of brackets, at most."""
    operators: int = 0
    joins: int = 0
    """Patterns, groups, collection items and steps of paths: data have as many as they like."""
    listed: int = 0
    """Terms that follow a term where no collection is: in triples, projections, orderings."""
    optionals: int = 0
    values: int = 0
    service: bool = False

    @property
    def is_tame(self) -> bool:
        """Whether a recursive parser survives the text."""
        return self.depth <= MAX_NESTING and self.operators <= MAX_OPERATORS

    @property
    def is_light(self) -> bool:
        """Whether it can be evaluated, too."""
        return (
            self.is_tame
            and self.joins <= MAX_JOINS
            and self.listed <= MAX_OPERATORS
            and max(self.optionals, self.values) <= MAX_OPTIONALS
        )


def is_tame(text: str) -> bool:
    """Whether pyoxigraph's parser survives this text.

    >>> is_tame("SELECT * { ?s ?p ?o }"), is_tame("(" * 200), is_tame("1||" * 9999), is_tame(f"({'+1' * 999})")
    (True, False, False, False)
    """
    return weigh(text).is_tame


def weigh(text: str) -> Weight:
    """Count what is in a text."""
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
    """Each token, with the bracket that it is in, and what stands before it: an operand or a mark.

    In a block of VALUES every bracket is a ``row``: there is no operator, and any number of terms.
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
    # pyoxigraph needs no blank between words: `trueSERVICE` are two.
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
