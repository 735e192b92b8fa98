"""Parsers of the two kinds of blocks: data, which contain quads, and templates, which are filled in by solutions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyoxigraph import Quad, Triple, Variable

from quadlog.core.sparql.operations import QuadTemplate, TripleTemplate
from quadlog.core.sparql.quad_data import BlockParser, quad_of

if TYPE_CHECKING:
    from pyoxigraph import DefaultGraph, NamedNode

    from quadlog.core.sparql.operations import Slot


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
