"""Are two sets of quads the same but for the labels of their blank nodes?"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

import pyoxigraph as ox
import rdflib
from rdflib.compare import isomorphic as isomorphic_graphs

if TYPE_CHECKING:
    from collections.abc import Iterable

Node: TypeAlias = rdflib.BNode | rdflib.URIRef


def isomorphic(left: Iterable[ox.Quad], right: Iterable[ox.Quad]) -> bool:
    """Is there a renaming of blank nodes that makes one the other?

    Blank nodes that stand in one quad belong to one component. Each component has to have its own twin on the
    other side: which one does not matter, because twins of one are twins of each other. rdflib decides, by
    refining colours, whether two are twins (it takes very long over all of them at once where many are alike).
    """
    components, others = _components(left), _components(right)
    if components.keys() != others.keys():
        return False
    return all(_paired(components[looks], others[looks]) for looks in components)


def _paired(components: list[set[ox.Quad]], others: list[set[ox.Quad]]) -> bool:
    if len(components) != len(others):
        return False
    left_over = [_as_graph(other) for other in others]
    for component in components:
        graph = _as_graph(component)
        twin = next((n for n, other in enumerate(left_over) if isomorphic_graphs(graph, other)), None)
        if twin is None:
            return False
        del left_over[twin]
    return True


def _components(quads: Iterable[ox.Quad]) -> dict[tuple[str, ...], list[set[ox.Quad]]]:
    """Components by how they look without labels; the ground quads are one of them."""
    component_of: dict[str, set[ox.Quad]] = {}
    ground: set[ox.Quad] = set()
    for quad in quads:
        nodes = _blank_nodes(quad.subject, quad.object, quad.graph_name)
        joined = {quad}.union(*(component_of.get(node, ()) for node in nodes))
        for member in joined:
            for node in _blank_nodes(member.subject, member.object, member.graph_name):
                component_of[node] = joined
        if not nodes:
            ground.add(quad)
    by_looks: defaultdict[tuple[str, ...], list[set[ox.Quad]]] = defaultdict(list)
    for component in [ground, *{id(component): component for component in component_of.values()}.values()]:
        by_looks[tuple(sorted(re.sub(r"_:\w+", "_:", str(quad)) for quad in component))].append(component)
    return by_looks


def _blank_nodes(*terms: object) -> set[str]:
    found: set[str] = set()
    for term in terms:
        if isinstance(term, ox.BlankNode):
            found.add(str(term))
        elif isinstance(term, ox.Triple):
            found |= _blank_nodes(term.subject, term.object)
    return found


def _as_graph(quads: Iterable[ox.Quad]) -> rdflib.Graph:
    """A graph that is isomorphic to another one exactly if the quads are.

    Every ground term is an IRI made of its N-Triples form (rdflib knows neither triple terms nor every literal
    as written), a graph's name is part of the predicate, and a triple term is a blank node with three parts.
    """
    graph = rdflib.Graph()

    def node(term: object) -> Node:
        if isinstance(term, ox.BlankNode):
            return rdflib.BNode(term.value)
        if not _blank_nodes(term):
            return _iri("term", term)
        inner = rdflib.BNode(f"triple {term}")
        for name in ("subject", "predicate", "object"):
            graph.add((inner, rdflib.URIRef(f"urn:{name}"), node(getattr(term, name))))
        return inner

    for quad in quads:
        if isinstance(quad.graph_name, ox.BlankNode):
            message = f"a blank node as a graph's name: {quad}"
            raise TypeError(message)
        graph.add(
            (node(quad.subject), _iri("edge", f"{quad.predicate} {quad.graph_name}"), node(quad.object))
        )
    return graph


def _iri(kind: str, term: object) -> rdflib.URIRef:
    return rdflib.URIRef(f"urn:{kind}:{str(term).encode().hex()}")
