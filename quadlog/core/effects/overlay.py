"""A state that is ahead of the base on which it is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.effects.effect import graph_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyoxigraph import DefaultGraph, Quad

    from quadlog.core.effects.effect import Change, NamedGraph, State
    from quadlog.core.sparql.operations import DeletePattern


class Overlay:
    """A base state with changes on top that the base does not contain yet.

    Changes are pushed at the new end as they are computed and dropped at the old end once the
    base has them; the cost of each is proportional to its own size.  Between the base's commit and
    ``drop`` both contain the change, so that order leaves no gap.
    """

    def __init__(self, base: State) -> None:
        self._base = base
        self._changes: dict[int, Change] = {}
        # Index of the last change that names a quad or a graph, and whether it exists after that change.
        self._quads: dict[Quad, tuple[int, bool]] = {}
        self._graphs: dict[NamedGraph, tuple[int, bool]] = {}
        self._by_graph: dict[NamedGraph | DefaultGraph, dict[Quad, None]] = {}

    def __len__(self) -> int:
        """Return the number of changes on top of the base."""
        return len(self._changes)

    def push(self, index: int, change: Change) -> None:
        """Add the change of log entry ``index`` on top."""
        assert index > next(reversed(self._changes), -1), "changes come in the order of the log"
        self._changes[index] = change
        for quad in change.deleted:
            self._say(quad, index, there=False)
        for quad in change.inserted:
            self._say(quad, index, there=True)
        for graph, exists in graph_words(change).items():
            self._graphs[graph] = (index, exists)

    def drop(self, index: int) -> None:
        """Drop the oldest change, which the base has now."""
        assert index == next(iter(self._changes)), "the oldest change goes first"
        change = self._changes.pop(index)
        for quad in (*change.deleted, *change.inserted):
            if self._quads[quad][0] == index:
                del self._quads[quad]
                siblings = self._by_graph[quad.graph_name]
                del siblings[quad]
                if not siblings:
                    del self._by_graph[quad.graph_name]
        for graph in graph_words(change):
            if self._graphs[graph][0] == index:
                del self._graphs[graph]

    def contains(self, quad: Quad) -> bool:
        """See ``State.contains``."""
        word = self._quads.get(quad)
        return self._base.contains(quad) if word is None else word[1]

    def has_graph(self, graph: NamedGraph) -> bool:
        """See ``State.has_graph``."""
        word = self._graphs.get(graph)
        return self._base.has_graph(graph) if word is None else word[1]

    def graphs(self) -> Iterator[NamedGraph]:
        """See ``State.graphs``."""
        yield from [graph for graph, (_, exists) in self._graphs.items() if exists]
        for graph in self._base.graphs():
            if graph not in self._graphs:
                yield graph

    def quads_in(self, graph: NamedGraph | DefaultGraph) -> Iterator[Quad]:
        """See ``State.quads_in``: yields first the quads of the changes, then the other quads of the base."""
        words = self._by_graph.get(graph, {})
        for quad in words:
            if self._quads[quad][1]:
                yield quad
        for quad in self._base.quads_in(graph):
            if quad not in words:
                yield quad

    def fitting(self, pattern: DeletePattern) -> Iterator[Quad]:
        """See ``State.fitting``."""
        words = self._quads if pattern.graph is None else self._by_graph.get(pattern.graph, {})
        for quad in words:
            if self._quads[quad][1] and pattern.fits(quad):
                yield quad
        for quad in self._base.fitting(pattern):
            if quad not in self._quads:
                yield quad

    def _say(self, quad: Quad, index: int, *, there: bool) -> None:
        self._quads[quad] = (index, there)
        self._by_graph.setdefault(quad.graph_name, {})[quad] = None
