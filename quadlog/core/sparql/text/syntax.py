"""Syntax check by pyoxigraph's own parser, the authority on SPARQL syntax, without execution.

A read-only store parses an update before it fails to start a transaction; with an empty store,
this takes about 12 µs.  Its parser wrongly refuses declarations between operations
(``… ; PREFIX …``), so these are moved to the front for the check.
"""

from __future__ import annotations

import re
import tempfile
from functools import cache

from pyoxigraph import Store

from quadlog.core.sparql.text.tokens import edited, place, tokens
from quadlog.errors import SyntaxRefused, UserError

# Prefix of the named graphs in which a worker stores its own state: no client may name one.
RESERVED_PREFIX = "urn:quadlog:state:"

_AT = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)
_SHARED = re.compile(r"The blank node (_:\S+) cannot be shared")
_DECLARATIONS = frozenset(("PREFIX", "BASE", "VERSION"))


def check_update(text: str) -> None:
    """Raise ``SyntaxRefused`` with line and column unless ``text`` is a SPARQL update.

    >>> check_update("INSERT DATA {} ; PREFIX a: <urn:a:> INSERT DATA { a:s a:p 1 }")
    >>> check_update("INSERT DATA { <urn:s> <urn:p> }")
    Traceback (most recent call last):
        ...
    quadlog.errors.SyntaxRefused: not SPARQL: line 1, column 31: expected …
    """
    error = _refusal(text)
    if error is None:
        return
    moved = _declarations_moved(text)
    if moved is not None:
        head, body = moved
        error = _refusal(f"{head}\n{body}")
        if error is None:
            return
        raise SyntaxRefused(explain(text, error, first_line=2))
    raise SyntaxRefused(explain(text, error))


def check_query(text: str) -> None:
    """Raise ``SyntaxRefused`` with line and column unless ``text`` is a SPARQL query.

    Raises:
        UserError: the query can never be evaluated, because it calls an unknown function.

    """
    try:
        _empty_store().query(text)
    except SyntaxError as error:
        raise SyntaxRefused(explain(text, str(error))) from None
    except RuntimeError as error:
        raise UserError(f"the query cannot be evaluated: {error}") from None


def explain(text: str, error: str, *, first_line: int = 1) -> str:
    """Return pyoxigraph's message with line and column at its beginning, and without character classes."""
    at = _AT.match(error)
    if at is not None:
        expected = at[3] if len(at[3]) < 200 and "\\u{" not in at[3] else "expected …"  # noqa: PLR2004
        return f"not SPARQL: line {int(at[1]) - first_line + 1}, column {at[2]}: {expected}"
    shared = _SHARED.match(error)
    offset = 0
    if shared is not None:
        spots = [t.start("bnode") for t in tokens(text) if t["bnode"] == shared[1]]
        offset = spots[-1] if spots else 0
    return f"not SPARQL: {place(text, offset)}: {error.splitlines()[0][:200]}"


def _refusal(text: str) -> str | None:
    try:
        _empty_store().update(text)
    except RuntimeError:
        return None  # parsed; a read-only store starts no transaction
    except (SyntaxError, ValueError) as error:  # ValueError: a lone surrogate
        return str(error)
    raise AssertionError("a read-only store took an update")


@cache
def _empty_store() -> Store:
    # RocksDB keeps the files that it needs open, so the directory can be removed immediately.
    with tempfile.TemporaryDirectory(prefix="quadlog-syntax-") as directory:
        Store(directory).flush()
        return Store.read_only(directory)


def _declarations_moved(text: str) -> tuple[str, str] | None:
    """Return stand-ins for the declarations after a ``;``, and the text with blanks instead of these declarations.

    The blanks preserve lines and columns.  The stand-ins keep the text parseable; the parser that builds
    the quads resolves the names, and checks that they were declared before their use.
    """
    spans: list[tuple[int, int]] = []
    prefixes: dict[str, None] = {}
    base = ""
    depth, armed, wanted = 0, False, ""
    start = 0
    for token in tokens(text):
        kind = token.lastgroup
        value = token[kind] if kind else ""
        if wanted:
            if kind == "pname":
                prefixes[value] = None
                continue
            base = "BASE <http://base.invalid/> " if wanted == "BASE" else base
            spans.append((start, token.end()))
            wanted, armed = "", True
        elif armed and kind == "word" and value.upper() in _DECLARATIONS:
            wanted, start = value.upper(), token.start("word")
        else:
            depth += (value == "{") - (value == "}") if kind == "mark" else 0
            armed = depth == 0 and value == ";"
    if not spans:
        return None
    head = base + " ".join(f"PREFIX {name} <urn:x:>" for name in prefixes)
    blanks = ((begin, end, re.sub(r"[^\r\n]", " ", text[begin:end])) for begin, end in spans)
    return head, edited(text, blanks)
