"""A WHERE as text: its end is looked for, and each SERVICE is cut out of it.  All else is pyoxigraph's."""

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
    from quadlog.core.sparql.text.reader import Reader

_BRACES = {"{": 1, "}": -1}

MAX_SERVICES: Final = 100
"""In one update: each is a request."""


class Groups:
    """Reads ``{ … }``."""

    def __init__(self, reader: Reader, prologue: Prologue, graphs: GraphNames) -> None:
        """``prologue`` goes along with what endpoints are asked."""
        self._reader, self._prologue, self._graphs = reader, prologue, graphs
        self._services = 0

    def read(self, number: int) -> tuple[str, tuple[Service, ...]]:
        """The text of a group, of the operation ``number``, and what was cut out of it."""
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
        """What stands under the eye, and where it ends; its answer goes ``at`` the text that is left."""
        reader, graphs = self._reader, self._graphs
        self._services += 1
        if self._services > MAX_SERVICES:
            raise Unsupported(f"more than {MAX_SERVICES} SERVICEs in one update: send them in several")
        where = reader.place()
        reader.advance()
        silent = graphs.take("SILENT")
        if reader.kind == "var":
            raise Unsupported(f"SERVICE with a variable ({where}) is not supported: name the endpoint")
        endpoint, start = graphs.iri(), reader.start
        end = self._pass_by()
        query = f"{self._prologue.text}SELECT * WHERE {reader.text[start:end]}"
        return Service(number=number, at=at, endpoint=endpoint, query=query, silent=silent), end

    def _pass_by(self, serve: Callable[[], None] | None = None) -> int:
        """Where the group under the eye ends; ``serve`` reads on wherever SERVICE stands in it."""
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
        """What pyoxigraph evaluates of a group, `rest`, in a form that it survives; Unsupported if there is none."""
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
