r"""Tokens of a SPARQL text, for finding its parts whatever they contain.

pyoxigraph checks the syntax; these tokens only *locate* parts of a text.  A text on which
the two disagree ends in an unexpected token, which callers refuse.

>>> [(t.lastgroup, t[t.lastgroup]) for t in tokens("GRAPH ?g { <urn:s> a 'it\\'s' } # end")]
... # doctest: +NORMALIZE_WHITESPACE
[('word', 'GRAPH'), ('var', '?g'), ('mark', '{'), ('iri', '<urn:s>'), ('word', 'a'),
 ('string', "'it\\'s'"), ('mark', '}'), ('end', '')]

`docs/decisions/0001` explains why tree-sitter-sparql is not used.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd"
)
_NAME = rf"{_BASE}_0-9\u00b7\u0300-\u036f\u203f-\u2040"
_PLX = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?\#@%]"
_LOCAL = rf"(?:[{_BASE}_:0-9]|{_PLX})(?:[{_NAME}\-:]|{_PLX})*+(?:\.++(?:[{_NAME}\-:]|{_PLX})++)*+"
_SPACE = r"[ \t\r\n]"
BLANK_NODE = rf"_:[{_BASE}_0-9][{_NAME}\-]*+(?:\.++[{_NAME}\-]++)*+"


def _pattern(iri: str, marks: str) -> re.Pattern[str]:
    return re.compile(
        rf"""
    (?:{_SPACE}++|\#[^\r\n]*+)*+
    (?:(?P<iri>{iri})
    |(?P<string>\"\"\"(?:[^"\\]++|\\.|""?(?!"))*+\"\"\"
        |'''(?:[^'\\]++|\\.|''?(?!'))*+'''
        |"(?:[^"\\\r\n]++|\\.)*+"
        |'(?:[^'\\\r\n]++|\\.)*+')
    |(?P<bnode>{BLANK_NODE})
    |(?P<pname>(?:[{_BASE}][{_NAME}\-]*+(?:\.++[{_NAME}\-]++)*+)?:(?:{_LOCAL})?)
    |(?P<word>[A-Za-z][A-Za-z0-9_]*+)
    |(?P<var>[?$][{_NAME}]++)
    |(?P<number>[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)[eE][+-]?[0-9]++
        |[0-9]*+\.[0-9]++|[0-9]++))
    |(?P<lang>@[A-Za-z]++(?:-[A-Za-z0-9]++)*+(?:--[A-Za-z]++)?)
    |(?P<nil>\({_SPACE}*+\))
    |(?P<anon>\[{_SPACE}*+\])
    |(?P<end>\Z)
    |(?P<mark>{marks}.))
    """,
        re.VERBOSE | re.DOTALL,
    )


@cache
def token_pattern() -> re.Pattern[str]:
    """Return the pattern of a token.  It is compiled on first use: that takes 15 ms, and few processes parse texts."""
    return _pattern(
        r"""<(?:[^<>"{}|^`\\\x00-\x20]++|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+>""",
        r"""\^\^|<<\(|\)>>|<<|>>|\{\||\|\}|&&|\|\||""",
    )


@cache
def _operator_pattern() -> re.Pattern[str]:
    """Return `token_pattern` for positions at which ``<`` begins neither an IRI nor a triple."""
    return _pattern("(?!)", "")


_WITH_EXPRESSIONS: Final = re.compile("(?i)FILTER|BIND|SELECT|HAVING|BY")
"""A text without any of these words has no expression; data, which may be long, have none."""

TERMS: Final = frozenset(("iri", "string", "bnode", "pname", "var", "number", "lang", "nil", "anon"))
OPENING: Final = frozenset(("{", "(", "[", "<<", "<<(", "{|"))
CLOSING: Final = frozenset(("}", ")", "]", ">>", ")>>", "|}"))


def tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Yield the tokens of a text; the last one is ``end``.

    In an expression, ``<`` after an operand is an operator, whatever follows it.

    >>> [t[t.lastgroup] for t in tokens("ASK { ?s <urn:p> ?x FILTER(?x<3&&?x>1) }")][6:-3]
    ['(', '?x', '<', '3', '&&', '?x', '>', '1']
    """
    frames = _Frames() if "<" in text and _WITH_EXPRESSIONS.search(text) else None
    pattern = token_pattern()
    while True:
        for token in pattern.finditer(text, start):
            kind = token.lastgroup or ""
            if frames is not None:
                if frames.after_operand and (kind == "iri" or token[kind][:2] == "<<"):
                    operator = _operator_pattern().match(text, token.start())
                    assert operator is not None, "the pattern matches anywhere"
                    frames.after_operand = False
                    yield operator
                    start = operator.end()
                    break
                frames.update(kind, token[kind])
            yield token
            if kind == "end":
                return


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a text after edits in their order: start and end of a part, and what replaces it."""
    pieces, done = list[str](), 0
    for start, end, replacement in edits:
        pieces += (text[done:start], replacement)
        done = end
    return "".join((*pieces, text[done:]))


class _Frames:
    """The open brackets, and whether the last token ended an operand of an expression.

    A bracket contains an expression if it opens in an expression, after FILTER or BIND, or in a SELECT clause or
    solution modifiers.  All other brackets contain terms: paths, collections, rows, triples.
    """

    def __init__(self) -> None:
        self.after_operand = False
        self._open: list[str] = ["modifiers"]
        self._expects = False
        """True in a group after FILTER or BIND, where an expression follows."""

    def update(self, kind: str, value: str) -> None:
        """Update the state with the next token."""
        inside = self._open[-1]
        if kind == "word":
            word = value.upper()
            self.after_operand = inside == "expression" and word.endswith(("TRUE", "FALSE"))
            if inside == "group":
                # pyoxigraph needs no space between words: `trueFILTERSTR` consists of three words.
                self._expects = self._expects or "FILTER" in word or "BIND" in word
                if "SELECT" in word:
                    self._open[-1] = "modifiers"
        elif kind != "mark":
            self._expects = self._expects and kind != "nil"
            self.after_operand = inside == "expression"
        elif value in OPENING:
            self._open.append(self._kind_of(value, inside))
            self._expects = self.after_operand = False
        elif value in CLOSING:
            if len(self._open) > 1:
                self._open.pop()
            self.after_operand = self._open[-1] == "expression"
        else:
            self.after_operand = False

    def _kind_of(self, opening: str, inside: str) -> str:
        if opening == "{":
            return "group"
        if opening == "(" and (inside in {"expression", "modifiers"} or self._expects):
            return "expression"
        return "terms"


def place(text: str, offset: int) -> str:
    r"""Return line and column of an offset, for error messages.

    >>> place("ab\ncd", 4)
    'line 2, column 2'
    """
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"
