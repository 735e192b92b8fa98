"""What an update asks for, operation by operation: read from its text, nothing looked up yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Triple, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyoxigraph import Quad


class TripleTemplate(NamedTuple):
    """A triple term in a template."""

    subject: Slot
    predicate: Slot
    object: Slot


Slot: TypeAlias = NamedNode | BlankNode | Literal | Triple | Variable | TripleTemplate
"""A place of a template.  A blank node stands for a new one of each solution."""


class QuadTemplate(NamedTuple):
    """A quad with places to be filled in by a solution."""

    subject: Slot
    predicate: Slot
    object: Slot
    graph: NamedNode | Variable | DefaultGraph


class Every(Enum):
    """More graphs than one, as CLEAR and DROP name them."""

    NAMED = "NAMED"
    ALL = "ALL"


Target: TypeAlias = NamedNode | DefaultGraph | Every


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertData:
    """``INSERT DATA``: these quads are there afterwards.  ``GRAPH <g> {}`` says nothing."""

    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteData:
    """``DELETE DATA``: these quads are gone afterwards; their graphs stay."""

    quads: tuple[Quad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePattern:
    """``DP`` of a patch: all quads that fit are gone afterwards; their graphs stay.  None fits everything."""

    subject: NamedNode | BlankNode | Triple | None
    predicate: NamedNode | None
    object: NamedNode | BlankNode | Literal | Triple | None
    graph: NamedNode | DefaultGraph | None

    def fits(self, quad: Quad) -> bool:
        """Whether it is one of them."""
        return (
            self.subject in {None, quad.subject}
            and self.predicate in {None, quad.predicate}
            and self.object in {None, quad.object}
            and self.graph in {None, quad.graph_name}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """``SERVICE``: what an endpoint answers stands in its place (SPARQL 1.1 Federated Query)."""

    number: int
    """Of its operation."""
    at: int
    """Where it stood in the text of the WHERE."""
    endpoint: NamedNode
    query: str
    """What the endpoint is asked."""
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What a pattern is looked for in, and the text of the query that looks for it.

    ``default`` and ``named`` None: the state's own.  The query's columns are ``variables``.
    """

    text: str
    """Without its ``services``."""
    variables: tuple[str, ...]
    default: tuple[NamedNode, ...] | None = None
    named: tuple[NamedNode, ...] | None = None
    services: tuple[Service, ...] = ()
    """In their order in the text."""

    def answered(self, answers: Sequence[str]) -> Where:
        """With what each of its services answered, as text of a group.

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
    """``DELETE … INSERT … WHERE``: for all solutions first all deletions, then all insertions."""

    number: int
    deletes: tuple[QuadTemplate, ...]
    inserts: tuple[QuadTemplate, ...]
    where: Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear:
    """``CLEAR``: the quads go, the graphs stay."""

    target: Target
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """``DROP``: the quads go, and so do named graphs."""

    target: Target
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """``CREATE``: an empty named graph."""

    graph: NamedNode
    silent: bool


class Transfer(Enum):
    """What becomes of two graphs when the quads of one go to the other."""

    ADD = "ADD"
    """Both keep what they have."""
    COPY = "COPY"
    """The other one loses what it had before."""
    MOVE = "MOVE"
    """And the first one goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """``ADD``, ``COPY`` or ``MOVE``: the quads of one graph are in another one afterwards."""

    transfer: Transfer
    source: NamedNode | DefaultGraph
    target: NamedNode | DefaultGraph
    silent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``LOAD``: what a document says is in a graph afterwards."""

    number: int
    source: NamedNode
    graph: NamedNode | DefaultGraph
    silent: bool


DataOperation: TypeAlias = InsertData | DeleteData | DeletePattern
GraphOperation: TypeAlias = Clear | Drop | Create | Send
Operation: TypeAlias = DataOperation | Modify | GraphOperation | Load
