"""Check for reserved names, which a text must not contain because workers store their own state under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.text.prologue import Prologue
from quadlog.core.sparql.text.reader import TextReader
from quadlog.core.sparql.text.tokens import tokens
from quadlog.errors import Unsupported, UserError

if TYPE_CHECKING:
    import re

    from pyoxigraph import NamedNode

    from quadlog.core.sparql.text.terms import Names


def refuse_reserved_names(text: str, names: Names) -> None:
    """Refuse a text with an IRI, in any spelling, of a reserved graph.

    Raises:
        Forbidden: an IRI names a reserved graph.
        Unsupported: a prefixed name cannot be resolved, for example because its prefix is not known here.

    """
    for token in tokens(text):
        if token.lastgroup not in {"iri", "pname"}:
            continue
        if name := _meant(token, names):
            refuse_reserved(name)


def _meant(token: re.Match[str], names: Names) -> NamedNode | None:
    """Return the IRI of a token; None if the token is no IRI but two operators and the text between them."""
    try:
        return names.iri(token["iri"]) if token["iri"] else names.prefixed(token["pname"])
    except (SyntaxError, ValueError) as error:
        if token["iri"]:  # pyoxigraph accepts no such IRI: it parsed the text otherwise, or will refuse it
            return None
        raise Unsupported(f"not understood: {token['pname']!r}: {error}") from None


def names_of_query(text: str) -> Names:
    """Return the names that the prologue of a query declares.  pyoxigraph has accepted the query.

    Raises:
        Unsupported: the prologue is not understood here.

    """
    prologue = Prologue()
    try:
        prologue.read(TextReader(text))
    except (UserError, SyntaxError, ValueError) as error:
        raise Unsupported(f"the prologue is not understood: {error}") from None
    return prologue.names
