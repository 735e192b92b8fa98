"""Read access to a worker's store: by queries, quad by quad, and as a whole."""

from __future__ import annotations

import threading
import time
from typing import IO, TYPE_CHECKING, cast

from pyoxigraph import Literal, NamedNode, QueryResultsFormat, Store

from quadlog.core.effects import signature
from quadlog.damage import refuse_damage, told_of
from quadlog.errors import StateError, UserError
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.gate import Gate
from quadlog.quadstore.quaddir import FILES, reserved_graph
from quadlog.quadstore.quadquery import answer_of, prepared, solutions_of
from quadlog.quadstore.quadview import QuadView
from quadlog.quadstore.query_scope import hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

    from pyoxigraph import DefaultGraph, Quad, QuerySolutions

    from quadlog.core.effects.effect import NamedGraph
    from quadlog.core.effects.template import Row, Term
    from quadlog.core.sparql.operations import DeletePattern, Where
    from quadlog.quadstore.quadquery import Functions, QueryAnswer, QueryResult
    from quadlog.quadstore.quadview import Settle
    from quadlog.quadstore.query_scope import Dataset, Graph, Named

APPLIED = NamedNode("urn:quadlog:applied")
CONTROL = NamedNode("urn:quadlog:control")
_OWN = frozenset((APPLIED, CONTROL))
"""Predicates of the quads in the reserved graph that describe the store itself."""
# Lines in a chunk; iterating over quads holds the GIL, for some 5 ms per chunk.
_CHUNK = 5_000
# Attempts to list the graphs in the state that the query sees, before commits are locked out.
_LISTINGS = 3


def applied_in(store: Store, reserved: NamedNode) -> Applied | None:
    """Return the applied state that is recorded in a store; None: nothing is recorded yet.

    Raises:
        StateError: several states are recorded, or one that is no literal.

    """
    found = list(store.quads_for_pattern(reserved, APPLIED, None, reserved))
    match found:
        case []:
            return None
        case [quad] if isinstance(quad.object, Literal):
            return Applied.decode(quad.object.value)
        case _:
            raise StateError(f"{len(found)} applied states where there is one")


class _Nowhere:
    """Output that discards all bytes."""

    def write(self, piece: bytes, /) -> int:
        return len(piece)

    def flush(self) -> None:
        """Do nothing."""


class StoreReader:
    """Quads that can be read; a ``State`` of ``quadlog.core.effects.effect``.  Any number of threads may query."""

    def __init__(self, store: Store, reserved: NamedNode) -> None:
        """Read `store`, except for its reserved graph."""
        self._store = store
        self._reserved = reserved
        self._commits = threading.Lock()
        self.gate = Gate()
        """Gate that every read passes: closed while the store contains anticipated changes."""

    @classmethod
    def read_copy(cls, path: Path) -> StoreReader:
        """Open a copy that `QuadStore.copy` made, read-only."""
        store = Store.read_only(str(path / FILES))
        return StoreReader(store, reserved_graph(path, store))

    def said(self) -> Applied | None:
        """Return the applied state that is recorded in the store."""
        return applied_in(self._store, self._reserved)

    def solutions(self, where: Where, functions: Mapping[NamedNode, Callable[..., Term]]) -> Iterator[Row]:
        """Yield the solutions of an update's WHERE on the anticipated state; raise UserError if it fails."""
        return solutions_of(self._store, where, reserved=self._reserved, functions=functions)

    def visible(self, settle: Settle) -> QuadView:
        """Return the view for an entry's controls: with anticipated changes, without the reserved graph."""
        return QuadView(self._store, self._reserved, settle)

    def query(
        self,
        text: str,
        *,
        accept: str = "*/*",
        dataset: Dataset | None = None,
        triples: int | None = None,
    ) -> QueryAnswer:
        """Begin to answer a SPARQL query; updates raise Forbidden, syntax errors raise SyntaxRefused.

        The answer shows the state of this moment, however much later it is written.  One of more than ``triples``
        triples raises QueryStopped when it is written.
        """
        try:
            text, functions = prepared(text)
            with self.gate.reading():
                result = self._started(text, dataset, functions)
        except ValueError as error:
            raise UserError(f"bad request: {error}") from None
        except RuntimeError as error:
            refuse_damage(error)
            raise UserError(f"the query failed: {error}") from None
        return answer_of(result, accept, triples)

    def _started(self, text: str, dataset: Dataset | None, functions: Functions) -> QueryResult:
        """Start a query on graphs that were listed in the state that the query sees."""

        def begin(text: str, default: list[Graph] | None, named: Named) -> QueryResult:
            return self._store.query(
                text, default_graph=default, named_graphs=named, custom_functions=functions or None
            )

        seen = hidden(self._store, text, dataset, self._reserved)
        for _ in range(_LISTINGS):
            result = begin(*seen)
            again = seen if seen[2] is None else hidden(self._store, text, dataset, self._reserved)
            if again == seen:
                return result
            seen = again
        with self._commits:
            return begin(*hidden(self._store, text, dataset, self._reserved))

    def contains(self, quad: Quad) -> bool:
        """Return whether the quad is in the store."""
        return quad in self._store

    def has_graph(self, graph: NamedGraph) -> bool:
        """Return whether the named graph exists, with quads or empty."""
        return self._store.contains_named_graph(graph)

    def quads_in(self, graph: NamedGraph | DefaultGraph) -> Iterator[Quad]:
        """Yield the quads of a graph."""
        return self._store.quads_for_pattern(None, None, None, graph)

    def fitting(self, pattern: DeletePattern) -> Iterator[Quad]:
        """Yield the quads that match a pattern, except those of the reserved graph."""
        quads = self._store.quads_for_pattern(
            pattern.subject, pattern.predicate, pattern.object, pattern.graph
        )
        return (quad for quad in quads if quad.graph_name != self._reserved)

    def graphs(self) -> Iterator[NamedGraph]:
        """Yield all named graphs except the reserved one."""
        return (graph for graph in self._store.named_graphs() if graph != self._reserved)

    def lines(self) -> Iterator[str]:
        """Return the canonical line of every quad and every empty graph, as in the signature, as of this moment."""
        with self.gate.reading(), self._commits:
            quads = self._store.quads_for_pattern(None, None, None, None)
            empty = [graph for graph in self.graphs() if next(self.quads_in(graph), None) is None]
        return self._lines(quads, empty)

    def _lines(self, quads: Iterator[Quad], empty: list[NamedGraph]) -> Iterator[str]:
        for quad in quads:
            if quad.graph_name != self._reserved or quad.predicate not in _OWN:
                yield signature.quad_line(quad)
        yield from map(signature.empty_graph_line, empty)

    def dump(self) -> Generator[bytes]:
        """Return N-Quads in chunks, with comments that name the empty graphs, as of this moment; for one thread."""
        return _chunks(self.lines())

    def examine(self) -> None:
        """Read the quads in the two orders that queries use most, without their terms: seconds for a million.

        pyoxigraph loops forever if it meets a damaged block while it counts, sorts or filters: an examination that
        takes too long may have met one.

        Raises:
            StoreDamaged: some files are damaged.

        """
        with told_of():
            for pattern in ("?s ?p ?o", "GRAPH ?g { ?s ?p ?o }"):
                self._read(pattern)
                found = self._store.query(f"SELECT DISTINCT ?p {{ {pattern} }}")
                names = " ".join(str(row["p"]) for row in cast("QuerySolutions", found))
                self._read(f"VALUES ?p {{ {names} }} {pattern}")

    def _read(self, pattern: str) -> None:
        """Read all matches of a pattern, or up to the first error; the rows have no values."""
        rows = cast("QuerySolutions", self._store.query(f"SELECT ?none {{ {pattern} }}"))
        rows.serialize(cast("IO[bytes]", _Nowhere()), QueryResultsFormat.TSV)

    def recount(self, pause: Callable[[], object] = lambda: time.sleep(0)) -> tuple[int, int]:
        """Compute the signature and the number of quads from the stored quads, with a pause after each chunk."""
        count = signature.LineCount()
        for number, line in enumerate(self.lines()):
            count.add([line.encode()])
            if number % _CHUNK == 0:
                pause()
        return count.signature, count.quads


def _chunks(lines: Iterator[str]) -> Generator[bytes]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == _CHUNK:
            yield "\n".join((*chunk, "")).encode()
            chunk.clear()
    if chunk:
        yield "\n".join((*chunk, "")).encode()
