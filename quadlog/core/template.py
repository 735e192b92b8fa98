"""What the solutions of a WHERE make of its templates."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple, Variable

from quadlog.core.effect import named_graphs
from quadlog.core.operations import DeleteData, InsertData, TripleTemplate
from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.terms import BlankNodes
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from quadlog.core.operations import Modify, QuadTemplate, Slot

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Row: TypeAlias = "Sequence[Term | None]"
"""One solution: a value or None for each variable."""
_Filled: TypeAlias = Term | DefaultGraph | None
_Getter: TypeAlias = "Callable[[Sequence[_Filled]], _Filled]"


def filled_in(modify: Modify, rows: Iterable[Row], tx_id: bytes) -> tuple[DeleteData, InsertData]:
    """The data that all solutions together delete and then insert.

    As SPARQL has it, a template that becomes no legal quad is passed over.  A new blank node
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
        values: list[_Filled] = [*row, *nodes.of(row), *plan.constants]
        deleted.update(dict.fromkeys(_quads(plan.deletes, values)))
        inserted.update(dict.fromkeys(_quads(plan.inserts, values)))
    for graph in named_graphs((*deleted, *inserted)):
        if isinstance(graph, NamedNode):
            refuse_reserved(graph)
    if any(isinstance(quad.graph_name, BlankNode) for quad in inserted):
        raise UserError("a solution names a graph by a blank node: graphs are named by IRIs")
    return DeleteData(quads=tuple(deleted)), InsertData(quads=tuple(inserted))


class _Plan:
    """Templates whose places are numbers: of a variable, of a new blank node, of a constant."""

    def __init__(self, modify: Modify) -> None:
        """Number all places."""
        self._numbers: dict[Slot | DefaultGraph, int] = {
            Variable(name): number for number, name in enumerate(modify.where.variables)
        }
        self._variables = len(self._numbers)
        self.labels = tuple(dict.fromkeys(_labels(modify.inserts)))
        for label in self.labels:
            self._numbers[label] = len(self._numbers)
        self.constants: list[Term | DefaultGraph] = []
        self.deletes = [self._quad(template) for template in modify.deletes]
        self.inserts = [self._quad(template) for template in modify.inserts]

    def relevant(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Without variables all solutions are alike, and without new nodes one is enough."""
        if self._variables:
            return rows
        return (() for _ in (rows if self.labels else islice(rows, 1)))

    def _quad(self, template: QuadTemplate) -> tuple[_Getter, _Getter, _Getter, _Getter]:
        s, p, o, g = (self._getter(slot) for slot in template)
        return s, p, o, g

    def _getter(self, slot: Slot | DefaultGraph) -> _Getter:
        if isinstance(slot, TripleTemplate):
            s, p, o = (self._getter(part) for part in slot)
            return lambda values: _triple(s(values), p(values), o(values))
        number = self._numbers.get(slot)
        if number is None:
            assert not isinstance(slot, Variable), "every variable of a template is a column"
            number = self._numbers[slot] = len(self._numbers)
            self.constants.append(slot)
        return itemgetter(number)


class _NodesOfSolutions:
    """New blank nodes for each solution; equal solutions are told apart by counting them."""

    def __init__(self, nodes: BlankNodes, labels: Sequence[BlankNode]) -> None:
        """``labels`` are those of the template."""
        self._nodes, self._labels = nodes, labels
        self._seen: Counter[str] = Counter()

    def of(self, row: Row) -> list[BlankNode]:
        """One for each label."""
        if not self._labels:
            return []
        solution = "\n".join(map(str, row))  # no N-Triples term has a line feed
        self._seen[solution] += 1
        name = f"{self._seen[solution]}\n{solution}\n"
        return [self._nodes.named(name + label.value) for label in self._labels]


def _quads(
    templates: Iterable[tuple[_Getter, _Getter, _Getter, _Getter]], values: Sequence[_Filled]
) -> Iterator[Quad]:
    for subject, predicate, value, graph in templates:
        s, p, o, g = subject(values), predicate(values), value(values), graph(values)
        if (
            isinstance(s, (NamedNode, BlankNode))
            and isinstance(p, NamedNode)
            and isinstance(o, (NamedNode, BlankNode, Literal, Triple))
            and isinstance(g, (NamedNode, BlankNode, DefaultGraph))
        ):
            yield Quad(s, p, o, g)


def _triple(subject: _Filled, predicate: _Filled, value: _Filled) -> Triple | None:
    if (
        isinstance(subject, (NamedNode, BlankNode))
        and isinstance(predicate, NamedNode)
        and isinstance(value, (NamedNode, BlankNode, Literal, Triple))
    ):
        return Triple(subject, predicate, value)
    return None


def _labels(templates: Iterable[QuadTemplate | TripleTemplate]) -> Iterator[BlankNode]:
    for template in templates:
        slots: tuple[Slot | DefaultGraph, ...] = template
        for slot in slots:
            if isinstance(slot, BlankNode):
                yield slot
            elif isinstance(slot, TripleTemplate):
                yield from _labels([slot])
