"""The net of a batch of changes as one SPARQL update: the store's only atomic unit.

Quads without blank nodes go as DELETE DATA and INSERT DATA.  INSERT DATA would rename blank
nodes and DELETE DATA refuses them, so those quads come out of a custom function, by index:

    DELETE { ?ds ?p ?o } INSERT { … } WHERE { … VALUES ?k { 0 1 } BIND(<triple>(?k) AS ?t) … }

This operation is the first one, because pyoxigraph then needs no readable transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quadlog.core.effect import Change, NamedGraph

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple

_TRIPLE = NamedNode("urn:quadlog:function:triple")
_GRAPH = NamedNode("urn:quadlog:function:graph")


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """The last word of a batch on every quad and every named graph."""

    quads: Mapping[Quad, bool]
    created: Sequence[NamedGraph] = ()
    dropped: Sequence[NamedGraph] = ()


def net_of(changes: Iterable[Change]) -> Net:
    """Consecutive changes as one: a quad that came and went is only deleted."""
    quads: dict[Quad, bool] = {}
    graphs: dict[NamedGraph, bool] = {}
    for change in changes:
        quads.update(dict.fromkeys(change.deleted, False))
        quads.update(dict.fromkeys(change.inserted, True))
        graphs.update(dict.fromkeys((*change.filled, *change.dropped), False))
        graphs.update(dict.fromkeys(change.emptied, True))
    return last_words(quads, graphs)


def last_words(quads: Mapping[Quad, bool], graphs: Mapping[NamedGraph, bool]) -> Net:
    """Quads that are to be there or not, and graphs that are to be there at least empty or not."""
    # An insertion creates its graph by itself; a graph that is not to be there otherwise is gone.
    inserted = {q.graph_name for q, there in quads.items() if there and graphs}
    return Net(
        quads=quads,
        created=[g for g, empty in graphs.items() if empty],
        dropped=[g for g, empty in graphs.items() if not empty and g not in inserted],
    )


@dataclass(slots=True, kw_only=True)
class UpdateText:
    """Collects one update; ``operations`` in the order in which they are carried out."""

    operations: list[str] = field(default_factory=list[str])
    # Quads that text cannot name, by what happens to them.
    exact: list[tuple[Quad, bool]] = field(default_factory=list[tuple[Quad, bool]])

    def add(self, net: Net) -> None:
        """Take in the net of a batch."""
        deleted: list[str] = []
        inserted: list[str] = []
        for quad, there in net.quads.items():
            triple = quad.triple
            graph = quad.graph_name
            text = str(triple)
            if isinstance(graph, BlankNode) or ("_:" in text and mentions_blank_node(triple)):
                self.exact.append((quad, there))
            elif isinstance(graph, DefaultGraph):
                (inserted if there else deleted).append(f"{text} .")
            else:
                (inserted if there else deleted).append(f"GRAPH {graph} {{ {text} }}")
        if deleted:
            self.operations.append(f"DELETE DATA {{ {' '.join(deleted)} }}")
        if inserted:
            self.operations.append(f"INSERT DATA {{ {' '.join(inserted)} }}")
        self._graphs(net)

    def _graphs(self, net: Net) -> None:
        for graph in net.created:
            if isinstance(graph, NamedNode):
                self.operations.append(f"CREATE SILENT GRAPH {graph}")
            else:
                # No text names it.  One that lost its last quad stays by itself; one that came
                # and went within the batch is made by a quad that is deleted again.
                marker = f"{_GRAPH} {_GRAPH} {_GRAPH}"
                named = f"BIND({_GRAPH}({len(self.exact)}) AS ?n)"
                self.exact.append((Quad(_GRAPH, _GRAPH, _GRAPH, graph), True))
                self.operations.append(f"DELETE {{ GRAPH ?n {{ {marker} }} }} WHERE {{ {named} }}")
        for graph in net.dropped:
            assert isinstance(graph, NamedNode), "SPARQL cannot drop a graph named by a blank node"
            self.operations.append(f"DROP SILENT GRAPH {graph}")

    def text(self) -> str:
        """The whole update."""
        exact = [_exact_operation(self.exact)] if self.exact else []
        return " ;\n".join((*exact, *self.operations))

    def functions(self) -> dict[NamedNode, Callable[..., Term | None]]:
        """The custom functions that the text calls."""
        triples = [quad.triple for quad, _ in self.exact]
        graphs = [quad.graph_name for quad, _ in self.exact]

        def triple(index: Literal) -> Triple:
            return triples[int(index.value)]

        def graph(index: Literal) -> NamedNode | BlankNode | None:
            name = graphs[int(index.value)]
            return None if isinstance(name, DefaultGraph) else name

        return {_TRIPLE: triple, _GRAPH: graph} if self.exact else {}


def mentions_blank_node(triple: Triple) -> bool:
    """Whether a blank node is in it, at any depth."""
    value = triple.object
    return (
        isinstance(triple.subject, BlankNode)
        or isinstance(value, BlankNode)
        or (isinstance(value, Triple) and mentions_blank_node(value))
    )


def _exact_operation(quads: Sequence[tuple[Quad, bool]]) -> str:
    # One subject variable for each of the four things that can happen: a template whose
    # subject is unbound does nothing.
    indexes: dict[str, list[str]] = {}
    for index, (quad, there) in enumerate(quads):
        kind = ("i" if there else "d") + ("" if isinstance(quad.graph_name, DefaultGraph) else "g")
        indexes.setdefault(kind, []).append(str(index))
    branches = [
        f"{{ VALUES ?k {{ {' '.join(of_kind)} }} BIND({_TRIPLE}(?k) AS ?t) "
        f"BIND(SUBJECT(?t) AS ?{kind}) "
        + (f"BIND({_GRAPH}(?k) AS ?{kind}n) }}" if kind.endswith("g") else "}")
        for kind, of_kind in indexes.items()
    ]
    templates = {
        kind: f"GRAPH ?{kind}n {{ ?{kind} ?p ?o }}" if kind.endswith("g") else f"?{kind} ?p ?o ."
        for kind in indexes
    }
    deletes = " ".join(t for kind, t in templates.items() if kind.startswith("d"))
    inserts = " ".join(t for kind, t in templates.items() if kind.startswith("i"))
    return (
        f"DELETE {{ {deletes} }} INSERT {{ {inserts} }} WHERE {{ {' UNION '.join(branches)} "
        "BIND(PREDICATE(?t) AS ?p) BIND(OBJECT(?t) AS ?o) }"
    )
