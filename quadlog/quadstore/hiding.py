"""Queries on a store that has one graph which clients must not see.

``GRAPH ?g {…}`` is the only pattern that reaches a graph nobody named, so exactly these get a
filter beside them.  That costs 5 µs, where handing pyoxigraph the list of the other graphs costs
8 ms at 10,000 graphs.  The list is the fallback where a filter would not do.
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
_BLINDING = ("SELECT", "AS", "VALUES")  # pyoxigraph needs no blank before them


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """``default-graph-uri`` and ``named-graph-uri``: if any is given, only these are seen."""

    default: tuple[str, ...] = ()
    named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What a query may see."""

    dataset: Dataset | None
    reserved: NamedNode


def hidden(store: Store, text: str, view: View) -> tuple[str, list[Graph] | None, Named]:
    """The query to run, and the default and named graphs to run it on if the text does not say."""
    dataset, reserved = view.dataset, view.reserved
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
        return text, None, None  # only graphs that the text names can be seen
    return text, None, [graph for graph in store.named_graphs() if graph != reserved]


def seen_by(store: Store, text: str, *, reserved: NamedNode) -> tuple[str, Named]:
    """A query that does not see ``reserved``, and the named graphs to run it on; None: all.

    For the thread that alone writes: the list is of one state.
    """
    seen, _, named = hidden(store, text, View(None, reserved))
    return seen, named


def hide(text: str, reserved: NamedNode) -> str | None:
    """The same query with a filter beside each ``GRAPH ?variable {…}``; None if that will not do.

    It will not where a sub-select inside may count what is in the reserved graph before a
    filter sees it (pyoxigraph evaluates it over all graphs at once), nor where AS or VALUES may
    bind the variable to something else.

    >>> hide("SELECT * { GRAPH ?g { ?s ?p ?o } }", NamedNode("urn:r"))
    'SELECT * { { GRAPH ?g { ?s ?p ?o } FILTER(COALESCE(?g != <urn:r>, true)) } }'
    """
    pieces: list[str] = []
    # The variable of each open bracket that belongs to a GRAPH ?variable, "" for others.
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
            # COALESCE: pyoxigraph leaves ?g unbound where the block reads no quad.
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
