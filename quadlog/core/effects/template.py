"""Quads that the solutions of a WHERE clause make of the templates of an update."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple, Variable

from quadlog.core.effects.effect import named_graphs
from quadlog.core.sparql.operations import DeleteData, InsertData, TripleTemplate, slots_of
from quadlog.core.sparql.quad_data import quad_of, refuse_reserved
from quadlog.core.sparql.text.terms import BlankNodes
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyoxigraph import Quad

    from quadlog.core.sparql.operations import Modify, QuadTemplate, Slot

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Row: TypeAlias = "Sequence[Term | None]"
"""One solution: a value or None for each variable."""
_Filled: TypeAlias = Term | DefaultGraph | None

_NODE: Final = (NamedNode, BlankNode)
_OBJECT: Final = (NamedNode, BlankNode, Literal, Triple)
_GRAPH: Final = (NamedNode, BlankNode, DefaultGraph)


def filled_in(modify: Modify, rows: Iterable[Row], tx_id: bytes) -> tuple[DeleteData, InsertData]:
    """Return the data that all solutions together delete and then insert.

    As SPARQL specifies, a template that yields no legal quad is skipped.  A new blank node
    is a function of the transaction, the operation, the solution and its label, so the order of
    solutions does not matter.

    Raises:
        UserError: a solution names a graph by a blank node.
        Forbidden: a solution names a reserved graph.
    """
    plan = _Plan(modify)
    rows = plan.relevant(rows)
    nodes = _NodesOfSolutions(BlankNodes(tx_id, modify.number), plan.labels)
    deleted: dict[Quad, None] = {}
    inserted: dict[Quad, None] = {}
    for row in rows:
        values = plan.values(row, nodes.of(row))
        deleted.update(dict.fromkeys(_quads(plan.deletes, values)))
        inserted.update(dict.fromkeys(_quads(plan.inserts, values)))
    if plan.finds_graphs:
        for graph in named_graphs((*deleted, *inserted)):
            if isinstance(graph, NamedNode):
                refuse_reserved(graph)
        if any(isinstance(quad.graph_name, BlankNode) for quad in inserted):
            raise UserError("a solution names a graph by a blank node: graphs are named by IRIs")
    return DeleteData(quads=tuple(deleted)), InsertData(quads=tuple(inserted))


class _Plan:
    """Templates with numbered places: for variables, new blank nodes, constants and triple terms."""

    def __init__(self, modify: Modify) -> None:
        variables = modify.where.variables
        self._places: dict[Slot | DefaultGraph, int] = {Variable(name): n for n, name in enumerate(variables)}
        self._variables = len(variables)
        templates = (*modify.deletes, *modify.inserts)
        self.finds_graphs = any(isinstance(template.graph, Variable) for template in templates)
        """True if solutions name graphs, and not only the text."""
        self.labels = tuple(dict.fromkeys(slots_of(modify.inserts, BlankNode)))
        for label in self.labels:
            self._places[label] = len(self._places)
        self._first = len(self._places)
        self._rest: list[_Filled] = []
        """Constants, and None as a placeholder of each triple term."""
        self._triples: list[tuple[int, int, int, int]] = []
        """Place of each triple term, and the places of its three terms; inner triple terms first."""
        self.deletes = [self._quad(template) for template in modify.deletes]
        self.inserts = [self._quad(template) for template in modify.inserts]

    def relevant(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Return the solutions to use: without variables all are alike, and without new blank nodes one is enough."""
        if self._variables:
            return rows
        return (() for _ in (rows if self.labels else islice(rows, 1)))

    def values(self, row: Row, nodes: Sequence[BlankNode]) -> Sequence[_Filled]:
        """Return the values of all places for one solution."""
        values: list[_Filled] = [*row, *nodes, *self._rest]
        for place, subject, predicate, value in self._triples:
            values[place] = _triple(values[subject], values[predicate], values[value])
        return values

    def _quad(self, template: QuadTemplate) -> tuple[int, int, int, int]:
        s, p, o, g = template
        return self._place(s), self._place(p), self._place(o), self._place(g)

    def _place(self, slot: Slot | DefaultGraph) -> int:
        place = self._places.get(slot)
        if place is None:
            assert not isinstance(slot, Variable), "every variable of a template is a column"
            if isinstance(slot, TripleTemplate):
                terms = self._place(slot.subject), self._place(slot.predicate), self._place(slot.object)
                self._triples.append((self._first + len(self._rest), *terms))
            place = self._places[slot] = self._first + len(self._rest)
            self._rest.append(None if isinstance(slot, TripleTemplate) else slot)
        return place


class _NodesOfSolutions:
    """New blank nodes for each solution; equal solutions are distinguished by a count."""

    def __init__(self, nodes: BlankNodes, labels: Sequence[BlankNode]) -> None:
        """Start without a solution; ``labels``: blank nodes of the templates."""
        self._nodes, self._labels = nodes, labels
        self._seen: Counter[str] = Counter()

    def of(self, row: Row) -> list[BlankNode]:
        """Return a new blank node for each label."""
        if not self._labels:
            return []
        solution = "\n".join(map(str, row))  # no N-Triples term contains a line feed
        self._seen[solution] += 1
        name = f"{self._seen[solution]}\n{solution}\n"
        return [self._nodes.named(name + label.value) for label in self._labels]


def _quads(templates: Iterable[tuple[int, int, int, int]], values: Sequence[_Filled]) -> Iterator[Quad]:
    for subject, predicate, value, graph in templates:
        s, p, o, g = values[subject], values[predicate], values[value], values[graph]
        if (
            isinstance(s, _NODE)
            and isinstance(p, NamedNode)
            and isinstance(o, _OBJECT)
            and isinstance(g, _GRAPH)
        ):
            yield quad_of(s, p, o, g)


def _triple(subject: _Filled, predicate: _Filled, value: _Filled) -> Triple | None:
    if isinstance(subject, _NODE) and isinstance(predicate, NamedNode) and isinstance(value, _OBJECT):
        return Triple(subject, predicate, value)
    return None
