"""Queries on a store that has one graph which clients must not see.

``GRAPH ?g {…}`` is the only pattern that reaches a graph that the query does not name, so exactly
these patterns get a filter.  A filter costs 5 µs, whereas passing the list of the other graphs to
pyoxigraph costs 8 ms at 10,000 graphs.  The list is the fallback where a filter is not sufficient.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadlog.core.sparql.text.tokens import tokens

if TYPE_CHECKING:
    from pyoxigraph import Store

Graph: TypeAlias = NamedNode | BlankNode | DefaultGraph
Named: TypeAlias = list[NamedNode | BlankNode] | None

_GRAPH_VARIABLE = re.compile(r"(?i)graph(?=(?:[ \t\r\n]++|#[^\r\n]*+)*+[?$])")
_BLINDING = ("SELECT", "AS", "VALUES")  # pyoxigraph requires no space before them


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """``default-graph-uri`` and ``named-graph-uri``: if any is given, only these graphs are visible."""

    default: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


def hidden(
    store: Store, text: str, dataset: Dataset | None, reserved: NamedNode
) -> tuple[str, list[Graph] | None, Named]:
    """Return the query to run, and the default and named graphs to run it on if the text does not define them."""
    if dataset is not None and (dataset.default or dataset.named):
        named = [NamedNode(iri) for iri in dataset.named if iri != reserved.value]
        default = [NamedNode(iri) for iri in dataset.default if iri != reserved.value]
        return text, list(default), list(named)
    if "GRAPH" not in text.upper() or _GRAPH_VARIABLE.search(text) is None:
        return text, None, None
    filtered = hide(text, reserved)
    if filtered is not None:
        return filtered, None, None
    if any((token["word"] or "").upper() == "FROM" for token in tokens(text)):
        return text, None, None  # only graphs that the text names are visible
    return text, None, [graph for graph in store.named_graphs() if graph != reserved]


def seen_by(store: Store, text: str, *, reserved: NamedNode) -> tuple[str, Named]:
    """Return a query that does not see ``reserved``, and the named graphs to run it on; None: all.

    Only for the writing thread: the list and the query then refer to the same state.
    """
    seen, _, named = hidden(store, text, None, reserved)
    return seen, named


def hide(text: str, reserved: NamedNode) -> str | None:
    """Return the query with a filter for each ``GRAPH ?variable {…}``; None if that is not sufficient.

    It is not sufficient if a sub-select inside may count quads of the reserved graph before a
    filter sees them (pyoxigraph evaluates it over all graphs at once), or if AS or VALUES may
    bind the variable to something else.

    >>> hide("SELECT * { GRAPH ?g { ?s ?p ?o } }", NamedNode("urn:r"))
    'SELECT * { { GRAPH ?g { ?s ?p ?o } FILTER(COALESCE(?g != <urn:r>, true)) } }'
    """
    pieces: list[str] = []
    # For each open bracket the variable of its GRAPH ?variable, or "" if it has none.
    opened: list[str] = []
    done = start = seen = 0
    before = variable = ""
    for token in tokens(text):
        kind = token.lastgroup or ""
        value = token[kind]
        if kind == "var" and before == "GRAPH":
            variable = value
            seen += 1
            pieces += (text[done:start], "{ ")
            done = start
        elif kind == "mark" and value == "{":
            opened.append(variable)
            variable = ""
        elif kind == "mark" and value == "}" and opened and (closed := opened.pop()):
            # COALESCE: pyoxigraph leaves ?g unbound if the block reads no quad.
            visible = f" FILTER(COALESCE({closed} != {reserved}, true)) }}"
            pieces += (text[done : token.end()], visible)
            done = token.end()
        before = value.upper() if kind == "word" else ""
        if before == "GRAPH":
            start = token.start("word")
        elif before.endswith(_BLINDING) and any(opened):
            return None
    whole = seen == len(_GRAPH_VARIABLE.findall(text))
    return "".join((*pieces, text[done:])) if whole else None
