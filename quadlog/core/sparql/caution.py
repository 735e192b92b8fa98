"""What a text asks of pyoxigraph, and whether our tokens are sure to be its own.

pyoxigraph's parser recurses, and its optimiser takes more than quadratic time for what is joined.
Both are met by small texts: 8,000 times `+1` overflow the stack, 500 joined patterns take minutes.

Where an operand stands before it, pyoxigraph reads ``<`` as an operator.  ``'!'<'>'`` is two strings for
it, and an open string after an IRI for our tokens; all that follows would be misread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.tokens import tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

# Deepest nesting of brackets that is handed to pyoxigraph: it takes quadratic time (0.1 s at 1,000)
# and overflows the stack, killing the process, at some 5,000.
MAX_NESTING: Final = 100
# Operators, BINDs, FILTERs, … in all: 8,000 kill the process or hang it, 2,000 do not.
MAX_OPERATORS: Final = 500
# What the optimiser puts in an order: 0.1 s at 60, 1.4 s at 120, minutes at 500.
MAX_JOINS: Final = 80
# OPTIONALs, and as many VALUES: 0.5 s at 60, more than 2 s at 120.
MAX_OPTIONALS: Final = 50
_DOUBTFUL_LENGTH: Final = 2_000

_OPENING = frozenset(("{", "(", "[", "<<", "<<(", "{|"))
_CLOSING = frozenset(("}", ")", "]", ">>", ")>>", "|}"))
_CHAINING = frozenset(("||", "&&", "|", "/", "+", "-", "*", "!", "^", "~"))
_CHAINING_WORDS = ("UNION", "FILTER", "BIND", "MINUS", "AS", "OPTIONAL", "VALUES")
_TERMS = frozenset(("iri", "string", "bnode", "pname", "var", "number", "lang", "nil", "anon"))
_MISREADABLE = re.compile(r"['#()\[\]]")
_ROUGH_JOINS = re.compile(r"[.;,/{~]|(?i:values|graph)")


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
    doubtful: bool = False
    """Whether pyoxigraph may read it otherwise than our tokens do."""

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
    """Whether pyoxigraph's parser survives this text, and surely so.

    >>> is_tame("SELECT * { ?s ?p ?o }"), is_tame("(" * 200), is_tame("1||" * 9999), is_tame(f"({'+1' * 999})")
    (True, False, False, False)
    """
    weight = weigh(text)
    return weight.is_tame and not weight.doubtful


def weigh(text: str) -> Weight:
    """Count what is in a text; in one that is doubtful, whatever could be."""
    weight = Weight()
    for inside, kind, value, before in _in_brackets(text, weight):
        if inside == "row":
            continue
        behind = before == "operand"
        if inside == "(" and behind and _may_be_less(kind, value):
            return _roughly(text)
        if kind == "word":
            _count_word(weight, value.upper())
        elif kind == "mark":
            _count_mark(weight, inside, value, before)
        elif inside == "(" and behind:
            weight.operators += kind == "number" and value[0] in "+-"
            weight.operators += sum(map(value.count, "&+-*/!")) if kind == "iri" else 0
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
        before = value if kind == "mark" else "operand" if kind in _TERMS else ""
        if kind == "word":
            values = values or value.upper().endswith("VALUES")
            before = "operand" if value.upper() in {"TRUE", "FALSE"} else ""
        elif kind == "mark" and value in _OPENING:
            opened.append("row" if inside == "row" or (values and value == "{") else value)
            values = values and value != "{"
            weight.depth = max(weight.depth, len(opened))
        elif kind == "mark" and value in _CLOSING and opened:
            opened.pop()
            before = {")>>": ")", ">>": ")", "]": "operand"}.get(value, value)


def _may_be_less(kind: str, value: str) -> bool:
    """Whether ``<`` may be an operator here, with something behind it that would lead the tokens astray."""
    if kind == "mark":
        return value in {"<<", "<<("}
    return kind == "iri" and _MISREADABLE.search(value) is not None


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
    if value == "/" or (value in _OPENING and (value != "(" or before == "operand")):
        weight.joins += 1
    weight.joins += inside in {"{", "[", "{|"} and value in {".", ";", ",", "~"}


def _roughly(text: str) -> Weight:
    brackets = sum(map(text.count, "([{")) + text.count("<<")
    upper = text.upper()
    return Weight(
        depth=brackets if len(text) <= _DOUBTFUL_LENGTH else MAX_NESTING + 1,
        operators=sum(map(text.count, "|&/+-*!^~")) + sum(map(upper.count, _CHAINING_WORDS)),
        joins=len(_ROUGH_JOINS.findall(text)),
        optionals=upper.count("OPTIONAL"),
        values=upper.count("VALUES"),
        service="SERVICE" in upper,
        doubtful=True,
    )
