"""`/repositories/{repository}/statements`: adds, replaces and removes data without SPARQL text.

This is RDF4J's protocol for statements.  Data and removals become a patch (`quadlog.core.effects.patch`), which
is handled like any other update.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pyoxigraph as ox
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat

from quadlog.core.effects.patch import MEDIA_TYPE as PATCH
from quadlog.core.effects.patch import pattern_line
from quadlog.core.sparql.text.caution import MAX_NESTING
from quadlog.errors import TooLarge, UnsupportedMediaType, UserError
from quadlog.master.clients.commit_options import PARAMETERS as COMMIT_PARAMETERS
from quadlog.master.http.proposals import SPARQL_UPDATE
from quadlog.master.http.reads import refuse_other_repository
from quadlog.master.http.updates import DRY_RUN, FORM, LONG_TEXT, UpdateRequest
from quadlog.rdf.document_reader import DocumentRequest as Document
from quadlog.rdf.document_reader import read_lines
from quadlog.rdf.documents import DocumentError, DocumentTooLarge
from quadlog.web.http_body import media_type_of, read_body, too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from quadlog.core.effects.template import Term
    from quadlog.master.clients.body_budget import BodyBudget
    from quadlog.master.http.updates import UpdateHandler
    from quadlog.settings import MasterSettings

CONTEXT: Final = "context"
BASE: Final = "baseURI"
TERMS: Final = ("subj", "pred", "obj")

LINEAR: Final = (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS, RdfFormat.TURTLE, RdfFormat.TRIG)
"""Formats parsed in time proportional to the text; only nested triple terms can crash these parsers."""

READERS: Final = 2
"""Number of processes that may read documents at once: each may use a core and 2 GiB."""


class Statements:
    """Turns requests into patches."""

    def __init__(self, updates: UpdateHandler, settings: MasterSettings, body_budget: BodyBudget) -> None:
        self._updates, self._settings, self._body_budget = updates, settings, body_budget
        self._readers = asyncio.Semaphore(READERS)

    async def change(self, request: Request) -> Response:
        """Change statements: POST adds data or runs an update; PUT replaces; DELETE removes what matches.

        Raises as `UpdateHandler.answer` does.
        """
        refuse_other_repository(request, self._settings.repository)
        if request.method == "POST" and media_type_of(request) in {SPARQL_UPDATE, FORM, PATCH}:
            if CONTEXT in request.query_params:
                raise UserError(f"{CONTEXT} is for data: an update names its graphs itself")
            return await self._updates.answer(request)
        with self._body_budget.lease() as grow:
            is_removal = request.method == "DELETE"
            patch = await (self._removal if is_removal else self._addition)(request, grow)
            given = {name: request.query_params.getlist(name) for name in (DRY_RUN, *COMMIT_PARAMETERS)}
            asked = UpdateRequest(body=patch, media_type=PATCH, given=given)
            return await self._updates.submit(request, asked)

    async def _removal(self, request: Request, grow: Callable[[int], None]) -> bytes:
        """Return a patch that removes all matching statements; without parameters all statements, as in RDF4J."""
        _refuse_unknown(request, (*TERMS, CONTEXT))
        if await read_body(request, self._settings.max_transaction_size, grow):
            raise UserError(
                "what is removed is named by parameters: the request has no body; nothing was logged"
            )
        subject, predicate, value = (_term_of(request, name) for name in TERMS)
        if not isinstance(subject, NamedNode | BlankNode | None):
            raise UserError(f"subj is an IRI or a blank node, not {subject}")
        if not isinstance(predicate, NamedNode | None):
            raise UserError(f"pred is an IRI, not {predicate}")
        graphs = _graphs_of(request)
        lines = [
            pattern_line(subject, predicate, value, graph)
            for graph in (["*"] if graphs is None else map(_graph_name, graphs))
        ]
        return "\n".join(lines).encode()

    async def _addition(self, request: Request, grow: Callable[[int], None]) -> bytes:
        _refuse_unknown(request, (CONTEXT, BASE))
        media_type, graphs = media_type_of(request), _graphs_of(request)
        limit = self._settings.max_transaction_size
        if RdfFormat.from_media_type(media_type) is None:
            raise UnsupportedMediaType(_no_data(request.method, media_type))
        document = Document(
            into=None if graphs is None else [g.value if isinstance(g, NamedNode) else None for g in graphs],
            named_graphs=True,
            media_type=media_type,
            base=_base_of(request),
            seconds=self._settings.request_timeout,
            most=limit,
            prefix="A ",
        )
        body = await read_body(request, limit, grow)
        if request.method == "PUT" and not body and request.headers.get("content-length") != "0":
            raise UserError(
                "an empty PUT removes all that it replaces: send it with Content-Length: 0, or use DELETE;"
                " nothing was logged"
            )
        try:
            lines = await self._read(document, body)
        except DocumentTooLarge as error:
            raise TooLarge(f"{error}, and {too_large(limit)}") from None
        except DocumentError as error:
            raise UserError(f"these data cannot be read: {error}; nothing was logged") from None
        grow(len(lines))
        if request.method == "POST":
            return lines
        gone = ["*"] if graphs is None else map(_graph_name, graphs)
        return b"".join((*(f"{pattern_line(None, None, None, graph)}\n".encode() for graph in gone), lines))

    async def _read(self, document: Document, body: bytes) -> bytes:
        """Read a short and harmless document in this process, and any other one in a process that may be killed."""
        if (
            len(body) <= LONG_TEXT
            and RdfFormat.from_media_type(document.media_type) in LINEAR
            and body.count(b"<<") <= MAX_NESTING
        ):
            return b"".join(document.lines(body))
        late = f"it was not read within request-timeout ({document.seconds:g} s)"
        async with self._readers:
            return await asyncio.to_thread(read_lines, document, body, late)


def _no_data(method: str, media_type: str) -> str:
    known = "N-Quads, N-Triples, Turtle, TriG, RDF/XML, JSON-LD or N3, by their media types"
    update = f", or an update as {SPARQL_UPDATE}, {PATCH} or a form" if method == "POST" else ""
    return f"data come as {known}{update}; this is '{media_type or 'nothing'}'"


def _refuse_unknown(request: Request, known: Collection[str]) -> None:
    """Refuse unknown parameters: one that was ignored might have been meant to limit the change."""
    unknown = set(request.query_params).difference(known, [DRY_RUN, *COMMIT_PARAMETERS])
    if unknown:
        raise UserError(
            f"{request.method} of statements knows no parameter {', '.join(sorted(unknown))},"
            f" only {', '.join((*known, DRY_RUN, *COMMIT_PARAMETERS))}; nothing was logged"
        )


def _graphs_of(request: Request) -> Sequence[NamedNode | DefaultGraph] | None:
    """Return the named contexts; None if no context is named."""
    graphs: dict[NamedNode | DefaultGraph, None] = {}
    for text in request.query_params.getlist(CONTEXT):
        graph = DefaultGraph() if text == "null" else _term(CONTEXT, text)
        if not isinstance(graph, NamedNode | DefaultGraph):
            raise UserError(
                f"{CONTEXT} is an IRI like <urn:g>, or null for the default graph, not {text[:200]}"
            )
        graphs[graph] = None
    return list(graphs) or None


def _graph_name(graph: NamedNode | DefaultGraph) -> str:
    return "DEFAULT" if isinstance(graph, DefaultGraph) else str(graph)


def _base_of(request: Request) -> str:
    given = request.query_params.getlist(BASE)
    if len(given) > 1:
        raise UserError(f"{BASE} stands once, not {len(given)} times")
    base = given[0].removeprefix("<").removesuffix(">") if given else ""
    try:
        return NamedNode(base).value if base else ""
    except ValueError as error:
        raise UserError(f"{BASE} is an absolute IRI, not {base[:200]!r}: {error}") from None


def _term_of(request: Request, name: str) -> Term | None:
    given = request.query_params.getlist(name)
    if len(given) > 1:
        raise UserError(f"{name} stands once, not {len(given)} times")
    return _term(name, given[0]) if given else None


def _term(name: str, text: str) -> Term:
    """Return the term that N-Triples writes as `text`; a blank node is the stored one with that label."""
    if "\n" not in text and "\r" not in text and text.count("<<") <= MAX_NESTING:
        try:
            [quad] = ox.parse(f"<urn:s> <urn:p> {text} .", RdfFormat.N_TRIPLES)
        except (SyntaxError, ValueError):
            pass
        else:
            assert isinstance(quad, Quad)
            return quad.object
    raise UserError(f'{name} is a term as N-Triples writes it, like <urn:x> or "x"@en, not {text[:200]!r}')
