"""RDF Patch: quads to add and to remove, one on each line, as an alternative payload to SPARQL text.

The supported format is Apache Jena's, https://jena.apache.org/documentation/rdf-patch/, with N-Quads terms:

    H id <urn:x> .                      a header: ignored, the log has its own order
    TX .  TC .                          begin and end of a block; all blocks of a patch are one transaction
    PA "ex" "http://ex/" .  PD "ex" .   prefixes: ignored, stores here have none
    A <s> <p> "o" <g> .                 this quad exists afterwards
    D <s> <p> <_:b1> .                  this quad is gone afterwards; without a graph: of the default graph
    DP <s> * * DEFAULT .                an extension: all matching quads are gone; `*`: any term or graph

``<_:b1>`` is the stored blank node with this label.  ``_:b1`` is a new blank node, the same in the whole
patch, and so is allowed in ``A`` only.  An aborted block (``TA``) is refused: the sender may have meant
something else.
"""

from __future__ import annotations

import io
import re
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NoReturn

import pyoxigraph as ox
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple

from quadlog.core.sparql.operations import DeleteData, DeletePattern, InsertData
from quadlog.core.sparql.quad_data import refuse_reserved
from quadlog.core.sparql.text.caution import MAX_NESTING
from quadlog.core.sparql.text.datatypes import IllFormedLiteral
from quadlog.core.sparql.text.syntax import RESERVED_PREFIX
from quadlog.core.sparql.text.terms import BlankNodes, Literals
from quadlog.core.sparql.text.tokens import BLANK_NODE
from quadlog.errors import SyntaxRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.effects.template import Term
    from quadlog.core.sparql.operations import DataOperation

MEDIA_TYPE: Final = "application/rdf-patch"

LINES: Final = 1_000
"""Lines parsed at a time, within a millisecond or two: other threads run in between."""
BYTES: Final = 128 * 1024
"""Bytes parsed at a time, unless the first line alone is longer."""

MAX_PATTERNS: Final = 10_000
"""Maximum number of patterns in a patch: each one searches the quads that the lines before it add."""

_NODES: Final = 10_000
"""Number of labels whose blank nodes are cached; those of other labels are derived again."""

_SPECIAL: Final = re.compile(rb"_:|<<|\^\^|\\[uU]|" + RESERVED_PREFIX.encode())
"""Matches in lines that need more checks than that they are N-Quads."""
_STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_IRI = r"<[^<>\s]*+>"


# Compiling all letters of blank nodes takes milliseconds: only processes that read a patch do it, once.
@cache
def _node() -> re.Pattern[str]:
    return re.compile(rf"{_STRING.pattern}|<_:(?P<stored>[^<>]*+)>|<[^<>]*+>|(?P<new>{BLANK_NODE})")


@cache
def _label() -> re.Pattern[str]:
    return re.compile(BLANK_NODE)


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile(
        rf"(\*|{_IRI}|{BLANK_NODE})\s+(\*|{_IRI})\s+"
        rf"(\*|{_IRI}|{BLANK_NODE}|{_STRING.pattern}(?:@[A-Za-z0-9-]++|\^\^{_IRI})?|<<\(.*\)>>)\s+"
        rf"(\*|DEFAULT|{_IRI}|{BLANK_NODE})\s*\.\s*(?:\#.*)?"
    )


def parse_patch(body: bytes, *, tx_id: bytes) -> Iterator[DataOperation]:
    """Yield the operations of a patch, in order; they depend only on its bytes and the transaction's id.

    >>> [add, remove] = parse_patch(b'A <urn:s> <urn:p> "x" .' + bytes([10]) + b"DP <urn:s> * * * .", tx_id=b"1")
    >>> add.quads[0].object.value, remove.subject, remove.graph
    ('x', <NamedNode value=urn:s>, None)

    Raises:
        SyntaxRefused: the body is not a patch, or not one that is understood; the error names the line.
        Forbidden: the patch names a reserved graph.
    """
    return _Parser(tx_id).operations(body)


class _Parser:
    """Collects lines, and parses many at once."""

    def __init__(self, tx_id: bytes) -> None:
        """Start a patch; its new blank nodes get labels in the same way as those of INSERT DATA."""
        self._new = lru_cache(maxsize=_NODES)(BlankNodes(tx_id, 0).named)
        self._literals = Literals()
        self._rows: list[tuple[bytes, bytes, int, bool]] = []
        """Code, N-Quads line, line number, and whether the line is special."""
        self._size = self._patterns = 0
        self._in_block = False

    def operations(self, body: bytes) -> Iterator[DataOperation]:
        """Yield all operations of a patch."""
        begun, number = False, 0
        for number, line in enumerate(io.BytesIO(body), 1):
            code, _, rest = line.strip().partition(b" ")
            if not code or code.startswith(b"#"):
                continue
            if code in {b"A", b"D"}:
                self._gather(code, rest, number)
                if len(self._rows) >= LINES or self._size >= BYTES:
                    yield from self._gathered()
            elif code == b"DP":
                yield from self._gathered()
                yield self._pattern(rest, number)
            else:
                self._mark(code, rest, number, begun=begun)
            begun = begun or code != b"H"
        yield from self._gathered()
        if self._in_block:
            _refuse(number, "the patch ends in the middle of a block: TC . is missing; is it whole?")

    def _mark(self, code: bytes, rest: bytes, number: int, *, begun: bool) -> None:
        """Check a line that changes no quad."""
        name = code[:20].decode(errors="replace")
        if code not in {b"H", b"PA", b"PD", b"TX", b"TC", b"TA"}:
            _refuse(
                number, f"{name!r} is none of H, TX, TC, PA, PD, A, D, DP; prefixed names are not understood"
            )
        if code == b"TA":
            _refuse(number, "TA aborts a block: leave the block out")
        if not rest.endswith(b"."):
            _refuse(number, f"{name} … has no . at its end")
        if code == b"H" and begun:
            _refuse(number, "a header stands before all else")
        if code in {b"TX", b"TC"}:
            if self._in_block is (code == b"TX"):
                _refuse(
                    number,
                    "TX . in a block that TC . has not ended" if self._in_block else "TC . without TX .",
                )
            self._in_block = not self._in_block

    def _gather(self, code: bytes, rest: bytes, number: int) -> None:
        # Each line must be one statement, so that many lines can be parsed together.
        if not rest or rest.startswith(b"#") or b"\r" in rest:
            _refuse(number, "after A or D stand a quad and . in one line")
        special = _SPECIAL.search(rest) is not None
        if special:
            rest = self._checked(code, rest, number).encode()
        self._rows.append((code, rest, number, special))
        self._size += len(rest)

    def _checked(self, code: bytes, rest: bytes, number: int) -> str:
        """Return a line with blank nodes by their labels in a store; refuse triple terms that are nested too deeply."""
        try:
            text = rest.decode()
        except UnicodeDecodeError as error:
            _refuse(number, f"it is not UTF-8: {error}")
        if text.count("<<") > MAX_NESTING and _STRING.sub("", text).count("<<") > MAX_NESTING:
            _refuse(number, f"triple terms are nested deeper than {MAX_NESTING} levels")

        def named(match: re.Match[str]) -> str:
            stored, new = match.group("stored", "new")
            if stored is not None:
                if _label().fullmatch(f"_:{stored}") is None:
                    _refuse(number, f"<_:{stored[:100]}> is no blank node: that is no label")
                return f"_:{stored}"
            if new is None:
                return match[0]
            if code != b"A":
                _refuse(number, f"{new} is a new blank node, which is nowhere yet; a stored one is <{new}>")
            return str(self._new(new))

        return _node().sub(named, text) if "_:" in text else text

    def _gathered(self) -> Iterator[DataOperation]:
        """Yield the operations of the collected lines, one for each run of lines with the same code."""
        rows, self._rows, self._size = self._rows, [], 0
        pairs = zip((row[0] for row in rows), self._quads(rows), strict=True)
        for code, run in groupby(pairs, itemgetter(0)):
            quads = tuple(quad for _, quad in run)
            yield InsertData(quads=quads) if code == b"A" else DeleteData(quads=quads)

    def _quads(self, rows: list[tuple[bytes, bytes, int, bool]]) -> Iterator[Quad]:
        text = b"\n".join(row[1] for row in rows)
        try:
            for row, quad in zip(rows, _parsed(text), strict=True):
                yield self._stored(quad, row[2]) if row[3] else quad
        except (SyntaxError, ValueError) as error:
            line = error.lineno if isinstance(error, SyntaxError) and error.lineno else 1
            _refuse(rows[line - 1][2], _words(error))

    def _pattern(self, rest: bytes, number: int) -> DeletePattern:
        self._patterns += 1
        if self._patterns > MAX_PATTERNS:
            _refuse(number, f"more than {MAX_PATTERNS} patterns (DP) in one patch: send them in several")
        found = _pattern().fullmatch(self._checked(b"DP", rest, number))
        if found is None:
            _refuse(
                number,
                "DP has a subject, a predicate, an object and a graph, each a term or *, or DEFAULT as the graph",
            )
        subject, predicate, value, graph = found.groups()
        stand_ins = (text if text != "*" else "<urn:any>" for text in (subject, predicate, value))
        end = "" if graph in {"*", "DEFAULT"} else graph
        try:
            [quad] = _parsed(f"{' '.join(stand_ins)} {end} .".encode())
        except (SyntaxError, ValueError) as error:
            _refuse(number, _words(error))
        quad = self._stored(quad, number)
        name = quad.graph_name
        assert not isinstance(name, BlankNode), "that is refused"
        return DeletePattern(
            subject=None if subject == "*" else quad.subject,
            predicate=None if predicate == "*" else quad.predicate,
            object=None if value == "*" else quad.object,
            graph=None if graph == "*" else name,
        )

    def _stored(self, quad: Quad, number: int) -> Quad:
        graph, value = quad.graph_name, quad.object
        if isinstance(graph, BlankNode):
            _refuse(number, f"the graph {graph} is a blank node: graphs are named by IRIs")
        if isinstance(graph, NamedNode):
            refuse_reserved(graph)
        if isinstance(value, NamedNode | BlankNode):
            return quad
        try:
            value = self._value(value)
        except IllFormedLiteral as error:
            _refuse(number, str(error))
        return Quad(quad.subject, quad.predicate, value, graph)

    def _value(self, term: Term) -> Term:
        if isinstance(term, Literal):
            return self._literals.typed(term.value, term.datatype) if term.language is None else term
        if isinstance(term, Triple):
            return Triple(term.subject, term.predicate, self._value(term.object))
        return term


def _parsed(text: bytes) -> Iterable[Quad]:
    return (quad for quad in ox.parse(text, RdfFormat.N_QUADS) if isinstance(quad, Quad))


def _words(error: Exception) -> str:
    """Return the parser's message without its own line number."""
    return str(error).removeprefix("Parser error ").partition(": ")[2] or str(error)


def _refuse(number: int, why: str) -> NoReturn:
    raise SyntaxRefused(f"not an RDF Patch that is understood here: line {number}: {why}")


def pattern_line(subject: Term | None, predicate: NamedNode | None, value: Term | None, graph: str) -> str:
    """Return the line that removes all matching quads; ``graph``: an IRI in angle brackets, ``DEFAULT`` or ``*``.

    >>> pattern_line(None, None, NamedNode("urn:o"), "DEFAULT")
    'DP * * <urn:o> DEFAULT .'
    """
    terms = (_written(term) for term in (subject, predicate, value))
    return f"DP {' '.join(terms)} {graph} ."


def _written(term: Term | None) -> str:
    if isinstance(term, BlankNode):
        return f"<{term}>"
    if isinstance(term, Triple):
        return exact(f"<<( {term} )>>")
    return "*" if term is None else str(term)


def exact(line: str) -> str:
    """Return an N-Quads line in which blank nodes refer to those of a store.

    >>> exact('_:b <urn:p> "_:x" .')
    '<_:b> <urn:p> "_:x" .'
    """
    return (
        _node().sub(lambda match: f"<{match['new']}>" if match["new"] else match[0], line)
        if "_:" in line
        else line
    )
