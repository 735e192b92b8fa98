"""Parser of the graph names in operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoxigraph import DefaultGraph

from quadlog.core.sparql.operations import Every
from quadlog.core.sparql.quad_data import refuse_reserved

if TYPE_CHECKING:
    from pyoxigraph import NamedNode

    from quadlog.core.sparql.operations import Target
    from quadlog.core.sparql.text.reader import TextReader
    from quadlog.core.sparql.text.terms import Names


class GraphNames:
    """Parser of graph names and the keywords around them."""

    def __init__(self, reader: TextReader, names: Names) -> None:
        """``names``: the declarations so far; the owner adds later ones."""
        self._reader, self._names = reader, names

    def accept(self, word: str) -> bool:
        """Skip a keyword if it is the next token; return whether it was."""
        if self._reader.word() != word:
            return False
        self._reader.advance()
        return True

    def expect(self, word: str) -> None:
        """Skip a required keyword."""
        if not self.accept(word):
            self._reader.lost(f"where {word} was expected")

    def target(self) -> Target:
        """Parse the operand of CLEAR or DROP: ``GRAPH <g>``, ``DEFAULT``, ``NAMED`` or ``ALL``."""
        if self.accept("GRAPH"):
            return self.graph()
        word = self._reader.word()
        if word not in {"DEFAULT", "NAMED", "ALL"}:
            self._reader.lost("where GRAPH, DEFAULT, NAMED or ALL was expected")
        self._reader.advance()
        return DefaultGraph() if word == "DEFAULT" else Every(word)

    def graph_or_default(self) -> NamedNode | DefaultGraph:
        """Parse an operand of ADD, MOVE or COPY: ``DEFAULT``, or a name with or without ``GRAPH``."""
        if self.accept("DEFAULT"):
            return DefaultGraph()
        self.accept("GRAPH")
        return self.graph()

    def graph(self) -> NamedNode:
        """Parse the name of a graph; raise ``Forbidden`` if it is reserved."""
        graph = self.iri()
        refuse_reserved(graph)
        return graph

    def iri(self) -> NamedNode:
        """Parse any IRI."""
        reader = self._reader
        try:
            if reader.kind == "iri":
                iri = self._names.iri(reader.value)
            elif reader.kind == "pname":
                iri = self._names.prefixed(reader.value)
            else:
                reader.lost("where an IRI was expected")
        except (SyntaxError, ValueError) as error:
            reader.wrong(str(error))
        reader.advance()
        return iri
