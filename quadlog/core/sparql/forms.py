"""Parser of an update, one operation after the other.

Data, templates, USING, WITH and graph names are parsed to terms.  A WHERE stays text, because
pyoxigraph evaluates it; only its end is located, and each SERVICE is cut out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyoxigraph import DefaultGraph, Variable

from quadlog.core.sparql.graphs import GraphNames
from quadlog.core.sparql.groups import Groups
from quadlog.core.sparql.operations import (
    Clear,
    Create,
    DeleteData,
    Drop,
    InsertData,
    Load,
    Modify,
    Send,
    Transfer,
    Where,
    slots_of,
)
from quadlog.core.sparql.quad_data import DataParser, TemplateParser
from quadlog.core.sparql.text.prologue import Prologue
from quadlog.core.sparql.text.reader import TextReader
from quadlog.core.sparql.text.terms import BlankNodes, Literals
from quadlog.errors import Unsupported, UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyoxigraph import NamedNode

    from quadlog.core.sparql.operations import Operation, QuadTemplate, Service
    from quadlog.core.sparql.using import Using

MAX_LOADS: Final = 100
"""Maximum number of LOADs in one update: each costs its worker up to 0.1 s, if it may be fetched."""


class FormParser:
    """Parser of one update.  Labels of blank nodes are derived from the transaction's id."""

    def __init__(self, text: str, tx_id: bytes, using: Using | None) -> None:
        """Start before the first operation.  ``using``: dataset of every WHERE; None if the request names none."""
        self._reader = TextReader(text)
        self._prologue = Prologue()
        self._graphs = GraphNames(self._reader, self._prologue.names)
        self._groups = Groups(self._reader, self._prologue, self._graphs)
        self._using = using
        self._literals = Literals()
        self._tx_id = tx_id
        self._number = self._loads = 0

    def operations(self) -> Iterator[Operation]:
        """Yield all operations, which are separated by ``;``."""
        reader = self._reader
        while True:
            self._prologue.read(reader)
            if self._number == 0 and reader.accept(";") and reader.kind != "end":
                reader.lost("where the end was expected")
            if reader.kind == "end":
                return
            yield self._operation()
            self._number += 1
            if not reader.accept(";"):
                if reader.kind != "end":
                    reader.lost("where ; or the end was expected")
                return

    def _operation(self) -> Operation:
        reader, graphs = self._reader, self._graphs
        form = reader.word()
        match form:
            case "INSERT" | "DELETE":
                return self._insert_or_delete(form)
            case "WITH":
                reader.advance()
                graph = graphs.graph()
                form = reader.word()
                if form not in {"INSERT", "DELETE"}:
                    reader.lost("where DELETE or INSERT was expected")
                reader.advance()
                return self._modify(form, graph)
            case "CLEAR" | "DROP":
                reader.advance()
                silent, target = graphs.accept("SILENT"), graphs.target()
                return (Clear if form == "CLEAR" else Drop)(target=target, silent=silent)
            case "CREATE":
                reader.advance()
                silent = graphs.accept("SILENT")
                graphs.expect("GRAPH")
                return Create(graph=graphs.graph(), silent=silent)
            case "ADD" | "MOVE" | "COPY" | "LOAD":
                reader.advance()
                return self._load() if form == "LOAD" else self._send(Transfer(form))
            case _:
                return reader.lost("where an operation was expected")

    def _send(self, transfer: Transfer) -> Send:
        silent = self._graphs.accept("SILENT")
        source = self._graphs.graph_or_default()
        self._graphs.expect("TO")
        return Send(transfer=transfer, source=source, target=self._graphs.graph_or_default(), silent=silent)

    def _load(self) -> Load:
        graphs = self._graphs
        self._loads += 1
        if self._loads > MAX_LOADS:
            raise Unsupported(f"more than {MAX_LOADS} LOADs in one update: send them in several")
        silent, source = graphs.accept("SILENT"), graphs.iri()
        graph: NamedNode | DefaultGraph = DefaultGraph()
        if graphs.accept("INTO"):
            graphs.expect("GRAPH")
            graph = graphs.graph()
        return Load(number=self._number, source=source, graph=graph, silent=silent)

    def _insert_or_delete(self, form: str) -> Operation:
        reader = self._reader
        reader.advance()
        if reader.word() == "DATA":
            reader.advance()
            nodes = BlankNodes(self._tx_id, self._number) if form == "INSERT" else None
            quads = DataParser(reader, self._prologue.names, self._literals, nodes).block()
            return InsertData(quads=quads) if form == "INSERT" else DeleteData(quads=quads)
        if form == "DELETE" and reader.word() == "WHERE":
            return self._delete_where()
        return self._modify(form, None)

    def _delete_where(self) -> Modify:
        reader = self._reader
        reader.advance()
        start = reader.start
        deletes = self._template(None, form="DELETE")
        group = reader.text[start : reader.start].rstrip()
        return self._modified(deletes, (), self._groups.tamed(group, group))

    def _modify(self, form: str, graph: NamedNode | None) -> Modify:
        """Parse the rest of an operation after its first DELETE or INSERT; ``graph`` is that of WITH."""
        reader = self._reader
        deletes: tuple[QuadTemplate, ...] = ()
        inserts: tuple[QuadTemplate, ...] = ()
        if form == "DELETE":
            deletes = self._template(graph, form=form)
        if form == "INSERT" or reader.word() == "INSERT":
            if form == "DELETE":
                reader.advance()
            inserts = self._template(graph, form="INSERT")
        default: list[NamedNode] = []
        named: list[NamedNode] = []
        while self._graphs.accept("USING"):
            into = named if self._graphs.accept("NAMED") else default
            into.append(self._graphs.graph())
        self._graphs.expect("WHERE")
        group, services = self._groups.read(self._number)
        if self._using is not None and (default or named or graph is not None):
            raise UserError(
                "USING and WITH cannot stand in an update that comes with using-graph-uri or"
                " using-named-graph-uri (SPARQL 1.1 Protocol, 2.2.3)"
            )
        if default or named:
            return self._modified(deletes, inserts, group, tuple(default), tuple(named), services=services)
        return self._modified(deletes, inserts, group, None if graph is None else (graph,), services=services)

    def _modified(
        self,
        deletes: tuple[QuadTemplate, ...],
        inserts: tuple[QuadTemplate, ...],
        group: str,
        default: tuple[NamedNode, ...] | None = None,
        named: tuple[NamedNode, ...] | None = None,
        *,
        services: tuple[Service, ...] = (),
    ) -> Modify:
        variables = tuple(dict.fromkeys(slot.value for slot in slots_of((*deletes, *inserts), Variable)))
        if self._using is not None:
            default, named = self._using.default, self._using.named
        columns = " ".join(f"?{name}" for name in variables) or "*"
        head = f"{self._prologue.text}SELECT {columns} WHERE "
        behind = tuple(replace(service, at=len(head) + service.at) for service in services)
        where = Where(text=head + group, variables=variables, default=default, named=named, services=behind)
        return Modify(number=self._number, deletes=deletes, inserts=inserts, where=where)

    def _template(self, graph: NamedNode | None, *, form: str) -> tuple[QuadTemplate, ...]:
        # Here, blank nodes with different labels become different nodes; later, each solution gets its own nodes.
        nodes = BlankNodes(self._tx_id, self._number) if form == "INSERT" else None
        return TemplateParser(self._reader, self._prologue.names, self._literals, nodes, graph).block()
