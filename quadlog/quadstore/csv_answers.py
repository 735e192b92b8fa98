"""Solutions as CSV (SPARQL 1.1 Query Results CSV), each cell quoted where RFC 4180 requires it.

pyoxigraph 0.5 quotes only literals: an IRI with a comma, or a triple term, became two columns.
"""

from __future__ import annotations

import csv
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyoxigraph import BlankNode, Triple

if TYPE_CHECKING:
    from pyoxigraph import QuerySolutions

    from quadlog.core.effects.template import Term
    from quadlog.quadstore.quadquery import QueryOutput

ROWS: Final = 100
"""Rows written at once: some kilobytes, without a wait for more where a query finds few."""


def write_csv(solutions: QuerySolutions, output: QueryOutput) -> None:
    """Write all solutions, `ROWS` at a time, without datatypes and language tags."""
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([variable.value for variable in solutions.variables])
    while rows := [[_cell(term) for term in solution] for solution in islice(solutions, ROWS)]:
        writer.writerows(rows)
        output.write(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    output.write(text.getvalue().encode())


def _cell(term: Term | None) -> str:
    if term is None:
        return ""
    if isinstance(term, BlankNode):
        return str(term)
    return f"<<( {term} )>>" if isinstance(term, Triple) else term.value
