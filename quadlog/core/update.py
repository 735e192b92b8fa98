"""SPARQL update text, parsed to operations that say exactly which quads they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from quadlog.core.sparql.quad_data import BlockParser
from quadlog.core.sparql.reader import Reader
from quadlog.core.sparql.syntax import check_update
from quadlog.core.sparql.terms import BlankNodes, Literals, Names
from quadlog.core.sparql.tokens import is_tame, place
from quadlog.errors import Unsupported, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyoxigraph import Quad


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertData:
    """``INSERT DATA``: these quads are there afterwards.  ``GRAPH <g> {}`` says nothing."""

    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteData:
    """``DELETE DATA``: these quads are gone afterwards; their graphs stay."""

    quads: tuple[Quad, ...]


Operation: TypeAlias = InsertData | DeleteData

_OTHER_FORMS = {
    "INSERT": "INSERT … WHERE",
    "DELETE": "DELETE … WHERE",
    "WITH": "WITH … DELETE/INSERT … WHERE",
} | {name: name for name in ("LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY")}


def parse_update(text: str, *, tx_id: bytes) -> tuple[Operation, ...]:
    """The operations of an update, as a function of text and transaction id alone.

    Quads are as oxigraph stores them, and blank nodes get labels derived from the id.

    >>> parse_update("INSERT DATA { <urn:s> a 01 }", tx_id=b"1")[0].quads[0].object.value
    '1'

    Raises:
        SyntaxRefused: not SPARQL; with line and column.
        Unsupported: SPARQL, but not (wholly) understood.
        Forbidden: it names a reserved graph.
    """
    try:
        operations = tuple(_operations(text, tx_id))
    except UserError:
        # The authority has the better message and the last word on what is SPARQL, unless the
        # text could crash it.
        if is_tame(text):
            check_update(text)
        raise
    check_update(text)
    return operations


def _operations(text: str, tx_id: bytes) -> Iterator[Operation]:
    reader, names, literals = Reader(text), Names(), Literals()
    number = 0
    while True:
        _prologue(reader, names)
        if reader.kind == "end":
            return
        form = reader.word()
        if form not in _OTHER_FORMS:
            reader.lost("where an operation was expected")
        start = reader.start
        reader.advance()
        if reader.word() != "DATA" or form not in {"INSERT", "DELETE"}:
            _unsupported(_OTHER_FORMS[form], place(text, start))
        reader.advance()
        if form == "INSERT":
            nodes = BlankNodes(tx_id, number)
            yield InsertData(quads=BlockParser(reader, names, literals, nodes).block())
        else:
            yield DeleteData(quads=BlockParser(reader, names, literals, None).block())
        number += 1
        if not reader.take(";"):
            if reader.kind != "end":
                reader.lost("where ; or the end was expected")
            return


def _unsupported(form: str, where: str) -> NoReturn:
    raise Unsupported(
        f"{form} ({where}) is not supported yet: only INSERT DATA and DELETE DATA are, "
        "also several with ; between them"
    )


def _prologue(reader: Reader, names: Names) -> None:
    """PREFIX, BASE and VERSION declarations, any number and any order."""
    while (keyword := reader.word()) in {"PREFIX", "BASE", "VERSION"}:
        reader.advance()
        prefix = ""
        if keyword == "PREFIX":
            prefix = reader.value
            if reader.kind != "pname" or not prefix.endswith(":"):
                reader.lost("where a prefix was expected")
            reader.advance()
        if reader.kind != ("string" if keyword == "VERSION" else "iri"):
            reader.lost(f"after {keyword}")
        try:
            if keyword == "PREFIX":
                names.set_prefix(prefix, reader.value)
            elif keyword == "BASE":
                names.set_base(reader.value)
        except (SyntaxError, ValueError) as error:
            reader.wrong(str(error))
        reader.advance()
