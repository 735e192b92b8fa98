"""Creation of plans: a skeleton is parsed once with stand-ins for its constants.

Each stand-in in the result is replaced by a placeholder for its constant; all the rest is the same for all texts of
the skeleton.  See decision 21.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadlog.core.sparql.forms import FormParser
from quadlog.core.sparql.operations import DeleteData, InsertData, Modify, TripleTemplate
from quadlog.core.sparql.plan import (
    BlankNodeRef,
    DataPlan,
    ModifyPlan,
    Plan,
    in_language,
    integer,
    string,
    typed,
    typed_by,
)
from quadlog.core.sparql.reserved import names_of_query
from quadlog.core.sparql.text.datatypes import ALTERED
from quadlog.core.sparql.text.syntax import check_update
from quadlog.core.sparql.text.terms import INTEGER, XSD_STRING, BlankNodes
from quadlog.core.sparql.text.tokens import BLANK_NODE, tokens
from quadlog.core.sparql.typed import typed_literals
from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyoxigraph import Quad

    from quadlog.core.sparql.operations import Operation, QuadTemplate
    from quadlog.core.sparql.plan import Maker, Row
    from quadlog.core.sparql.text.skeleton import Skeleton

_STAND_INS: Final = {"<": "<urn:quadlog:constant:({}>", '"': '"quadlog constant {}"', "1": "7007007007{:08}"}
"""Format of the stand-in, by the kind of the constant."""
_STAND_IN: Final = re.compile(r'<urn:quadlog:constant:\((\d+)>|"quadlog constant (\d+)"|7007007007(\d{8})')
_STANDS_FOR_IRI: Final = "urn:quadlog:constant:"
_STAND_IN_ID: Final = b"quadlog plan"

_ELSEWHERE: Final = re.compile("quadlog|7007007007")
"""Matches skeletons whose own text could be confused with a stand-in: they get no plan."""

_INTEGER: Final = NamedNode(INTEGER)

MOST_NAMES: Final = 2_000
"""Maximum number of names of blank nodes that are tried, in all operations: 2 us each."""


class NoPlan(Exception):
    """No plan can be made for a skeleton."""


def plan_of(skeleton: Skeleton) -> Plan:
    """Return the plan of a skeleton.

    Raises:
        NoPlan: texts of the skeleton may differ in more than their constants, or it has operations other than
            data and those with a WHERE, or its text with the stand-ins is refused.

    """
    if not skeleton.is_sure or _ELSEWHERE.search(skeleton.declared + "".join(skeleton.gaps)):
        raise NoPlan
    text = skeleton.text([_STAND_INS[kind].format(number) for number, kind in enumerate(skeleton.kinds)])
    if sum(_STANDS_FOR_IRI in (token["iri"] or "") for token in tokens(text)) != skeleton.kinds.count("<"):
        raise NoPlan  # the `<` of a stand-in is an operator
    try:
        read = tuple(FormParser(text, _STAND_IN_ID, None).operations())
        check_update(text)
    except UserError:
        raise NoPlan from None
    iris = [number for number, kind in enumerate(skeleton.kinds) if kind == "<"]
    place_of = {number: place for place, number in enumerate(iris)}
    places: dict[Any, int] = {}
    literals, blank, fixed = list[Literal](), list[BlankNode](), list[Any]()
    for term in dict.fromkeys(term for operation in read for term in _terms_of(operation)):
        text = str(term)
        if isinstance(term, BlankNode):
            blank.append(term)
        elif isinstance(term, Triple | TripleTemplate):
            raise NoPlan
        elif _STAND_IN.search(text) is None:
            fixed.append(term)
        elif isinstance(term, Literal):
            literals.append(term)
        else:
            places[term] = place_of[_constant(text)]
    places |= {term: place for place, term in enumerate((*literals, *blank, *fixed), len(iris))}
    return Plan(
        iris=tuple(iris),
        makers=tuple(map(_maker, literals)),
        nodes=tuple(_nodes(blank, read, skeleton)),
        fixed=tuple(fixed),
        steps=tuple(_step(operation, places) for operation in read),
    )


def _terms_of(operation: Operation) -> Iterator[Any]:
    """Yield all terms of an operation for which a plan has a value."""
    match operation:
        case InsertData() | DeleteData():
            for quad in operation.quads:
                yield from quad
        case Modify(where=where):
            if where.services:
                raise NoPlan
            for template in (*operation.deletes, *operation.inserts):
                yield from template
            yield from (*(where.default or ()), *(where.named or ()))
        case _:
            raise NoPlan


def _nodes(
    blank: Sequence[BlankNode], read: Sequence[Operation], skeleton: Skeleton
) -> Iterator[BlankNodeRef]:
    """Yield operation and name from which each blank node was derived."""
    if not blank:
        return
    names = [*re.findall(BLANK_NODE, " ".join(skeleton.gaps)), *map(str, range(1, len(blank) + 1))]
    if len(read) * len(names) > MOST_NAMES:
        raise NoPlan
    derived = {
        BlankNodes(_STAND_IN_ID, number).named(name): BlankNodeRef(number, name)
        for number in range(len(read))
        for name in names
    }
    for node in blank:
        if node not in derived:
            raise NoPlan
        yield derived[node]


def _constant(text: str) -> int:
    """Return the number of the constant whose stand-in is this complete text."""
    stand_in = _STAND_IN.fullmatch(text)
    if stand_in is None:
        raise NoPlan  # the stand-in is a part of another term
    return int(stand_in[stand_in.lastindex or 0])


def _maker(literal: Literal) -> Maker:
    """Return the function that creates this literal from the constants."""
    if literal.datatype == _INTEGER:
        stand_in = _STAND_IN.fullmatch(literal.value)
        if stand_in is not None and stand_in[3]:
            return partial(integer, int(stand_in[3]))
    number = _constant(f'"{literal.value}"')
    if literal.language:
        return partial(in_language, number, literal)
    if literal.datatype.value == XSD_STRING:
        return partial(string, number)
    datatype = str(literal.datatype)
    if _STAND_IN.search(datatype) is None:
        return partial(typed, number, literal.datatype)
    return partial(typed_by, number, _constant(datatype))


def _step(operation: Operation, places: dict[Any, int]) -> DataPlan | ModifyPlan:
    match operation:
        case InsertData() | DeleteData():
            return DataPlan(type(operation), _rows(operation.quads, places))
        case Modify(where=where):
            _refuse_unchecked(where.text)
            parts = _STAND_IN.split(where.text)
            # Between two gaps are the three groups of the pattern, of which one has matched.
            groups = zip(parts[1::4], parts[2::4], parts[3::4], strict=True)
            return ModifyPlan(
                number=operation.number,
                deletes=_rows(operation.deletes, places),
                inserts=_rows(operation.inserts, places),
                gaps=tuple(parts[::4]),
                constants=tuple(int(iri or string or integer) for iri, string, integer in groups),
                variables=where.variables,
                default=None if where.default is None else tuple(places[graph] for graph in where.default),
                named=None if where.named is None else tuple(places[graph] for graph in where.named),
            )
        case _:
            raise NoPlan


def _refuse_unchecked(text: str) -> None:
    """Raise NoPlan for a WHERE in which a constant could be part of a literal that the parser must refuse."""
    for value, datatype in typed_literals(text, names_of_query(text)):
        is_checked = datatype.value in ALTERED and _STAND_IN.search(str(Literal(value)))
        if is_checked or _STAND_IN.search(str(datatype)):
            raise NoPlan


def _rows(quads: Iterable[Quad | QuadTemplate], places: dict[Any, int]) -> tuple[Row, ...]:
    rows: list[Row] = []
    for quad in quads:
        s, p, o, g = quad
        rows.append((places[s], places[p], places[o], places[g]))
    return tuple(rows)
