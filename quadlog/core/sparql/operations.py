"""The operations of an update, as parsed from its text, before any evaluation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyoxigraph import Quad

S = TypeVar("S")


class TripleTemplate(NamedTuple):
    """A triple term in a template."""

    subject: Slot
    predicate: Slot
    object: Slot


Slot: TypeAlias = NamedNode | BlankNode | Literal | Triple | Variable | TripleTemplate
"""A position in a template.  A blank node represents a new node for each solution."""


class QuadTemplate(NamedTuple):
    """A quad whose variables and blank nodes are replaced for each solution."""

    subject: Slot
    predicate: Slot
    object: Slot
    graph: NamedNode | Variable | DefaultGraph


def slots_of(templates: Iterable[QuadTemplate | TripleTemplate], kind: type[S]) -> Iterator[S]:
    """Yield the slots of one kind, those of triple terms included."""
    for template in templates:
        slots: tuple[Slot | DefaultGraph, ...] = template
        for slot in slots:
            if isinstance(slot, kind):
                yield slot
            elif isinstance(slot, TripleTemplate):
                yield from slots_of([slot], kind)


class Every(Enum):
    """A set of graphs, as CLEAR and DROP name it."""

    NAMED = "NAMED"
    ALL = "ALL"


Target: TypeAlias = NamedNode | DefaultGraph | Every


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertData:
    """``INSERT DATA``: these quads exist afterwards.  ``GRAPH <g> {}`` has no effect."""

    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteData:
    """``DELETE DATA``: these quads do not exist afterwards; their graphs stay."""

    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePattern:
    """``DP`` of a patch: no matching quad exists afterwards; their graphs stay.  None matches everything."""

    subject: NamedNode | BlankNode | Triple | None
    predicate: NamedNode | None
    object: NamedNode | BlankNode | Literal | Triple | None
    graph: NamedNode | DefaultGraph | None

    def fits(self, quad: Quad) -> bool:
        """Return whether a quad matches the pattern."""
        return (
            self.subject in {None, quad.subject}
            and self.predicate in {None, quad.predicate}
            and self.object in {None, quad.object}
            and self.graph in {None, quad.graph_name}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """``SERVICE``, which is replaced by the answer of its endpoint (SPARQL 1.1 Federated Query)."""

    number: int
    """Number of its operation."""
    at: int
    """Offset in the text of the WHERE at which the answer is inserted."""
    endpoint: NamedNode
    query: str
    """Query that is sent to the endpoint."""
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A query for the solutions of a pattern, and its dataset.

    ``default`` and ``named`` are None for the dataset of the state.  The query's columns are ``variables``.
    """

    text: str
    """Text of the query, without its ``services``."""
    variables: tuple[str, ...]
    default: tuple[NamedNode, ...] | None = None
    named: tuple[NamedNode, ...] | None = None
    services: tuple[Service, ...] = ()
    """SERVICEs of the pattern, in their order in the text."""

    def answered(self, answers: Sequence[str]) -> Where:
        """Return the same query with the answer of each of its services, as text of a group.

        >>> one = Service(number=0, at=9, endpoint=NamedNode("http://a/"), query="…", silent=False)
        >>> where = Where(text="SELECT *{ ?s ?p ?o }", variables=("s",), services=(one,))
        >>> where.answered(["{ VALUES (?s) { (1) } }"]).text
        'SELECT *{{ VALUES (?s) { (1) } } ?s ?p ?o }'
        """
        ends = [*(service.at for service in self.services[1:]), len(self.text)]
        parts = [self.text[: self.services[0].at]]
        for service, answer, end in zip(self.services, answers, ends, strict=True):
            parts += (answer, self.text[service.at : end])
        return replace(self, text="".join(parts), services=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Modify:
    """``DELETE … INSERT … WHERE``: all deletions of all solutions are applied before all insertions."""

    number: int
    deletes: tuple[QuadTemplate, ...]
    inserts: tuple[QuadTemplate, ...]
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    """``CLEAR``: removes the quads; the graphs stay."""

    target: Target
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """``DROP``: removes the quads and the named graphs."""

    target: Target
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """``CREATE``: creates an empty named graph."""

    graph: NamedNode
    silent: bool


class Transfer(Enum):
    """Way in which the quads of a source graph are transferred to a target graph."""

    ADD = "ADD"
    """Both graphs keep their quads."""
    COPY = "COPY"
    """The previous quads of the target are removed."""
    MOVE = "MOVE"
    """The previous quads of the target are removed, and the source is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """``ADD``, ``COPY`` or ``MOVE``: the quads of one graph are in the other one afterwards."""

    transfer: Transfer
    source: NamedNode | DefaultGraph
    target: NamedNode | DefaultGraph
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``LOAD``: the triples of a document are in a graph afterwards."""

    number: int
    source: NamedNode
    graph: NamedNode | DefaultGraph
    silent: bool


DataOperation: TypeAlias = InsertData | DeleteData | DeletePattern
GraphOperation: TypeAlias = Clear | Drop | Create | Send
Operation: TypeAlias = DataOperation | Modify | GraphOperation | Load
