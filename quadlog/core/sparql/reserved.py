"""Names that a text must not say, because they are a worker's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.text.prologue import Prologue
from quadlog.core.sparql.text.reader import Reader
from quadlog.core.sparql.text.tokens import tokens
from quadlog.errors import Unsupported, UserError

if TYPE_CHECKING:
    import re

    from pyoxigraph import NamedNode

    from quadlog.core.sparql.text.terms import Names


def refuse_reserved_names(text: str, names: Names) -> None:
    """Refuse a text of which an IRI, in whatever spelling, names a reserved graph.

    Raises:
        Forbidden: one does.
        Unsupported: a prefix is not known here, so what its names mean cannot be told.

    """
    for token in tokens(text):
        if token.lastgroup not in {"iri", "pname"}:
            continue
        if name := _meant(token, names):
            refuse_reserved(name)


def _meant(token: re.Match[str], names: Names) -> NamedNode | None:
    """What a name stands for; None for two operators and what lies between them."""
    try:
        return names.iri(token["iri"]) if token["iri"] else names.prefixed(token["pname"])
    except (SyntaxError, ValueError) as error:
        if token["iri"]:  # pyoxigraph, which takes no such IRI, accepted the text or is yet to refuse it
            return None
        raise Unsupported(f"not understood: {token['pname']!r}: {error}") from None


def names_of_query(text: str, base_iri: str | None) -> Names:
    """What the prologue of a query declares, which pyoxigraph has accepted.

    Raises:
        Unsupported: it is not understood here.

    """
    prologue = Prologue()
    try:
        if base_iri is not None:
            prologue.names.set_base(f"<{base_iri}>")
        prologue.read(Reader(text))
    except (UserError, SyntaxError, ValueError) as error:
        raise Unsupported(f"the prologue is not understood: {error}") from None
    return prologue.names
