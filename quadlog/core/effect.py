"""What operations change, exactly, against a state that is only read.

A state is a set of quads and a set of *empty named graphs*: pyoxigraph keeps a named graph that
has lost its last quad.  A change says what leaves and what joins each of the two sets; nothing
that was so before is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, assert_never

from pyoxigraph import BlankNode, DefaultGraph, NamedNode

from quadlog.core import signature
from quadlog.core.update import DeleteData, InsertData

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyoxigraph import Quad

    from quadlog.core.update import Operation

NamedGraph: TypeAlias = NamedNode | BlankNode


class State(Protocol):
    """What computing an effect asks of a state."""

    def contains(self, quad: Quad) -> bool:
        """Whether the quad is there."""
        ...

    def has_graph(self, graph: NamedGraph) -> bool:
        """Whether the named graph exists, with quads or empty."""
        ...

    def quads_in(self, graph: NamedGraph) -> Iterator[Quad]:
        """Its quads, lazily: callers stop at the first that suits them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The exact difference between two states; each part sorted as N-Quads text.

    ``emptied`` joins the set of empty named graphs, ``filled`` leaves it.  A filled graph
    without an inserted quad is one that no longer exists.
    """

    deleted: tuple[Quad, ...] = ()
    inserted: tuple[Quad, ...] = ()
    emptied: tuple[NamedGraph, ...] = ()
    filled: tuple[NamedGraph, ...] = ()

    @property
    def growth(self) -> int:
        """By how many quads the state grows."""
        return len(self.inserted) - len(self.deleted)


def effect_of(operations: Iterable[Operation], state: State) -> Change:
    """The net change of the operations, one after the other, as pyoxigraph's ``update``."""
    # The last word on every quad, and the graphs that an insertion creates on its way.
    wanted: dict[Quad, bool] = {}
    created: set[NamedGraph] = set()
    for operation in operations:
        match operation:
            case InsertData():
                wanted.update(dict.fromkeys(operation.quads, True))
                created.update(_named_graphs(operation.quads))
            case DeleteData():
                wanted.update(dict.fromkeys(operation.quads, False))
            case _:
                assert_never(operation)
    changed = [q for q, there in wanted.items() if state.contains(q) is not there]
    deleted = {q for q in changed if not wanted[q]}
    inserted = {q for q in changed if wanted[q]}
    shrunk, grown = _named_graphs(deleted), _named_graphs(inserted)
    emptied = (
        graph
        for graph in (created | shrunk) - grown
        if all(q in deleted for q in state.quads_in(graph))
        and (graph in shrunk or not state.has_graph(graph))
    )
    filled = (
        graph for graph in grown if state.has_graph(graph) and next(state.quads_in(graph), None) is None
    )
    return Change(
        deleted=tuple(sorted(deleted, key=str)),
        inserted=tuple(sorted(inserted, key=str)),
        emptied=tuple(sorted(emptied, key=str)),
        filled=tuple(sorted(filled, key=str)),
    )


def signature_after(before: int, change: Change) -> int:
    """The signature of a state of signature ``before`` once the change is made."""
    after = signature.remove(before, map(signature.quad_line, change.deleted))
    after = signature.remove(after, map(signature.empty_graph_line, change.filled))
    after = signature.add(after, map(signature.quad_line, change.inserted))
    return signature.add(after, map(signature.empty_graph_line, change.emptied))


def _named_graphs(quads: Iterable[Quad]) -> set[NamedGraph]:
    graphs = {quad.graph_name for quad in quads}
    return {graph for graph in graphs if not isinstance(graph, DefaultGraph)}


class Overlay:
    """A state with changes laid over it that the state below does not show yet.

    Changes are pushed at the new end as they are computed and dropped at the old end once the
    base has them; each costs its own size.  Between the base's commit and ``drop`` both say
    the same, so the order of those two is free of gaps.
    """

    def __init__(self, base: State) -> None:
        """Nothing on top of ``base`` yet."""
        self._base = base
        self._changes: dict[int, Change] = {}
        # The last word on a quad or a graph, and the index of the change that has it.
        self._quads: dict[Quad, tuple[int, bool]] = {}
        self._graphs: dict[NamedGraph, tuple[int, bool]] = {}
        self._by_graph: dict[NamedGraph | DefaultGraph, dict[Quad, None]] = {}

    def __len__(self) -> int:
        """How many changes lie on the base."""
        return len(self._changes)

    def push(self, index: int, change: Change) -> None:
        """Lay the change of log entry ``index`` on top."""
        assert index > next(reversed(self._changes), -1), "changes come in the order of the log"
        self._changes[index] = change
        for quad in change.deleted:
            self._say(quad, index, there=False)
        for quad in change.inserted:
            self._say(quad, index, there=True)
        for graph, exists in _graph_words(change).items():
            self._graphs[graph] = (index, exists)

    def drop(self, index: int) -> None:
        """Forget the oldest change: the base has it now."""
        assert index == next(iter(self._changes)), "the oldest change goes first"
        change = self._changes.pop(index)
        for quad in (*change.deleted, *change.inserted):
            if self._quads[quad][0] == index:
                del self._quads[quad]
                siblings = self._by_graph[quad.graph_name]
                del siblings[quad]
                if not siblings:
                    del self._by_graph[quad.graph_name]
        for graph in _graph_words(change):
            if self._graphs[graph][0] == index:
                del self._graphs[graph]

    def contains(self, quad: Quad) -> bool:
        """As ``State``."""
        word = self._quads.get(quad)
        return self._base.contains(quad) if word is None else word[1]

    def has_graph(self, graph: NamedGraph) -> bool:
        """As ``State``."""
        word = self._graphs.get(graph)
        return self._base.has_graph(graph) if word is None else word[1]

    def quads_in(self, graph: NamedGraph) -> Iterator[Quad]:
        """As ``State``: what the changes say of this graph, then what the base adds."""
        words = self._by_graph.get(graph, {})
        yield from [quad for quad in words if self._quads[quad][1]]
        for quad in self._base.quads_in(graph):
            if quad not in words:
                yield quad

    def _say(self, quad: Quad, index: int, *, there: bool) -> None:
        self._quads[quad] = (index, there)
        self._by_graph.setdefault(quad.graph_name, {})[quad] = None


def _graph_words(change: Change) -> dict[NamedGraph, bool]:
    """Which named graphs exist after the change, as far as it says anything of them."""
    words = dict.fromkeys(change.filled, False)
    words.update(dict.fromkeys(_named_graphs(change.inserted), True))
    words.update(dict.fromkeys(change.emptied, True))
    return words
