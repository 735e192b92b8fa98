"""Exact changes that operations make to a state; the state itself is only read.

A state is a set of quads and a set of *empty named graphs*: pyoxigraph keeps a named graph that
has lost its last quad.  A change contains what leaves and what joins each of the two sets, and which
graphs with quads cease to exist; it contains nothing that was already so before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, assert_never

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from quadlog.core.sparql.operations import (
    Clear,
    Create,
    DeleteData,
    DeletePattern,
    Drop,
    Every,
    InsertData,
    Send,
    Transfer,
)
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from quadlog.core.sparql.operations import DataOperation, GraphOperation, Target

NamedGraph: TypeAlias = NamedNode | BlankNode
T = TypeVar("T", bound=Quad | NamedGraph)


class State(Protocol):
    """Operations on a state that the computation of effects needs."""

    def contains(self, quad: Quad) -> bool:
        """Return whether the state contains the quad."""
        ...

    def has_graph(self, graph: NamedGraph) -> bool:
        """Return whether the named graph exists, with quads or empty."""
        ...

    def quads_in(self, graph: NamedGraph | DefaultGraph) -> Iterator[Quad]:
        """Yield the quads of a graph, lazily: callers stop at the first one that they need."""
        ...

    def fitting(self, pattern: DeletePattern) -> Iterator[Quad]:
        """Yield the quads that match a pattern, in graphs of clients."""
        ...

    def graphs(self) -> Iterator[NamedGraph]:
        """Yield all named graphs, with quads or empty."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The exact difference between two states; each part is sorted by its N-Quads text.

    ``emptied`` graphs join the set of empty named graphs, ``filled`` graphs leave it.  A filled graph
    without an inserted quad no longer exists.  ``dropped`` graphs had quads and no longer exist.
    """

    deleted: tuple[Quad, ...] = ()
    inserted: tuple[Quad, ...] = ()
    emptied: tuple[NamedGraph, ...] = ()
    filled: tuple[NamedGraph, ...] = ()
    dropped: tuple[NamedGraph, ...] = ()

    @property
    def growth(self) -> int:
        """Number of quads by which the state grows."""
        return len(self.inserted) - len(self.deleted)


def effect_of(operations: Iterable[DataOperation], state: State) -> Change:
    """Return the net change of the operations, one after the other, as by pyoxigraph's ``update``."""
    # Whether each quad exists in the end, and the graphs that an insertion creates on the way.
    wanted: dict[Quad, bool] = {}
    created: set[NamedGraph] = set()
    for operation in operations:
        match operation:
            case InsertData():
                wanted.update(dict.fromkeys(operation.quads, True))
                created.update(named_graphs(operation.quads))
            case DeleteData():
                wanted.update(dict.fromkeys(operation.quads, False))
            case DeletePattern():
                fitting = [q for q, there in wanted.items() if there and operation.fits(q)]
                wanted.update(dict.fromkeys(fitting, False))
                wanted.update(dict.fromkeys(state.fitting(operation), False))
            case _:
                assert_never(operation)
    changed = [q for q, there in wanted.items() if state.contains(q) is not there]
    deleted = [q for q in changed if not wanted[q]]
    inserted = [q for q in changed if wanted[q]]
    shrunk, grown = named_graphs(deleted), named_graphs(inserted)
    if not (created or shrunk or grown):
        return Change(deleted=_in_order(deleted), inserted=_in_order(inserted))
    gone = set(deleted)
    emptied = (
        graph
        for graph in (created | shrunk) - grown
        if all(q in gone for q in state.quads_in(graph)) and (graph in shrunk or not state.has_graph(graph))
    )
    filled = (
        graph for graph in grown if state.has_graph(graph) and next(state.quads_in(graph), None) is None
    )
    return Change(
        deleted=_in_order(deleted),
        inserted=_in_order(inserted),
        emptied=_in_order(emptied),
        filled=_in_order(filled),
    )


def effect_of_load(graph: NamedNode | DefaultGraph, quads: Sequence[Quad], state: State) -> Change:
    """Return the change of LOAD INTO ``graph`` of a document with ``quads``; it creates the graph in any case."""
    if quads or isinstance(graph, DefaultGraph) or state.has_graph(graph):
        return effect_of([InsertData(quads=tuple(quads))], state)
    return Change(emptied=(graph,))


def effect_on_graphs(operation: GraphOperation, state: State) -> Change:
    """Return the change of an operation on whole graphs.

    Raises:
        UserError: pyoxigraph's ``update`` fails in this case.

    """
    match operation:
        case Create():
            if not state.has_graph(operation.graph):
                return Change(emptied=(operation.graph,))
            if operation.silent:
                return Change()
            raise UserError(f"CREATE: the graph {operation.graph} already exists")
        case Send():
            return _sent(operation, state)
        case Clear() | Drop():
            graphs = list(_meant(operation, state))
        case _:
            assert_never(operation)
    quads = {graph: list(state.quads_in(graph)) for graph in graphs}
    named = [graph for graph in graphs if not isinstance(graph, DefaultGraph)]
    full = _in_order(graph for graph in named if quads[graph])
    deleted = _in_order(quad for of_graph in quads.values() for quad in of_graph)
    if isinstance(operation, Clear):
        return Change(deleted=deleted, emptied=full)
    return Change(
        deleted=deleted, filled=_in_order(graph for graph in named if not quads[graph]), dropped=full
    )


def _sent(operation: Send, state: State) -> Change:
    """Return the change of ADD, COPY or MOVE.

    As in pyoxigraph, nothing changes from a graph to itself, and only MOVE fails if its source does not exist.
    """
    source, target, transfer = operation.source, operation.target, operation.transfer
    if source == target:
        return Change()
    missing = isinstance(source, NamedNode) and not state.has_graph(source)
    if missing and transfer is Transfer.MOVE and not operation.silent:
        raise UserError(f"MOVE: the graph {source} does not exist")
    sent = list(state.quads_in(source))
    there = {Quad(quad.subject, quad.predicate, quad.object, target) for quad in sent}
    if transfer is Transfer.ADD:
        return effect_of([InsertData(quads=tuple(there))], state)
    had = set(state.quads_in(target))
    # Each graph with whether it had quads before, and whether it exists afterwards.
    graphs: list[tuple[NamedNode | DefaultGraph, bool, bool]] = [(target, bool(had), bool(there))]
    gone = had - there
    if transfer is Transfer.MOVE:
        graphs.append((source, bool(sent), False))
        gone.update(sent)
    named = [(graph, full, stays) for graph, full, stays in graphs if isinstance(graph, NamedNode)]
    return Change(
        deleted=_in_order(gone),
        inserted=_in_order(there - had),
        filled=_in_order(graph for graph, full, _ in named if not full and state.has_graph(graph)),
        dropped=_in_order(graph for graph, full, stays in named if full and not stays),
    )


def _meant(operation: Clear | Drop, state: State) -> Iterator[NamedGraph | DefaultGraph]:
    """Yield the graphs that CLEAR or DROP names."""
    target: Target = operation.target
    if isinstance(target, NamedNode):
        if state.has_graph(target):
            yield target
        elif not operation.silent:
            raise UserError(f"{type(operation).__name__.upper()}: the graph {target} does not exist")
        return
    if target != Every.NAMED:
        yield DefaultGraph()
    if isinstance(target, Every):
        yield from state.graphs()


def merged(changes: Sequence[Change]) -> Change:
    """Return consecutive changes as one: exactly the difference between the first and the last state."""
    if len(changes) == 1:
        return changes[0]
    # Whether each quad exists before the first change that names it, and after the last one.
    quads: dict[Quad, tuple[bool, bool]] = {}
    # Whether each graph was empty before the first change that touches it, and what it is after the last one.
    empty_before: dict[NamedGraph, bool] = {}
    words: dict[NamedGraph, str] = {}
    for change in changes:
        for quad in change.deleted:
            quads[quad] = (quads.get(quad, (True, True))[0], False)
        for quad in change.inserted:
            quads[quad] = (quads.get(quad, (False, False))[0], True)
        for graph, word in _words_of(change).items():
            empty_before.setdefault(graph, graph in change.filled)
            words[graph] = word
    deleted = {quad for quad, (before, after) in quads.items() if before and not after}
    lost = named_graphs(deleted)
    return Change(
        deleted=_in_order(deleted),
        inserted=_in_order(quad for quad, (before, after) in quads.items() if after and not before),
        emptied=_in_order(g for g, word in words.items() if word == "empty" and not empty_before[g]),
        filled=_in_order(g for g, word in words.items() if word != "empty" and empty_before[g]),
        dropped=_in_order(
            g for g, word in words.items() if word == "gone" and not empty_before[g] and g in lost
        ),
    )


def _words_of(change: Change) -> dict[NamedGraph, str]:
    """Return what every named graph that a change touches is after the change: full, empty or gone."""
    words = dict.fromkeys(change.filled, "gone")
    words.update(dict.fromkeys(named_graphs((*change.deleted, *change.inserted)), "full"))
    words.update(dict.fromkeys(change.dropped, "gone"))
    words.update(dict.fromkeys(change.emptied, "empty"))
    return words


def named_graphs(quads: Iterable[Quad]) -> set[NamedGraph]:
    """Return the named graphs that contain these quads."""
    graphs = {quad.graph_name for quad in quads}
    return {graph for graph in graphs if not isinstance(graph, DefaultGraph)}


def graph_words(change: Change) -> dict[NamedGraph, bool]:
    """Return for each named graph that the change determines whether it exists after the change."""
    words: dict[NamedGraph, bool] = {}
    if change.filled or change.dropped:
        words.update(dict.fromkeys((*change.filled, *change.dropped), False))
    words.update(dict.fromkeys(named_graphs(change.inserted), True))
    if change.emptied:
        words.update(dict.fromkeys(change.emptied, True))
    return words


def _in_order(things: Iterable[T]) -> tuple[T, ...]:
    return tuple(sorted(things, key=str))
