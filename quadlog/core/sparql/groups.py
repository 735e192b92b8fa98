"""The text of a WHERE: its end is located, and each SERVICE is cut out.  pyoxigraph parses all the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.sparql.operations import Service
from quadlog.core.sparql.reserved import refuse_reserved_names
from quadlog.core.sparql.text.caution import weigh
from quadlog.core.sparql.text.ground import without_ground_triples
from quadlog.core.sparql.typed import refuse_ill_formed
from quadlog.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.sparql.graphs import GraphNames
    from quadlog.core.sparql.text.prologue import Prologue
    from quadlog.core.sparql.text.reader import TextReader

_BRACES = {"{": 1, "}": -1}

MAX_SERVICES: Final = 100
"""Maximum number of SERVICEs in one update: each causes a request."""


class Groups:
    """Reader of group graph patterns, ``{ … }``."""

    def __init__(self, reader: TextReader, prologue: Prologue, graphs: GraphNames) -> None:
        """``prologue``: the declarations so far, which are prepended to the queries to endpoints."""
        self._reader, self._prologue, self._graphs = reader, prologue, graphs
        self._services = 0

    def read(self, number: int) -> tuple[str, tuple[Service, ...]]:
        """Return the text of a group of the operation ``number``, and the SERVICEs that were cut out of it."""
        reader = self._reader
        start, cut, services = reader.start, list[tuple[int, int]](), list[Service]()

        def serve() -> None:
            begin = reader.start
            at = begin - start - sum(end - begin for begin, end in cut)
            service, end = self._service(number, at)
            services.append(service)
            cut.append((begin, end))

        end = self._pass_by(serve)
        starts, ends = [start, *(end for _, end in cut)], [*(begin for begin, _ in cut), end]
        group = "".join(reader.text[one:other] for one, other in zip(starts, ends, strict=True))
        tamed = self.tamed(reader.text[start:end], group)
        if services and tamed != group:
            raise Unsupported(
                "a WHERE with SERVICE joins too much: give the ground triples an operation of their own"
            )
        return tamed, tuple(services)

    def _service(self, number: int, at: int) -> tuple[Service, int]:
        """Parse the SERVICE at the current token; return it and its end.

        ``at``: offset in the remaining text at which the answer will be inserted.
        """
        reader, graphs = self._reader, self._graphs
        self._services += 1
        if self._services > MAX_SERVICES:
            raise Unsupported(f"more than {MAX_SERVICES} SERVICEs in one update: send them in several")
        where = reader.place()
        reader.advance()
        silent = graphs.accept("SILENT")
        if reader.kind == "var":
            raise Unsupported(f"SERVICE with a variable ({where}) is not supported: name the endpoint")
        endpoint, start = graphs.iri(), reader.start
        end = self._pass_by()
        query = f"{self._prologue.text}SELECT * WHERE {reader.text[start:end]}"
        return Service(number=number, at=at, endpoint=endpoint, query=query, silent=silent), end

    def _pass_by(self, serve: Callable[[], None] | None = None) -> int:
        """Skip the group at the current token and return its end; call ``serve`` for each SERVICE in it."""
        reader, depth = self._reader, 0
        if reader.value != "{" or reader.kind != "mark":
            reader.lost("where { was expected")
        while True:
            if serve is not None and reader.word() == "SERVICE":
                serve()
                continue
            if reader.kind == "mark":
                depth += _BRACES.get(reader.value, 0)
            elif reader.kind == "end":
                reader.lost("where } was expected")
            end = reader.start + 1
            reader.advance()
            if depth == 0:
                return end

    def tamed(self, group: str, rest: str) -> str:
        """Return `rest`, the part of a group that pyoxigraph evaluates, in a form that does not overload pyoxigraph.

        Raises:
            Unsupported: there is no such form, or the group has a SERVICE that was not recognised.
            Forbidden: the group names a reserved graph.
            SyntaxRefused: the group has an ill-formed literal.

        """
        weight = weigh(group)
        if not weight.is_light:
            rest = without_ground_triples(rest)
            if not weight.is_tame or not weigh(rest).is_light:
                raise Unsupported("a WHERE is nested too deeply, or chains or joins too much")
        if weight.service and weigh(rest).service:
            raise Unsupported("SERVICE is not understood: add a space before it")
        refuse_reserved_names(group, self._prologue.names)
        refuse_ill_formed(group, self._prologue.names)
        return rest
