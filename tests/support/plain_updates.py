"""Evaluation of updates on a pyoxigraph store in memory, for the plain reader of splits (`plain_splits.py`).

An effect is the difference of all quads and empty graphs before and after: slow, and as SPARQL 1.1 Update defines it.
Refused with `Unknown`, because pyoxigraph alone cannot give what a worker gives: NOW, RAND and functions that make
new terms, new blank nodes, and a dataset in the request's parameters.  Controls are not evaluated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, Store, parse

from quadlog.core.records import Outcome
from tests.support.plain_histories import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.records import Effect, LoggedEntry

SPARQL: Final = "application/sparql-update"
PATCH: Final = "application/rdf-patch"

_SKIPPED: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"""|' + r"'''(?:[^'\\]|\\.|'(?!''))*'''|"
    r'"(?:[^"\\\n]|\\.)*"|' + r"'(?:[^'\\\n]|\\.)*'|"
    r'<[^<>"{}|^`\\\s]*>|#[^\n]*',
    re.DOTALL,
)
"""Strings, IRIs and comments, in which a word is no keyword."""
_WORD: Final = r"(?<![\w:?$@.\-%])(?:{})(?![\w:\-%])"
_ELSEWHERE: Final = re.compile(_WORD.format("LOAD|SERVICE"), re.IGNORECASE)
_VOLATILE: Final = re.compile(_WORD.format("NOW|RAND|UUID|STRUUID|BNODE") + r"\s*\(", re.IGNORECASE)

Changes = dict[str, bool]
"""Lines that an effect changes, and whether they are there after it.

A line is that of a quad, as effects have it, or `# empty graph TERM`.
"""


class Evaluated(NamedTuple):
    """The effect of an update."""

    outcome: Outcome
    changes: Changes


def changes_of(effect: Effect) -> Changes:
    """Return the lines that an effect changes."""
    return (
        dict.fromkeys(effect.deleted, False)
        | dict.fromkeys(effect.inserted, True)
        | dict.fromkeys(map(_empty, effect.filled), False)
        | dict.fromkeys(map(_empty, effect.emptied), True)
    )


def is_quad(line: str) -> bool:
    """Return whether a line is that of a quad, and not that of an empty graph."""
    return not line.startswith("#")


def _empty(graph: object) -> str:
    return f"# empty graph {graph}"


class Updates:
    """A store to which effects are applied, and in which updates are evaluated."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        """Fill the store, from the empty one."""
        self._store: Final = Store()
        for effect in effects:
            self._apply(effect)

    def _apply(self, effect: Effect) -> None:
        for quad in _quads(effect.deleted):
            self._store.remove(quad)
        for graph in (*effect.filled, *effect.dropped):
            self._store.remove_graph(_graph(graph))  # a filled one exists again with its first quad
        for quad in _quads(effect.inserted):
            self._store.add(quad)
        for graph in effect.emptied:
            self._store.add_graph(_graph(graph))

    def graphs(self) -> set[str]:
        """Return the names of the graphs that have quads, as effects write them."""
        return {str(quad.graph_name) for quad in self._store if quad.graph_name != DefaultGraph()}

    def lines(self) -> set[str]:
        """Return the lines of all quads, and of all empty named graphs."""
        filled = {quad.graph_name for quad in self._store}
        empty = {_empty(graph) for graph in self._store.named_graphs() if graph not in filled}
        return {f"{quad} ." for quad in self._store} | empty

    def evaluate(self, entry: LoggedEntry) -> Evaluated | None:
        """Execute an update; None if it needs another server: then nothing is done.

        Raises:
            Unknown: pyoxigraph alone cannot say what a worker would do.

        """
        text = entry.body.decode()
        if entry.media_type == SPARQL:
            plain = _SKIPPED.sub(" ", text)
            if _ELSEWHERE.search(plain):
                return None
            if _VOLATILE.search(plain) or any(name.startswith("using-") for name in entry.options):
                raise Unknown(f"entry {entry.index}: its functions or its dataset are not supported here")
        elif entry.media_type != PATCH:
            raise Unknown(f"entry {entry.index}: {entry.media_type} is not supported here")
        before, nodes = self.lines(), self._blank_nodes()
        if entry.media_type == PATCH:
            self._patch(text)
        else:
            try:
                self._store.update(text)
            except (SyntaxError, ValueError, RuntimeError, OSError):
                return Evaluated(Outcome.REJECTED, {})  # the store makes an update as a whole or not at all
        if self._blank_nodes() - nodes:
            raise Unknown(f"entry {entry.index}: it makes blank nodes, whose labels only a worker knows")
        after = self.lines()
        changes = dict.fromkeys(before - after, False) | dict.fromkeys(after - before, True)
        return Evaluated(Outcome.APPLIED, changes)

    def _blank_nodes(self) -> set[str]:
        return {
            term.value
            for quad in self._store
            for term in (quad.subject, quad.object, quad.graph_name)
            if isinstance(term, BlankNode)
        }

    def _patch(self, text: str) -> None:
        """Execute the lines A, D and DP of a patch, without blank nodes."""
        for line in map(str.strip, text.splitlines()):
            code, _, rest = line.partition(" ")
            if code in {"A", "D", "DP"} and "_:" in rest:
                raise Unknown(f"blank nodes of patches are not supported here: {line}")
            if code == "A":
                self._store.extend(_quads([rest]))
            elif code == "D":
                for quad in _quads([rest]):
                    self._store.remove(quad)
            elif code == "DP":
                for quad in list(self._store.quads_for_pattern(*_pattern(rest))):
                    self._store.remove(quad)


_ANY: Final = NamedNode("urn:any")


def _pattern(text: str) -> tuple[Any, Any, Any, Any]:
    """Return the terms of a line `DP`; None for any one."""
    terms, graph, _ = text.rsplit(maxsplit=2)
    [quad] = _quads([re.sub(r"(?<!\S)\*(?!\S)", str(_ANY), terms) + " ."])
    subject, predicate, value = (
        None if term == _ANY else term for term in (quad.subject, quad.predicate, quad.object)
    )
    if graph in {"*", "DEFAULT"}:
        return subject, predicate, value, None if graph == "*" else DefaultGraph()
    return subject, predicate, value, _graph(graph)


def _quads(lines: Iterable[str]) -> Iterator[Quad]:
    for quad in parse("\n".join(lines), format=RdfFormat.N_QUADS, lenient=True):
        assert isinstance(quad, Quad)
        yield quad


def _graph(term: str) -> NamedNode | BlankNode:
    return NamedNode(term[1:-1]) if term.startswith("<") else BlankNode(term.removeprefix("_:"))
