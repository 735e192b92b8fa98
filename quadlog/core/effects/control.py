"""Controls: what must be so after every transaction, as agreed for all.

A control is the body of a CONFIG entry: a SPARQL ASK that has to be true, or a graph of SHACL shapes that the
default graph has to conform to.  The transaction's options say its name and what it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from quadlog.core.membership.electorate import names_peer
from quadlog.core.model import Kind
from quadlog.core.records import Outcome
from quadlog.core.sparql.reserved import names_of_query, refuse_reserved_names
from quadlog.core.sparql.text.caution import MAX_NESTING, weigh
from quadlog.core.sparql.text.syntax import check_query
from quadlog.core.sparql.text.tokens import tokens
from quadlog.core.sparql.typed import refuse_ill_formed
from quadlog.errors import SyntaxRefused, TooLarge, Unsupported, UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.records import Effect, LoggedEntry

NAME: Final = "control"
IS: Final = "control-is"
"""Options of a CONFIG transaction."""

LIMIT: Final = 256 * 1024
"""Bytes of a control's text: every worker holds it in memory, and the evaluating one reads it with each update."""

_NAMES: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_QUERIES: Final = frozenset(("SELECT", "CONSTRUCT", "DESCRIBE", "ASK"))

_SHACL: Final = "http://www.w3.org/ns/shacl#"
_TEXTS: Final = frozenset(NamedNode(_SHACL + name) for name in ("select", "ask", "construct"))
_BEYOND: Final = frozenset(
    NamedNode(_SHACL + name)
    for name in ("entailment", "expression", "js", "jsLibrary", "rule", "target", "values")
)
"""Of SHACL's advanced features, JavaScript and entailment: they are not evaluated, and would silently mean nothing."""
_IMPORTS: Final = NamedNode("http://www.w3.org/2002/07/owl#imports")


class ControlKind(StrEnum):
    """How a control is evaluated."""

    ASK = "ASK"
    SHACL = "SHACL"


MEDIA_TYPES: Final[Mapping[str, ControlKind]] = {
    "application/sparql-query": ControlKind.ASK,
    "text/turtle": ControlKind.SHACL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One control, as agreed."""

    name: str
    kind: ControlKind
    text: str
    index: int
    """Of the entry that set it."""

    def encode(self) -> str:
        """As text: the same for the same control.

        >>> a = Control(name="a", kind=ControlKind.ASK, text="ASK {}", index=7)
        >>> Control.decode(a.encode()) == a
        True
        """
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """The inverse of `encode`."""
        values = json.loads(text)
        return cls(**values | {"kind": ControlKind(values["kind"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlChange:
    """What a CONFIG entry asks for."""

    name: str
    control: Control | None
    """What has this name from then on; None: nothing."""


def options_of(name: str, kind: ControlKind | None) -> dict[str, str]:
    """The options of a transaction that sets a control, or, with no kind, deletes it.

    Raises:
        UserError: nothing can have this name.

    """
    if _NAMES.fullmatch(name) is None:
        message = "a control's name has 1 to 64 letters, digits, points, hyphens and underscores of ASCII"
        raise UserError(f"{message}, a letter or a digit first; this is {name[:100]!r}")
    return {NAME: name, IS: kind.value if kind else ""}


def change_of(entry: LoggedEntry) -> ControlChange:
    """What a CONFIG entry that `concerns` controls asks for.

    Raises:
        UserError: it is not understood.

    """
    name, kind = entry.options.get(NAME, ""), entry.options.get(IS)
    if kind is None or kind not in {"", *ControlKind}:
        raise UserError("this CONFIG entry is not known to this version")
    options_of(name, None)
    if not kind:
        return ControlChange(name=name, control=None)
    try:
        text = entry.body.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"the text is not UTF-8: {error}") from None
    check(ControlKind(kind), text)
    control = Control(name=name, kind=ControlKind(kind), text=text, index=entry.index)
    return ControlChange(name=name, control=control)


def concerns(entry: LoggedEntry) -> bool:
    """Whether an entry is to change controls: what else is configured is none of the workers' business."""
    return entry.kind is Kind.CONFIG and not names_peer(entry.options)


def changes_of(pairs: Iterable[tuple[LoggedEntry, Effect]]) -> list[ControlChange]:
    """What entries with these effects changed of the controls."""
    return [
        change_of(entry) for entry, effect in pairs if concerns(entry) and effect.outcome is Outcome.APPLIED
    ]


def after(before: Mapping[str, Control], changes: Iterable[ControlChange]) -> dict[str, Control]:
    """The controls once these changes are made, in the order of their names."""
    controls = dict(before)
    for change in changes:
        if change.control is None:
            controls.pop(change.name, None)
        else:
            controls[change.name] = change.control
    return dict(sorted(controls.items()))


def check(kind: ControlKind, text: str) -> None:
    """Refuse a text that is no control of this kind.

    Raises:
        SyntaxRefused: it is not SPARQL, or not Turtle.
        UserError: it is no ASK, or holds no shapes.
        Unsupported: it is not (wholly) understood, or asks a SERVICE.
        Forbidden: it names a reserved graph.
        TooLarge: above `LIMIT`.

    """
    if len(text.encode()) > LIMIT:
        raise TooLarge(f"a control has at most {LIMIT} bytes: split it into several")
    if kind is ControlKind.ASK:
        _check_ask(text)
    else:
        _check_shapes(text)


def _check_ask(text: str) -> None:
    refuse_wild(text)
    check_query(text)
    words = ((token["word"] or "").upper() for token in tokens(text))
    form = next((word for word in words if word in _QUERIES), "")
    if form != "ASK":
        raise UserError(f"a control is an ASK query, this is a {form}")
    names = names_of_query(text, None)
    refuse_reserved_names(text, names)
    refuse_ill_formed(text, names)


def refuse_wild(text: str) -> None:
    """Refuse a query that pyoxigraph might not survive, or would send elsewhere.

    Raises:
        Unsupported: it is one.

    """
    weight = weigh(text)
    if weight.service:
        raise Unsupported("SERVICE is not supported: another server's answer could hold up the log")
    if not weight.is_light:
        raise Unsupported("the query is nested too deeply, or chains or joins too much")


def _check_shapes(text: str) -> None:
    if text.count("<<") > MAX_NESTING:
        raise Unsupported("the shapes hold too many triple terms")
    seen = False
    try:
        for quad in parse(text.encode(), format=RdfFormat.TURTLE):
            predicate, value = quad.predicate, quad.object
            seen = seen or predicate.value.startswith(_SHACL)
            if predicate in _BEYOND:
                raise Unsupported(
                    f"{predicate} is not supported: of SHACL there are Core and SPARQL constraints"
                )
            if predicate == _IMPORTS:
                raise Unsupported("owl:imports is not followed: put all shapes into one text")
            if predicate in _TEXTS and isinstance(value, Literal):
                refuse_wild(value.value)
    except (SyntaxError, ValueError) as error:
        raise SyntaxRefused(f"not Turtle: {error}") from None
    if not seen:
        raise UserError(f"there are no shapes in it: nothing is said with {_SHACL}")
