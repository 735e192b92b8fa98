"""The net of a batch of changes as one SPARQL update, the only atomic unit of the store.

Quads without blank nodes become DELETE DATA and INSERT DATA, built from their lines.  INSERT DATA would
rename blank nodes and DELETE DATA refuses them, so a custom function returns those quads by index:

    DELETE { ?ds ?p ?o } INSERT { … } WHERE { … VALUES ?k { 0 1 } BIND(<triple>(?k) AS ?t) … }

This operation is the first one, because pyoxigraph then needs no readable transaction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadlog.core.effects.lines import graph_of, quads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from quadlog.core.effects.lines import Lines

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple

_TRIPLE = NamedNode("urn:quadlog:function:triple")
_GRAPH = NamedNode("urn:quadlog:function:graph")

_IRI = r'<[^<>"{}|^`\\\x00-\x20]*+>'
_PLAIN: Final = re.compile(
    rf"""
    ({_IRI}\ {_IRI}\ (?:{_IRI}
        |"(?:[^"\\\r\n]++|\\[tbnrf"'\\])*+"(?:\^\^{_IRI}|@[a-z]++(?:-[a-z0-9]++)*+)?))
    (?:\ ({_IRI}))?\ \.
    """,
    re.VERBOSE,
)
"""An N-Quads line that means the same in SPARQL: its triple, and its graph if that has a name.

Any other line is passed as terms: nothing that is written in it can be read as SPARQL.
"""


@dataclass(frozen=True, slots=True)
class NetChange:
    """The final state of every quad and every named graph that a batch changes, by their lines."""

    quads: Mapping[str, bool]
    """True if the quad exists."""
    graphs: Mapping[str, bool]
    """True if the graph exists even if it is empty."""

    @property
    def is_one_update(self) -> bool:
        """True if one update can make this change: it is not large, and drops no graph that text cannot name."""
        return len(self.quads) <= WHOLE and not any(map(_is_unnamed, self.graphs.items()))


def _is_unnamed(word: tuple[str, bool]) -> bool:
    """Return whether a graph named by a blank node is dropped; only seeds contain such graphs."""
    graph, there = word
    return not there and not graph.startswith("<")


def net_of(changes: Iterable[Lines]) -> NetChange:
    """Combine consecutive changes into one: a quad that was inserted and deleted is only deleted."""
    quads: dict[str, bool] = {}
    graphs: dict[str, bool] = {}
    for change in changes:
        if change.deleted:
            quads.update(dict.fromkeys(change.deleted, False))
        quads.update(dict.fromkeys(change.inserted, True))
        if change.filled or change.dropped or change.emptied:
            graphs.update(dict.fromkeys((*change.filled, *change.dropped), False))
            graphs.update(dict.fromkeys(change.emptied, True))
    return NetChange(quads, graphs)


WHOLE: Final = 50_000
"""Maximum quads that one update changes: each of them takes some 1.5 KB of memory."""
PIECE: Final = 20_000
"""Quads in each of the updates that make a larger change."""


def in_pieces(net: NetChange) -> Iterator[UpdateText]:
    """Yield updates that together make one change; all of them can be repeated, starting with the first one.

    Graphs come first: a graph that is dropped here and has new quads is created again by those.
    """
    yield UpdateText.of(NetChange({}, net.graphs))
    words = iter(net.quads.items())
    while quads := dict(islice(words, PIECE)):
        yield UpdateText.of(NetChange(quads, {}))


class UpdateTexts(NamedTuple):
    """The updates that make a change."""

    whole: UpdateText
    """The whole change, or nothing of it if it is made in pieces; more operations may be added."""
    pieces: Iterator[UpdateText] | None
    """The pieces of a large change."""
    lines: int
    """Number of lines that are inserted or deleted."""

    @staticmethod
    def of(net: NetChange) -> UpdateTexts:
        """Return one update, or pieces if one update cannot make the change."""
        if net.is_one_update:
            return UpdateTexts(UpdateText.of(net), None, len(net.quads))
        return UpdateTexts(UpdateText(), in_pieces(net), len(net.quads))


@dataclass(slots=True, kw_only=True)
class UpdateText:
    """Builder of one update, which first deletes quads, then inserts quads, then changes graphs."""

    # Triples as text, by their graphs; "" is the default graph.
    deleted: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    inserted: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    operations: list[str] = field(default_factory=list[str])
    # Quads that text cannot name; True: the quad is inserted, False: deleted.
    exact: list[tuple[Quad, bool]] = field(default_factory=list[tuple[Quad, bool]])
    unnamed: list[BlankNode] = field(default_factory=list[BlankNode])
    """Graphs to drop that no text can name: the code that executes the update drops them."""

    @classmethod
    def of(cls, net: NetChange) -> UpdateText:
        """Return the update that makes exactly this net."""
        update = cls()
        deleted, inserted = update.deleted, update.inserted
        other: list[str] = []
        for line, there in net.quads.items():
            if plain := _PLAIN.fullmatch(line):
                triple, graph = plain.groups("")
                (inserted if there else deleted).setdefault(graph, []).append(triple)
            else:
                other.append(line)
        update.exact = [(quad, net.quads[line]) for line, quad in zip(other, quads_of(other), strict=True)]
        # An insertion creates its graph; any other graph that must not exist while empty is dropped.
        if net.graphs:
            filled = inserted.keys() | {str(quad.graph_name) for quad, there in update.exact if there}
            update._graphs(net.graphs, filled)
        return update

    def _graphs(self, graphs: Mapping[str, bool], filled: set[str]) -> None:
        for graph in (graph for graph, empty in graphs.items() if empty):
            if graph.startswith("<"):
                self.operations.append(f"CREATE SILENT GRAPH {graph}")
            else:
                # No text names this graph.  If it lost its last quad, it remains in the store; if its quads were
                # inserted and deleted within the batch, a quad that is deleted again creates it.
                marker = f"{_GRAPH} {_GRAPH} {_GRAPH}"
                named = f"BIND({_GRAPH}({len(self.exact)}) AS ?n)"
                self.exact.append((Quad(_GRAPH, _GRAPH, _GRAPH, graph_of(graph)), True))
                self.operations.append(f"DELETE {{ GRAPH ?n {{ {marker} }} }} WHERE {{ {named} }}")
        for graph in (graph for graph, empty in graphs.items() if not empty and graph not in filled):
            if graph.startswith("<"):
                self.operations.append(f"DROP SILENT GRAPH {graph}")
            else:
                self.unnamed.append(BlankNode(graph.removeprefix("_:")))

    def text(self) -> str:
        """Return the text of the whole update."""
        exact = [_exact_operation(self.exact)] if self.exact else []
        data = [
            f"{verb} DATA {{ {' '.join(map(_block, graphs, graphs.values()))} }}"
            for verb, graphs in (("DELETE", self.deleted), ("INSERT", self.inserted))
            if graphs
        ]
        return " ;\n".join((*exact, *data, *self.operations))

    def functions(self) -> dict[NamedNode, Callable[..., Term | None]]:
        """Return the custom functions that the text calls."""
        triples = [quad.triple for quad, _ in self.exact]
        graphs = [quad.graph_name for quad, _ in self.exact]

        def triple(index: Literal) -> Triple:
            return triples[int(index.value)]

        def graph(index: Literal) -> NamedNode | BlankNode | None:
            name = graphs[int(index.value)]
            return None if isinstance(name, DefaultGraph) else name

        return {_TRIPLE: triple, _GRAPH: graph} if self.exact else {}


def _block(graph: str, triples: Sequence[str]) -> str:
    """Return the block of a graph's triples; `graph` is empty for the default graph."""
    block = " . ".join(triples)
    return f"GRAPH {graph} {{ {block} }}" if graph else f"{block} ."


def _exact_operation(quads: Sequence[tuple[Quad, bool]]) -> str:
    # One subject variable for each of the four kinds of change: a template with an unbound
    # subject has no effect.
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
