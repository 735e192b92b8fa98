r"""SPARQL text as tokens: enough to find its parts, whatever they say.

pyoxigraph judges the syntax; these tokens only *locate* things in a text.  A text on which
the two disagree ends in an unexpected token, which callers refuse.

>>> [(t.lastgroup, t[t.lastgroup]) for t in tokens("GRAPH ?g { <urn:s> a 'it\\'s' } # end")]
... # doctest: +NORMALIZE_WHITESPACE
[('word', 'GRAPH'), ('var', '?g'), ('mark', '{'), ('iri', '<urn:s>'), ('word', 'a'),
 ('string', "'it\\'s'"), ('mark', '}'), ('end', '')]

Why not tree-sitter-sparql: see `docs/decisions/0001-read-updates-without-tree-sitter.md`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d"
    "\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd"
)
_NAME = rf"{_BASE}_0-9\u00b7\u0300-\u036f\u203f-\u2040"
_PLX = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?\#@%]"
_LOCAL = rf"(?:[{_BASE}_:0-9]|{_PLX})(?:[{_NAME}\-:]|{_PLX})*+(?:\.++(?:[{_NAME}\-:]|{_PLX})++)*+"
_SPACE = r"[ \t\r\n]"
BLANK_NODE = rf"_:[{_BASE}_0-9][{_NAME}\-]*+(?:\.++[{_NAME}\-]++)*+"

TOKEN = re.compile(
    rf"""
    (?:{_SPACE}++|\#[^\r\n]*+)*+
    (?:(?P<iri><(?:[^<>"{{}}|^`\\\x00-\x20]++|\\u[0-9A-Fa-f]{{4}}|\\U[0-9A-Fa-f]{{8}})*+>)
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
    |(?P<mark>\^\^|<<\(|\)>>|<<|>>|\{{\||\|\}}|&&|\|\||.))
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """The tokens of a text; the last one is ``end``."""
    for token in TOKEN.finditer(text, start):
        yield token
        if token.lastgroup == "end":
            return


def place(text: str, offset: int) -> str:
    r"""Where an offset is, for people.

    >>> place("ab\ncd", 4)
    'line 2, column 2'
    """
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"
