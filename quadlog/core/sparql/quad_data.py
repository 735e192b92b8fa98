"""Parsers of ``{ … }`` blocks of quads: data, and templates, which are filled in by solutions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar, cast

from pyoxigraph import BaseDirection, BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple, Variable

from quadlog.core.sparql.operations import QuadTemplate, TripleTemplate
from quadlog.core.sparql.text.caution import MAX_NESTING
from quadlog.core.sparql.text.syntax import RESERVED_PREFIX
from quadlog.core.sparql.text.terms import (
    FALSE,
    RDF_FIRST,
    RDF_NIL,
    RDF_REIFIES,
    RDF_REST,
    RDF_TYPE,
    TRUE,
    string_value,
)
from quadlog.errors import Forbidden

if TYPE_CHECKING:
    from quadlog.core.sparql.operations import Slot
    from quadlog.core.sparql.text.reader import TextReader
    from quadlog.core.sparql.text.terms import BlankNodes, Literals, Names

Q = TypeVar("Q")


class BlockParser(ABC, Generic[Q]):
    """Parser of the block of one operation."""

    def __init__(
        self,
        reader: TextReader,
        names: Names,
        literals: Literals,
        nodes: BlankNodes | None,
        graph: NamedNode | DefaultGraph | None = None,
    ) -> None:
        """Start before the block.

        `nodes`: those of the operation; None if blank nodes are not allowed.
        `graph`: that of the triples outside GRAPH; None for the default graph.
        """
        self._reader = reader
        self._names = names
        self._literals = literals
        self._nodes = nodes
        self._outside: NamedNode | DefaultGraph = DefaultGraph() if graph is None else graph
        self._graph: NamedNode | DefaultGraph | Variable = self._outside
        self._quads: list[Q] = []
        self._depth = 0

    @abstractmethod
    def _emit(self, subject: Slot, predicate: Slot, value: Slot) -> None:
        """Append a quad."""

    @abstractmethod
    def _triple(self, subject: Slot, predicate: Slot, value: Slot) -> Slot:
        """Return a triple term."""

    @abstractmethod
    def _variable(self, token: str) -> Variable:
        """Return a variable; raise ``SyntaxRefused`` where none is allowed."""

    def block(self) -> tuple[Q, ...]:
        """Parse ``{ triples… GRAPH <g> { triples… } … }``."""
        reader = self._reader
        reader.expect("{")
        while not reader.accept("}"):
            if reader.word() == "GRAPH":
                self._graph_block()
                reader.accept(".")
            else:
                self._triples()
        return tuple(self._quads)

    def _graph_block(self) -> None:
        reader = self._reader
        reader.advance()
        self._graph = self._name("a graph name")
        if isinstance(self._graph, NamedNode):
            refuse_reserved(self._graph)
        reader.expect("{")
        while not reader.accept("}"):
            self._triples()
        self._graph = self._outside

    def _triples(self) -> None:
        """Parse one subject and its property list."""
        reader = self._reader
        stands_alone = reader.value in {"[", "(", "<<"} and reader.kind == "mark"
        subject = self._node()
        if isinstance(subject, _NO_SUBJECT):
            reader.lost("after a subject that is neither IRI nor blank node")
        if not (stands_alone and reader.value in {".", "}"}):
            self._property_list(subject)
        if not reader.accept(".") and reader.value != "}" and reader.word() != "GRAPH":
            reader.wrong("expected . or }")

    def _property_list(self, subject: Slot) -> None:
        reader = self._reader
        while True:
            predicate = self._verb()
            self._object_list(subject, predicate)
            if not reader.accept(";"):
                return
            while reader.accept(";"):
                pass
            if reader.kind == "mark":  # a trailing `;`
                return

    def _object_list(self, subject: Slot, predicate: Slot) -> None:
        reader = self._reader
        while True:
            value = self._node()
            self._emit(subject, predicate, value)
            if reader.value in {"~", "{|"}:
                self._annotations(subject, predicate, value)
            if not reader.accept(","):
                return

    def _annotations(self, subject: Slot, predicate: Slot, value: Slot) -> None:
        """Parse any number of ``~ reifier {| … |}``."""
        reader = self._reader
        while reader.value in {"~", "{|"} and reader.kind == "mark":
            reifier = self._reifier(self._triple(subject, predicate, value))
            if reader.accept("{|"):
                self._nested(reifier, "|}")

    def _reifier(self, triple: Slot) -> Slot:
        """Parse ``~ name``, ``~`` or nothing; return the node that reifies the triple."""
        reader = self._reader
        node: Slot
        if reader.accept("~") and reader.kind in {"iri", "pname", "bnode", "anon", "var"}:
            node = self._node()
        else:
            node = self._fresh()
        self._emit(node, RDF_REIFIES, triple)
        return node

    def _verb(self) -> NamedNode | Variable:
        if self._reader.value == "a" and self._reader.kind == "word":
            self._reader.advance()
            return RDF_TYPE
        return self._name("a predicate")

    def _name(self, wanted: str) -> NamedNode | Variable:
        """Parse an IRI, or a variable in its place."""
        if self._reader.kind != "var":
            return self._iri(wanted)
        variable = self._variable(self._reader.value)
        self._reader.advance()
        return variable

    def _iri(self, wanted: str) -> NamedNode:
        if self._reader.kind not in {"iri", "pname"}:
            self._no_term(wanted)
        node = self._node()
        assert isinstance(node, NamedNode)
        return node

    def _node(self) -> Slot:
        """Parse any term, and append the quads that its syntax implies."""
        reader = self._reader
        kind, value = reader.kind, reader.value
        try:
            if kind == "mark":
                return self._composite(value)
            if kind == "string":
                return self._literal(string_value(value))
            node = self._plain(kind, value)
        except (
            SyntaxError,
            ValueError,
        ) as error:  # of pyoxigraph: an invalid IRI, language or character
            reader.wrong(str(error))
        reader.advance()
        return node

    def _plain(self, kind: str, value: str) -> Slot:
        """Return the term of a single token."""
        node: Slot
        match kind:
            case "iri":
                node = self._names.iri(value)
            case "pname":
                node = self._names.prefixed(value)
            case "number":
                node = self._literals.number(value)
            case "bnode":
                node = self._labelled(value)
            case "anon":
                node = self._fresh()
            case "nil":
                node = RDF_NIL
            case "var":
                node = self._variable(value)
            case "word" if value in {"true", "false"}:
                node = TRUE if value == "true" else FALSE
            case _:
                self._no_term("a term")
        return node

    def _no_term(self, wanted: str) -> NoReturn:
        self._reader.lost(f"where {wanted} was expected")

    def _literal(self, value: str) -> Literal:
        """Parse the rest of a literal after its string: a language, a datatype or nothing."""
        reader = self._reader
        reader.advance()
        if reader.kind == "lang":
            language, _, direction = reader.value[1:].partition("--")
            reader.advance()
            if direction:
                return Literal(value, language=language, direction=BaseDirection(direction))
            return Literal(value, language=language)
        if reader.accept("^^"):
            return self._literals.typed(value, self._iri("a datatype"))
        return Literal(value)

    def _composite(self, opener: str) -> Slot:
        """Parse a term of several tokens, which begins with the mark `opener`."""
        reader = self._reader
        if opener not in {"[", "(", "<<", "<<("}:
            reader.lost("where a term was expected")
        self._deeper()
        reader.advance()
        node: Slot
        match opener:
            case "[":
                node = self._fresh()
                self._nested(node, "]")
            case "(":
                node = self._collection()
            case "<<":
                node = self._reifier(self._bare_triple())
                reader.expect(">>")
            case _:
                node = self._bare_triple()
                reader.expect(")>>")
        self._depth -= 1
        return node

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._reader.lost(f"nested deeper than {MAX_NESTING} levels")

    def _nested(self, subject: Slot, closer: str) -> None:
        """Parse a property list in brackets."""
        self._property_list(subject)
        self._reader.expect(closer)

    def _bare_triple(self) -> Slot:
        subject = self._node()
        if isinstance(subject, _NO_SUBJECT):
            self._reader.wrong("the subject of a triple is an IRI or a blank node")
        return self._triple(subject, self._verb(), self._node())

    def _collection(self) -> Slot:
        """Parse ``( a b … )`` as a linked list; return its first cell."""
        reader = self._reader
        first = cell = self._fresh()
        while True:
            self._emit(cell, RDF_FIRST, self._node())
            if reader.accept(")"):
                self._emit(cell, RDF_REST, RDF_NIL)
                return first
            following = self._fresh()
            self._emit(cell, RDF_REST, following)
            cell = following

    def _labelled(self, token: str) -> BlankNode:
        if self._nodes is None:
            self._reader.wrong("a blank node in DELETE DATA")
        return self._nodes.labelled(token)

    def _fresh(self) -> BlankNode:
        if self._nodes is None:
            self._reader.wrong("a blank node in DELETE DATA")
        return self._nodes.fresh()


class DataParser(BlockParser[Quad]):
    """Parser of the blocks of INSERT DATA and DELETE DATA, which have no variables."""

    def _emit(self, subject: Slot, predicate: Slot, value: Slot) -> None:
        s, p, o = cast("tuple[NamedNode, NamedNode, NamedNode]", (subject, predicate, value))
        self._quads.append(quad_of(s, p, o, cast("NamedNode | DefaultGraph", self._graph)))

    def _triple(self, subject: Slot, predicate: Slot, value: Slot) -> Triple:
        return Triple(*cast("tuple[NamedNode, NamedNode, NamedNode]", (subject, predicate, value)))

    def _variable(self, token: str) -> Variable:
        self._reader.wrong(f"a variable where there are only data: {token}")


class TemplateParser(BlockParser[QuadTemplate]):
    """Parser of the blocks of DELETE and INSERT with a WHERE."""

    def _emit(self, subject: Slot, predicate: Slot, value: Slot) -> None:
        self._quads.append(QuadTemplate(subject, predicate, value, self._graph))

    def _triple(self, subject: Slot, predicate: Slot, value: Slot) -> TripleTemplate:
        return TripleTemplate(subject, predicate, value)

    def _variable(self, token: str) -> Variable:
        return Variable(token[1:])


_NO_SUBJECT = (Literal, Triple, TripleTemplate)


def refuse_reserved(graph: NamedNode) -> None:
    """Raise ``Forbidden`` if the graph is reserved for a worker's own state."""
    if graph.value.startswith(RESERVED_PREFIX):
        raise Forbidden(f"graphs named {RESERVED_PREFIX}… are reserved")


def quad_of(
    subject: NamedNode | BlankNode | Triple,
    predicate: NamedNode,
    value: NamedNode | BlankNode | Literal | Triple,
    graph: NamedNode | BlankNode | DefaultGraph,
) -> Quad:
    """Return a quad.  pyoxigraph tries the types of graphs in turn: omitting the default graph saves 1.4 us."""
    if isinstance(graph, DefaultGraph):
        return Quad(subject, predicate, value)
    return Quad(subject, predicate, value, graph)
