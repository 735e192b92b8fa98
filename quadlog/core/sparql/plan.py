"""Plans: the operations of all updates of one skeleton, with placeholders for the constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyoxigraph import Literal, NamedNode

from quadlog.core.sparql.operations import DeleteData, InsertData, Modify, QuadTemplate, Where
from quadlog.core.sparql.quad_data import quad_of
from quadlog.core.sparql.text.skeleton import filled_in
from quadlog.core.sparql.text.terms import INTEGER, BlankNodes, Literals, string_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quadlog.core.sparql.operations import Operation

Row: TypeAlias = tuple[int, int, int, int]
"""Positions of a quad's terms in the plan's values."""
Maker: TypeAlias = "Callable[[Sequence[str]], Literal]"
"""Function that creates a literal from constants, like `BlockParser` from tokens."""

_INTEGER_TYPE = NamedNode(INTEGER)


class BlankNodeRef(NamedTuple):
    """A blank node: the number of its operation, and its name."""

    operation: int
    name: str


@dataclass(frozen=True, slots=True)
class DataPlan:
    """Plan of INSERT DATA or DELETE DATA."""

    form: type[InsertData | DeleteData]
    rows: tuple[Row, ...]

    def filled(self, values: Sequence[Any], constants: Sequence[str]) -> InsertData | DeleteData:
        """Return the operation with these values and constants."""
        del constants
        return self.form(
            quads=tuple([quad_of(values[s], values[p], values[o], values[g]) for s, p, o, g in self.rows])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyPlan:
    """Plan of DELETE and INSERT with a WHERE."""

    number: int
    deletes: tuple[Row, ...]
    inserts: tuple[Row, ...]
    gaps: tuple[str, ...]
    """Parts of the text of the WHERE between its constants."""
    constants: tuple[int, ...]
    """Numbers of the constants between the gaps."""
    variables: tuple[str, ...]
    default: tuple[int, ...] | None
    named: tuple[int, ...] | None

    def filled(self, values: Sequence[Any], constants: Sequence[str]) -> Modify:
        """Return the operation with these values and constants."""
        where = Where(
            text=filled_in(self.gaps, [constants[n] for n in self.constants]),
            variables=self.variables,
            default=None if self.default is None else tuple([values[n] for n in self.default]),
            named=None if self.named is None else tuple([values[n] for n in self.named]),
        )
        return Modify(
            number=self.number,
            deletes=_templates(self.deletes, values),
            inserts=_templates(self.inserts, values),
            where=where,
        )


def _templates(rows: Iterable[Row], values: Sequence[Any]) -> tuple[QuadTemplate, ...]:
    return tuple([QuadTemplate(values[s], values[p], values[o], values[g]) for s, p, o, g in rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The operations of every update of a skeleton, without the constants.

    The values of a plan are, in this order: all constants that are IRIs, literals that contain a constant, blank
    nodes, and terms without constants.
    """

    iris: tuple[int, ...]
    makers: tuple[Maker, ...]
    nodes: tuple[BlankNodeRef, ...]
    fixed: tuple[Any, ...]
    steps: tuple[DataPlan | ModifyPlan, ...]

    def operations(self, constants: Sequence[str], tx_id: bytes) -> tuple[Operation, ...] | None:
        """Return the operations of the update with these constants.

        The result is None if a constant is invalid; the parser then reports where.
        """
        try:
            values: list[Any] = [NamedNode(constants[number][1:-1]) for number in self.iris]
            values += [make(constants) for make in self.makers]
        except (SyntaxError, ValueError):  # of pyoxigraph
            return None
        if self.nodes:
            values += [BlankNodes(tx_id, node.operation).named(node.name) for node in self.nodes]
        values += self.fixed
        return tuple([step.filled(values, constants) for step in self.steps])


def string(number: int, constants: Sequence[str]) -> Literal:
    """Return the literal of a quoted constant."""
    return Literal(string_value(constants[number]))


def integer(number: int, constants: Sequence[str]) -> Literal:
    """Return the xsd:integer of a constant, in its lexical form."""
    return Literal(constants[number], datatype=_INTEGER_TYPE)


def in_language(number: int, like: Literal, constants: Sequence[str]) -> Literal:
    """Return the literal of a quoted constant, with the language and direction of `like`."""
    value = string_value(constants[number])
    if like.direction is None:
        return Literal(value, language=like.language)
    return Literal(value, language=like.language, direction=like.direction)


def typed(number: int, datatype: NamedNode, constants: Sequence[str]) -> Literal:
    """Return the literal of a quoted constant, with a datatype."""
    return Literals().typed(string_value(constants[number]), datatype)


def typed_by(number: int, datatype: int, constants: Sequence[str]) -> Literal:
    """Return the literal of a quoted constant, with the datatype in the constant number `datatype`."""
    return typed(number, NamedNode(constants[datatype][1:-1]), constants)
