"""``BNODE(label)``: one new node for each label and solution (SPARQL 1.1, 17.4.2.9).

pyoxigraph returns the node with that label, which may be stored, and which is the same for all solutions.  The
calls are therefore replaced by calls of a custom function.

The function must know when the next solution begins.  Consecutive expressions, those of a SELECT clause or of
BINDs with only FILTERs between them, are a *scope*: pyoxigraph evaluates all of them for one solution before it
continues with the next one.  The first expression of a scope with two or more calls reports that a solution
begins, whichever of its calls are evaluated.  A call that is alone in its scope creates a new node each time.

>>> labelled_nodes('SELECT * { BIND(BNODE("k") AS ?a) }', BlankNode)[0]
'SELECT * { BIND(<urn:quadlog:function:node>("k") AS ?a) }'
>>> labelled_nodes('SELECT (BNODE("k") AS ?a) (BNODE("k") AS ?b) {}', BlankNode)[0]
... # doctest: +NORMALIZE_WHITESPACE
'SELECT (<urn:quadlog:function:within>(<urn:quadlog:function:solution>(1),<urn:quadlog:function:node>(1,"k") )AS
 ?a) (<urn:quadlog:function:node>(1,"k") AS ?b) {}'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadlog.core.sparql.text.terms import XSD_STRING
from quadlog.core.sparql.text.tokens import CLOSING, OPENING, edited, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple

_CALLED: Final = re.compile(r"(?i)BNODE(?:[ \t\r\n]++|#[^\r\n]*+)*+\((?![ \t\r\n]*+\))")
_NAMES: Final = {name: NamedNode(f"urn:quadlog:function:{name}") for name in ("node", "solution", "within")}
_AGGREGATES: Final = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")
_IN_FRONT: Final = ("BIND", "FILTER", "HAVING", "SELECT", "DISTINCT", "REDUCED", "BY", "ASC", "DESC")
"""Words before a bracket that does not belong to a function.  pyoxigraph needs no space between words."""
_GLUED: Final = re.compile(r"(?i)(?:TRUE|FALSE)?(?:FILTER|HAVING|BY)")


def labelled_nodes(
    text: str, new: Callable[[], BlankNode]
) -> tuple[str, Mapping[NamedNode, Callable[..., Term]]]:
    """Replace the calls of BNODE with an argument; return the query and the custom functions that it calls instead.

    `new` returns a new blank node.
    """
    if _CALLED.search(text) is None:
        return text, {}
    calls = list(_Calls(text).found())
    edits = sorted(_edits(calls), key=lambda edit: edit[:2])
    return edited(text, edits), _Nodes(new).functions()


class _Nodes:
    """Nodes that the calls of one evaluation have created, by scope and label."""

    def __init__(self, new: Callable[[], BlankNode]) -> None:
        self._new = new
        self._of_scope: dict[str, dict[str, BlankNode]] = {}

    def functions(self) -> dict[NamedNode, Callable[..., Term]]:
        by_name: dict[str, Callable[..., Term]] = {
            "node": self._node,
            "solution": self._solution,
            "within": self._within,
        }
        return {_NAMES[name]: function for name, function in by_name.items()}

    def _solution(self, scope: Literal) -> Literal:
        self._of_scope[scope.value] = {}
        return scope

    @staticmethod
    def _within(_: Term, value: Term) -> Term:
        return value

    def _node(self, *arguments: Term) -> BlankNode:
        *scope, label = arguments
        if not isinstance(label, Literal) or label.datatype.value != XSD_STRING:
            raise ValueError("BNODE takes a simple literal")  # an ordinary error of the expression
        if not scope:
            return self._new()
        assert isinstance(scope[0], Literal), "the number of a scope"
        nodes = self._of_scope[scope[0].value]
        if label.value not in nodes:
            nodes[label.value] = self._new()
        return nodes[label.value]


@dataclass(slots=True, eq=False)
class _Scope:
    """Expressions that are evaluated together for each solution."""

    calls: int = 0
    first: _Frame | None = None
    """The expression that contains its first call."""


@dataclass(slots=True, eq=False)
class _Frame:
    """An open bracket, or the whole text, and the state of the reading in it."""

    scope: _Scope | None
    """Scope of the calls in it; None if each call has a scope of its own."""
    outer: _Frame | None = None
    """Outermost bracket of the expression that it belongs to; None outside expressions."""
    begins: int = 0
    """Start of the expression, if this is its outermost bracket."""
    ends: int = 0
    """End of the expression, if this is its outermost bracket."""
    is_function: bool = False
    """True if the name of a function is a part of the expression."""
    in_select: bool = False
    in_binds: bool = False
    in_filter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    start: int
    end: int
    scope: _Scope


class _Calls:
    """Search for the calls of BNODE with an argument in a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open = [_Frame(None)]
        self._before = ("", "", 0)
        """Kind, value and start of the last token."""

    def found(self) -> Iterator[_Call]:
        """Yield the calls in their order; their scopes are complete only after the last one."""
        for token in tokens(self._text):
            kind = token.lastgroup or ""
            value, start = token[kind], token.start(kind)
            is_open = kind == "mark" and value in OPENING
            if is_open:
                frame = self._opened(value, token.end())
                if value == "(" and self._before[0] == "word" and self._before[1].upper().endswith("BNODE"):
                    yield self._call(frame, token.end())
                self._open.append(frame)
            elif kind == "mark" and value in CLOSING:
                self._close(start)
            elif self._open[-1].outer is None:
                self._pass_in_group(kind, value.upper())
            elif kind == "word" and value.upper().endswith("AS") and self._open[-1].outer is self._open[-1]:
                self._open[-1].ends = token.end() - len("AS")
            self._before = kind, value, start

    def _call(self, frame: _Frame, end: int) -> _Call:
        """Return the call to which the bracket `frame` belongs; `end`: offset after the bracket."""
        _, word, start = self._before
        inside = frame if frame.outer is frame else self._open[-1]
        scope = inside.scope or _Scope()
        scope.calls += 1
        scope.first = scope.first or inside.outer
        return _Call(start=start + len(word) - len("BNODE"), end=end, scope=scope)

    def _opened(self, bracket: str, end: int) -> _Frame:
        inside = self._open[-1]
        kind, value, _ = self._before
        word = value.upper() if kind == "word" else ""
        if inside.outer is not None and bracket != "{":
            return _Frame(None if word in _AGGREGATES else inside.scope, inside.outer)
        if bracket != "(":
            if inside.outer is None:
                inside.in_binds = inside.in_binds and inside.in_filter
                inside.in_filter = inside.in_select = False
            return _Frame(None)
        is_function = kind in {"iri", "pname"} or (kind == "word" and not word.endswith(_IN_FRONT))
        return self._expression(inside, end, is_function=is_function)

    def _expression(self, inside: _Frame, end: int, *, is_function: bool) -> _Frame:
        """Return the bracket of an expression, or of a path or collection, which contains no calls."""
        kind, word, start = self._before
        begins = end
        if is_function:
            glued = _GLUED.match(word) if kind == "word" else None
            begins = start + (glued.end() if glued else 0)
        alone = not inside.in_select and (inside.in_filter or not word.upper().endswith("BIND"))
        if alone and not inside.in_filter:
            inside.in_binds = False
        inside.in_filter = False
        frame = _Frame(_Scope() if alone else inside.scope, begins=begins, is_function=is_function)
        frame.outer = frame
        return frame

    def _close(self, start: int) -> None:
        if len(self._open) == 1:
            return
        frame = self._open.pop()
        if frame.outer is frame and (frame.is_function or not frame.ends):
            frame.ends = start + 1 if frame.is_function else start

    def _pass_in_group(self, kind: str, value: str) -> None:
        """Process a token outside expressions."""
        group = self._open[-1]
        if kind == "word" and "SELECT" in value:
            group.in_select, group.scope = True, _Scope()
        elif kind == "word" and "FILTER" in value:
            group.in_filter = True
        elif kind == "word" and value.endswith("BIND"):
            if not group.in_binds:
                group.in_binds, group.scope = True, _Scope()
        elif group.in_filter:
            group.in_filter = kind != "nil"
        elif value != "." and not group.in_select:
            group.in_binds = False


def _edits(calls: list[_Call]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of each replacement."""
    numbers: dict[_Scope, int] = {}
    for call in calls:
        shared = call.scope.calls > 1
        if shared and call.scope not in numbers:
            number = numbers[call.scope] = len(numbers) + 1
            first = call.scope.first
            assert first is not None, "a scope with calls"
            yield first.begins, first.begins, f"{_NAMES['within']}({_NAMES['solution']}({number}),"
            yield first.ends, first.ends, ")"
        number = numbers.get(call.scope, 0)
        yield call.start, call.end, f"{_NAMES['node']}({number}," if number else f"{_NAMES['node']}("
