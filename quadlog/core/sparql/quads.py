"""Fast creation of many quads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoxigraph import DefaultGraph, Quad

if TYPE_CHECKING:
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple


def quad_of(
    subject: NamedNode | BlankNode | Triple,
    predicate: NamedNode,
    value: NamedNode | BlankNode | Literal | Triple,
    graph: NamedNode | BlankNode | DefaultGraph,
) -> Quad:
    """Return a quad.  pyoxigraph tries the types of graphs in turn: omitting the default graph saves 1.4 us."""
    if isinstance(graph, DefaultGraph):
        return Quad(subject, predicate, value)
    return Quad(subject, predicate, value, graph)
