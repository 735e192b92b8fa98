"""A plan: the operations of all updates of one skeleton, with places for their constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pyoxigraph import Literal, NamedNode

from quadlog.core.sparql.operations import DeleteData, InsertData, Modify, QuadTemplate, Where
from quadlog.core.sparql.quads import quad_of
from quadlog.core.sparql.text.skeleton import filled_in
from quadlog.core.sparql.text.terms import INTEGER, BlankNodes, Literals, string_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quadlog.core.sparql.operations import Operation

Row: TypeAlias = tuple[int, int, int, int]
"""Places of a quad's terms."""
Maker: TypeAlias = "Callable[[Sequence[str]], Literal]"
"""Makes a literal of constants, as `BlockParser` makes it of tokens."""

_INTEGER_TYPE = NamedNode(INTEGER)


class Node(NamedTuple):
    """A blank node: of which operation, by which name."""

    operation: int
    name: str


@dataclass(frozen=True, slots=True)
class DataPlan:
    """INSERT DATA or DELETE DATA."""

    form: type[InsertData | DeleteData]
    rows: tuple[Row, ...]

    def filled(self, values: Sequence[Any], constants: Sequence[str]) -> InsertData | DeleteData:
        """With these values and constants."""
        del constants
        return self.form(
            quads=tuple([quad_of(values[s], values[p], values[o], values[g]) for s, p, o, g in self.rows])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyPlan:
    """DELETE and INSERT with a WHERE."""

    number: int
    deletes: tuple[Row, ...]
    inserts: tuple[Row, ...]
    gaps: tuple[str, ...]
    """Of the text of the WHERE, and which constants go between them."""
    constants: tuple[int, ...]
    variables: tuple[str, ...]
    default: tuple[int, ...] | None
    named: tuple[int, ...] | None

    def filled(self, values: Sequence[Any], constants: Sequence[str]) -> Modify:
        """With these values and constants."""
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
    """What every update of a skeleton says, but for its constants.

    Its values are, in this order: all constants that are IRIs, literals with a constant in them, blank nodes, and
    what is always the same.
    """

    iris: tuple[int, ...]
    makers: tuple[Maker, ...]
    nodes: tuple[Node, ...]
    fixed: tuple[Any, ...]
    steps: tuple[DataPlan | ModifyPlan, ...]

    def operations(self, constants: Sequence[str], tx_id: bytes) -> tuple[Operation, ...] | None:
        """What the update with these constants says; None if one of them is none, which is for a reader to tell."""
        try:
            values: list[Any] = [NamedNode(constants[number][1:-1]) for number in self.iris]
            values += [make(constants) for make in self.makers]
        except (SyntaxError, ValueError):  # pyoxigraph's
            return None
        if self.nodes:
            values += [BlankNodes(tx_id, node.operation).named(node.name) for node in self.nodes]
        values += self.fixed
        return tuple([step.filled(values, constants) for step in self.steps])


def string(number: int, constants: Sequence[str]) -> Literal:
    """As it is quoted."""
    return Literal(string_value(constants[number]))


def integer(number: int, constants: Sequence[str]) -> Literal:
    """As it is written."""
    return Literal(constants[number], datatype=_INTEGER_TYPE)


def in_language(number: int, like: Literal, constants: Sequence[str]) -> Literal:
    """In the language, and direction, of another one."""
    value = string_value(constants[number])
    if like.direction is None:
        return Literal(value, language=like.language)
    return Literal(value, language=like.language, direction=like.direction)


def typed(number: int, datatype: NamedNode, constants: Sequence[str]) -> Literal:
    """Of a datatype."""
    return Literals().typed(string_value(constants[number]), datatype)


def typed_by(number: int, datatype: int, constants: Sequence[str]) -> Literal:
    """Of a datatype that is a constant too."""
    return typed(number, NamedNode(constants[datatype][1:-1]), constants)
