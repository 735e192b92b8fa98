"""Typed literals in a query or a WHERE, whose text pyoxigraph parses: the same literals are refused as in data.

This includes STRDT, which creates literals during evaluation (SPARQL 1.1, section 17.4.2.10).  If the store cannot hold
a literal with that lexical form and datatype, the call is an error and the variable stays unbound.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from pyoxigraph import Literal, NamedNode

from quadlog.core.sparql.text.datatypes import ALTERED, IllFormedLiteral
from quadlog.core.sparql.text.terms import XSD_STRING, Literals, string_value
from quadlog.core.sparql.text.tokens import edited, tokens
from quadlog.errors import SyntaxRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from quadlog.core.sparql.text.labelled_nodes import Term
    from quadlog.core.sparql.text.terms import Names

_STRDT: Final = NamedNode("urn:quadlog:function:strdt")
_MENTIONED: Final = re.compile(r"(?i)\bSTRDT\b")


def typed_literals(text: str, names: Names) -> Iterator[tuple[str, NamedNode]]:
    """Yield the lexical form and the datatype of each typed literal in a text that pyoxigraph parses."""
    if "^^" not in text:
        return
    string, marked = "", False
    for token in tokens(text):
        kind = token.lastgroup
        if marked and string and kind in {"iri", "pname"}:
            try:
                name = names.iri(token["iri"]) if kind == "iri" else names.prefixed(token["pname"])
                yield string_value(string), name
            except (SyntaxError, ValueError):  # pyoxigraph refuses the text, or has refused it already
                pass
        marked = kind == "mark" and token["mark"] == "^^"
        if not marked:
            string = token["string"] or ""


def refuse_ill_formed(text: str, names: Names) -> None:
    """Refuse a text with a literal that pyoxigraph would parse as another one.

    Raises:
        SyntaxRefused: the text has such a literal.

    """
    literals = Literals()
    for value, datatype in typed_literals(text, names):
        if datatype.value in ALTERED:
            try:
                literals.typed(value, datatype)
            except IllFormedLiteral as error:
                raise SyntaxRefused(f"a literal that means nothing: {error}") from None


def with_checked_strdt(text: str) -> tuple[str, Mapping[NamedNode, Callable[..., Term | None]]]:
    """Return the query with each call of STRDT replaced, and the custom function that it calls instead.

    >>> with_checked_strdt("SELECT (strdt('1', ?d) AS ?x) {}")[0]
    "SELECT (<urn:quadlog:function:strdt>('1', ?d) AS ?x) {}"
    """
    if _MENTIONED.search(text) is None:
        return text, {}
    edits: list[tuple[int, int, str]] = []
    word: tuple[int, int] | None = None
    for token in tokens(text):
        if word is not None and token["mark"] == "(":
            edits.append((*word, str(_STRDT)))
        is_call = (token["word"] or "").upper() == "STRDT"
        word = token.span("word") if is_call else None
    return edited(text, edits), {_STRDT: partial(_strdt, Literals())}


def _strdt(literals: Literals, form: Term, datatype: Term) -> Literal | None:
    """Return the literal of STRDT as the store holds it; None is a SPARQL error."""
    if not isinstance(form, Literal) or form.datatype.value != XSD_STRING:
        return None
    if not isinstance(datatype, NamedNode):
        return None
    try:
        return literals.typed(form.value, datatype)
    except IllFormedLiteral:
        return None
