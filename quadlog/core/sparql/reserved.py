"""Names that a text must not say, because they are a worker's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.sparql.prologue import Prologue
from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.reader import Reader
from quadlog.core.sparql.tokens import tokens
from quadlog.errors import UserError

if TYPE_CHECKING:
    from quadlog.core.sparql.terms import Names


def refuse_reserved_names(text: str, names: Names) -> None:
    """Raise ``Forbidden`` if an IRI of the text, in whatever spelling, names a reserved graph."""
    for token in tokens(text):
        if token.lastgroup not in {"iri", "pname"}:
            continue
        try:
            name = names.iri(token["iri"]) if token["iri"] else names.prefixed(token["pname"])
        except (SyntaxError, ValueError):
            continue  # pyoxigraph says what is wrong with it
        refuse_reserved(name)


def names_of_query(text: str, base_iri: str | None) -> Names:
    """What the prologue of a query declares, as far as it can be read."""
    prologue = Prologue()
    try:
        if base_iri is not None:
            prologue.names.set_base(f"<{base_iri}>")
        prologue.read(Reader(text))
    except (UserError, SyntaxError, ValueError):
        pass  # pyoxigraph says what is wrong with it
    return prologue.names
