"""Controls: agreed conditions that must hold after every transaction.

A control is the body of a CONFIG entry: a SPARQL ASK that must be true, or a graph of SHACL shapes to which the
default graph must conform.  The transaction's options contain its name and its kind.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from quadlog.core.approval import approval_in
from quadlog.core.cluster_settings import names_setting
from quadlog.core.membership.electorate import names_peer
from quadlog.core.model import TransactionKind
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
"""Options of a CONFIG transaction: name of a control, and its kind; an empty kind deletes the control."""

LIMIT: Final = 256 * 1024
"""Maximum bytes of a control: every worker holds it in memory, and the evaluating one reads it for each update."""

_NAMES: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_QUERIES: Final = frozenset(("SELECT", "CONSTRUCT", "DESCRIBE", "ASK"))

_SHACL: Final = "http://www.w3.org/ns/shacl#"
_TEXTS: Final = frozenset(NamedNode(_SHACL + name) for name in ("select", "ask", "construct"))
_BEYOND: Final = frozenset(
    NamedNode(_SHACL + name)
    for name in ("entailment", "expression", "js", "jsLibrary", "rule", "target", "values")
)
"""Terms of SHACL's advanced features, JavaScript and entailment, which are not evaluated: they would have no effect."""
_IMPORTS: Final = NamedNode("http://www.w3.org/2002/07/owl#imports")


class ControlKind(StrEnum):
    """Kinds of controls, by their evaluation."""

    ASK = "ASK"
    SHACL = "SHACL"


MEDIA_TYPES: Final[Mapping[str, ControlKind]] = {
    "application/sparql-query": ControlKind.ASK,
    "text/turtle": ControlKind.SHACL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An agreed control."""

    name: str
    kind: ControlKind
    text: str
    index: int
    """Index of the entry that set the control."""

    def encode(self) -> str:
        """Return the control as text: equal controls have equal texts.

        >>> a = Control(name="a", kind=ControlKind.ASK, text="ASK {}", index=7)
        >>> Control.decode(a.encode()) == a
        True
        """
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> Self:
        """Return the control that `encode` has encoded."""
        values = json.loads(text)
        return cls(**values | {"kind": ControlKind(values["kind"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlChange:
    """Change of a control that a CONFIG entry requests."""

    name: str
    control: Control | None
    """The control that has this name from then on; None: the control is deleted."""


def options_of(name: str, kind: ControlKind | None) -> dict[str, str]:
    """Return the options of a transaction that sets a control or, with no kind, deletes it.

    Raises:
        UserError: the name is not allowed.

    """
    if _NAMES.fullmatch(name) is None:
        message = "a control's name has 1 to 64 letters, digits, points, hyphens and underscores of ASCII"
        raise UserError(f"{message}, a letter or a digit first; this is {name[:100]!r}")
    return {NAME: name, IS: kind.value if kind else ""}


def change_of(entry: LoggedEntry) -> ControlChange:
    """Return the change that a CONFIG entry requests, which must be an entry that `concerns` controls.

    Raises:
        UserError: the entry is not understood.

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
    """Return whether an entry changes controls; other CONFIG entries do not affect workers."""
    options = entry.options
    is_other = names_peer(options) or names_setting(options) or approval_in(options) is not None
    return entry.kind is TransactionKind.CONFIG and not is_other


def changes_of(pairs: Iterable[tuple[LoggedEntry, Effect]]) -> list[ControlChange]:
    """Return the changes of controls made by entries with these effects."""
    return [
        change_of(entry) for entry, effect in pairs if concerns(entry) and effect.outcome is Outcome.APPLIED
    ]


def after(before: Mapping[str, Control], changes: Iterable[ControlChange]) -> dict[str, Control]:
    """Return the controls after these changes, sorted by name."""
    controls = dict(before)
    for change in changes:
        if change.control is None:
            controls.pop(change.name, None)
        else:
            controls[change.name] = change.control
    return dict(sorted(controls.items()))


def check(kind: ControlKind, text: str) -> None:
    """Refuse a text that is not a control of this kind.

    Raises:
        SyntaxRefused: the text is not SPARQL, or not Turtle.
        UserError: the text is not an ASK query, or contains no shapes.
        Unsupported: the text is not (fully) understood, or uses SERVICE.
        Forbidden: the text names a reserved graph.
        TooLarge: the text has more than `LIMIT` bytes.

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
    names = names_of_query(text)
    refuse_reserved_names(text, names)
    refuse_ill_formed(text, names)


def refuse_wild(text: str) -> None:
    """Refuse a query that might crash pyoxigraph, or that pyoxigraph would send to another server.

    Raises:
        Unsupported: the query is such a query.

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
