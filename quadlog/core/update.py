"""SPARQL update text, parsed to operations that say exactly what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.sparql.caution import is_tame
from quadlog.core.sparql.forms import FormParser
from quadlog.core.sparql.syntax import check_update
from quadlog.errors import UserError

if TYPE_CHECKING:
    from quadlog.core.operations import Operation
    from quadlog.core.using import Using


def parse_update(text: str, *, tx_id: bytes, using: Using | None = None) -> tuple[Operation, ...]:
    """The operations of an update, as a function of text, dataset and transaction id alone.

    Terms are as oxigraph stores them, and blank nodes get labels derived from the id.

    >>> parse_update("INSERT DATA { <urn:s> a 01 }", tx_id=b"1")[0].quads[0].object.value
    '1'

    Raises:
        SyntaxRefused: not SPARQL; with line and column.
        UserError: it names a dataset, and has got one already.
        Unsupported: SPARQL, but not (wholly) understood.
        Forbidden: it names a reserved graph.
    """
    try:
        operations = tuple(FormParser(text, tx_id, using).operations())
    except UserError:
        # The authority has the better message and the last word on what is SPARQL, unless the
        # text could crash it.
        if is_tame(text):
            check_update(text)
        raise
    check_update(text)
    return operations
