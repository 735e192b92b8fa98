"""A ``{ … }`` block of INSERT DATA or DELETE DATA, from tokens to the quads it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, TypeAlias

from pyoxigraph import (
    BaseDirection,
    BlankNode,
    DefaultGraph,
    Literal,
    NamedNode,
    Quad,
    Triple,
)

from quadlog.core.sparql.syntax import RESERVED_PREFIX
from quadlog.core.sparql.terms import (
    FALSE,
    RDF_FIRST,
    RDF_NIL,
    RDF_REIFIES,
    RDF_REST,
    RDF_TYPE,
    TRUE,
    string_value,
)
from quadlog.core.sparql.tokens import MAX_NESTING
from quadlog.errors import Forbidden

if TYPE_CHECKING:
    from quadlog.core.sparql.reader import Reader
    from quadlog.core.sparql.terms import BlankNodes, Literals, Names

Subject: TypeAlias = NamedNode | BlankNode
Object: TypeAlias = NamedNode | BlankNode | Literal | Triple


class BlockParser:
    """Reads blocks of one operation; ``nodes`` is None where blank nodes are not allowed."""

    def __init__(self, reader: Reader, names: Names, literals: Literals, nodes: BlankNodes | None) -> None:
        """``names`` holds the prologue so far."""
        self._reader = reader
        self._names = names
        self._literals = literals
        self._nodes = nodes
        self._graph: NamedNode | DefaultGraph = DefaultGraph()
        self._quads: list[Quad] = []
        self._depth = 0

    def block(self) -> tuple[Quad, ...]:
        """``{ triples… GRAPH <g> { triples… } … }``."""
        reader = self._reader
        reader.expect("{")
        while not reader.take("}"):
            if reader.word() == "GRAPH":
                self._graph_block()
                reader.take(".")
            else:
                self._triples()
        return tuple(self._quads)

    def _graph_block(self) -> None:
        reader = self._reader
        reader.advance()
        self._graph = self._iri("a graph name")
        if self._graph.value.startswith(RESERVED_PREFIX):
            raise Forbidden(f"graphs named {RESERVED_PREFIX}… are reserved")
        reader.expect("{")
        while not reader.take("}"):
            self._triples()
        self._graph = DefaultGraph()

    def _emit(self, subject: Subject, predicate: NamedNode, value: Object) -> None:
        self._quads.append(Quad(subject, predicate, value, self._graph))

    def _triples(self) -> None:
        """One subject with all that is said of it."""
        reader = self._reader
        stands_alone = reader.value in {"[", "(", "<<"} and reader.kind == "mark"
        subject = self._node()
        if isinstance(subject, (Literal, Triple)):
            reader.lost("after a subject that is neither IRI nor blank node")
        if not (stands_alone and reader.value in {".", "}"}):
            self._property_list(subject)
        if not reader.take(".") and reader.value != "}" and reader.word() != "GRAPH":
            reader.wrong("expected . or }")

    def _property_list(self, subject: Subject) -> None:
        reader = self._reader
        while True:
            predicate = self._verb()
            self._object_list(subject, predicate)
            if not reader.take(";"):
                return
            while reader.take(";"):
                pass
            if reader.kind == "mark":  # a `;` at the end of the list
                return

    def _object_list(self, subject: Subject, predicate: NamedNode) -> None:
        reader = self._reader
        while True:
            value = self._node()
            self._emit(subject, predicate, value)
            if reader.value in {"~", "{|"}:
                self._annotations(subject, predicate, value)
            if not reader.take(","):
                return

    def _annotations(self, subject: Subject, predicate: NamedNode, value: Object) -> None:
        """``~ reifier {| … |}``, any number of them."""
        reader = self._reader
        while reader.value in {"~", "{|"} and reader.kind == "mark":
            reifier = self._reifier(Triple(subject, predicate, value))
            if reader.take("{|"):
                self._nested(reifier, "|}")

    def _reifier(self, triple: Triple) -> Subject:
        """``~ name``, ``~`` or nothing: the node that stands for a triple."""
        reader = self._reader
        node: Subject
        if reader.take("~") and reader.kind in {"iri", "pname", "bnode", "anon"}:
            found = self._node()
            assert isinstance(found, (NamedNode, BlankNode))
            node = found
        else:
            node = self._fresh()
        self._emit(node, RDF_REIFIES, triple)
        return node

    def _verb(self) -> NamedNode:
        if self._reader.value == "a" and self._reader.kind == "word":
            self._reader.advance()
            return RDF_TYPE
        return self._iri("a predicate")

    def _iri(self, wanted: str) -> NamedNode:
        if self._reader.kind not in {"iri", "pname"}:
            self._no_term(wanted)
        node = self._node()
        assert isinstance(node, NamedNode)
        return node

    def _node(self) -> Object:
        """Any term, and the triples that come with it."""
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
        ) as error:  # pyoxigraph's: no IRI, language, character
            reader.wrong(str(error))
        reader.advance()
        return node

    def _plain(self, kind: str, value: str) -> Object:
        """A term of one token."""
        node: Object
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
            case "word" if value in {"true", "false"}:
                node = TRUE if value == "true" else FALSE
            case _:
                self._no_term("a term")
        return node

    def _no_term(self, wanted: str) -> NoReturn:
        if self._reader.kind == "var":
            self._reader.wrong("a variable where there are only data")
        self._reader.lost(f"where {wanted} was expected")

    def _literal(self, value: str) -> Literal:
        """What follows a string: a language, a datatype or nothing."""
        reader = self._reader
        reader.advance()
        if reader.kind == "lang":
            language, _, direction = reader.value[1:].partition("--")
            reader.advance()
            if direction:
                return Literal(value, language=language, direction=BaseDirection(direction))
            return Literal(value, language=language)
        if reader.take("^^"):
            return self._literals.typed(value, self._iri("a datatype"))
        return Literal(value)

    def _composite(self, opener: str) -> Object:
        """A term of several tokens, by the mark that opens it."""
        reader = self._reader
        if opener not in {"[", "(", "<<", "<<("}:
            reader.lost("where a term was expected")
        self._deeper()
        reader.advance()
        node: Object
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

    def _nested(self, subject: Subject, closer: str) -> None:
        """A property list in brackets."""
        self._property_list(subject)
        self._reader.expect(closer)

    def _bare_triple(self) -> Triple:
        subject = self._node()
        if isinstance(subject, (Literal, Triple)):
            self._reader.wrong("the subject of a triple is an IRI or a blank node")
        return Triple(subject, self._verb(), self._node())

    def _collection(self) -> Subject:
        """``( a b … )`` as a linked list; its first cell."""
        reader = self._reader
        first = cell = self._fresh()
        while True:
            self._emit(cell, RDF_FIRST, self._node())
            if reader.take(")"):
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
