"""Queries on a store: which ones are refused, and in which format the answers are written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from pyoxigraph import (
    BlankNode,
    NamedNode,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    RdfFormat,
    serialize,
)

from quadlog.core.sparql.reserved import names_of_query, refuse_reserved_names
from quadlog.core.sparql.text.caution import MAX_GROUND, weigh
from quadlog.core.sparql.text.ground import without_ground_triples
from quadlog.core.sparql.text.labelled_nodes import labelled_nodes
from quadlog.core.sparql.text.syntax import check_query
from quadlog.core.sparql.text.tokens import tokens
from quadlog.core.sparql.typed import refuse_ill_formed, with_checked_strdt
from quadlog.damage import refuse_damage
from quadlog.errors import Forbidden, QueryStopped, Unsupported, UserError
from quadlog.quadstore.csv_answers import write_csv
from quadlog.quadstore.query_scope import seen_by
from quadlog.quadstore.xml_answers import XmlOutput, for_rdf_xml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyoxigraph import QueryTriples, Store, Triple

    from quadlog.core.effects.template import Row, Term
    from quadlog.core.sparql.operations import Where

    QueryResult: TypeAlias = QuerySolutions | QueryBoolean | QueryTriples
    Functions: TypeAlias = dict[NamedNode, Callable[..., Term | None]]

SOLUTION_FORMATS = {
    "application/sparql-results+json": QueryResultsFormat.JSON,
    "application/json": QueryResultsFormat.JSON,
    "application/sparql-results+xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
    "text/csv": QueryResultsFormat.CSV,
    "text/tab-separated-values": QueryResultsFormat.TSV,
}
GRAPH_FORMATS = {
    "text/turtle": RdfFormat.TURTLE,
    "application/n-triples": RdfFormat.N_TRIPLES,
    "application/rdf+xml": RdfFormat.RDF_XML,
    "application/n-quads": RdfFormat.N_QUADS,
    "application/trig": RdfFormat.TRIG,
    "text/plain": RdfFormat.N_TRIPLES,
}
_SOLUTION_OFFERS, _GRAPH_OFFERS = tuple(SOLUTION_FORMATS), tuple(GRAPH_FORMATS)
_UPDATES = frozenset(
    (
        "INSERT",
        "DELETE",
        "LOAD",
        "CLEAR",
        "DROP",
        "CREATE",
        "ADD",
        "MOVE",
        "COPY",
        "WITH",
    )
)
_QUERIES = frozenset(("SELECT", "CONSTRUCT", "DESCRIBE", "ASK"))
SHORT: Final = 4096
"""Maximum characters of a query whose checks are cached: clients repeat the same queries, and the checks take half of
the time of a small one."""
REMEMBERED: Final = 256
"""Entries of each cache: of such queries, and of Accept headers of at most that length."""


class QueryOutput(Protocol):
    """Destination of an answer: the methods of a file that writing it needs."""

    def write(self, piece: bytes, /) -> int:
        """Write some bytes; may block."""
        ...

    def flush(self) -> None:
        """Flush, after all of the answer was written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The result of a query, as of the moment when the query was started."""

    media_type: str
    serialise: Callable[[IO[bytes]], object]

    def write_to(self, output: QueryOutput) -> None:
        """Evaluate and write, a few kilobytes at a time, in the thread that started the query.

        An exception of `output` ends it.

        Raises:
            UserError: the query fails during evaluation, possibly after a part of the answer was written.
            NotAcceptable: the format cannot express the answer.

        """
        if self.media_type.endswith("xml"):
            output = XmlOutput(output)
        try:
            self.serialise(cast("IO[bytes]", output))  # no other methods of a file are called
        except RuntimeError as error:
            refuse_damage(error)
            raise UserError(f"the query failed: {error}") from None
        except OSError as error:
            refuse_damage(error)
            raise


def prepared(text: str) -> tuple[str, Functions]:
    """Check a query; return the text to pass to pyoxigraph, and the functions that it calls."""
    tamed = _checked_again(text) if len(text) <= SHORT else _checked(text)
    text, labelled = labelled_nodes(tamed, BlankNode)
    text, checked = with_checked_strdt(text)
    return text, {**labelled, **checked}


def solutions_of(
    store: Store,
    where: Where,
    *,
    reserved: NamedNode,
    functions: Mapping[NamedNode, Callable[..., Term]],
) -> Iterator[Row]:
    """Yield the solutions of an update's WHERE, as if the graph ``reserved`` did not exist.

    Without ``where.named`` every other named graph is visible, whatever the default graph is.
    """
    try:
        text, named = where.text, None if where.named is None else list[NamedNode | BlankNode](where.named)
        if named is None:
            text, named = seen_by(store, text, reserved=reserved)
        text, more = with_checked_strdt(text)
        result = store.query(
            text,
            default_graph=None if where.default is None else list(where.default),
            named_graphs=named,
            custom_functions={**functions, **more} or None,
        )
        assert isinstance(result, QuerySolutions)
        for solution in result:
            yield tuple(solution)
    except (SyntaxError, ValueError, RuntimeError) as error:
        refuse_damage(error)  # of this store only: the same update succeeds at another one
        raise UserError(f"the update failed: {error}") from None


def _checked(text: str) -> str:
    """Check a query, also for names that are reserved for the project; return the text to pass to pyoxigraph."""
    tamed = _tamed(text, _form(text))
    check_query(text)
    names = names_of_query(text)
    refuse_reserved_names(text, names)
    refuse_ill_formed(text, names)
    return tamed


_checked_again = lru_cache(maxsize=REMEMBERED)(_checked)


def _tamed(text: str, form: str) -> str:
    """Return the query in a form that pyoxigraph survives; raise Unsupported if there is none."""
    weight = weigh(text)
    if weight.service:
        raise Unsupported("SERVICE is not supported yet")
    if weight.is_light:
        return text
    if form in {"SELECT", "ASK"} and weight.is_tame and weight.joins <= MAX_GROUND:
        # The joins are limited because the check of the syntax passes all of them to pyoxigraph.
        tamed = without_ground_triples(text)
        if weigh(tamed).is_light:
            return tamed
    raise Unsupported("the query is nested too deeply, or chains or joins too much")


def _form(text: str) -> str:
    """Return the first keyword of a query that determines its form; raise Forbidden if it is an update."""
    for token in tokens(text):
        word = (token["word"] or "").upper()
        if word in _UPDATES:
            raise Forbidden("this is an update: send it to a master's /update")
        if word in _QUERIES:
            return word
    return ""


def answer_of(result: QueryResult, accept: str, triples: int | None) -> QueryAnswer:
    """Return the answer in the preferred format; more than `triples` triples raise QueryStopped when it is written."""
    serialise: Callable[[IO[bytes]], object]
    if isinstance(result, (QuerySolutions, QueryBoolean)):
        media_type = negotiate(accept, _SOLUTION_OFFERS)
        if media_type == "text/csv" and isinstance(result, QuerySolutions):
            serialise = partial(write_csv, result)
        else:
            serialise = partial(result.serialize, format=SOLUTION_FORMATS[media_type])
    else:
        media_type = negotiate(accept, _GRAPH_OFFERS)
        kind = GRAPH_FORMATS[media_type]
        counted: Iterator[Triple] = result if triples is None else _counted(result, triples)
        if kind == RdfFormat.RDF_XML:
            serialise = partial(serialize, for_rdf_xml(counted), format=kind)
        elif triples is None:
            serialise = partial(result.serialize, format=kind)
        else:
            serialise = partial(serialize, counted, format=kind)
    return QueryAnswer(media_type=media_type, serialise=serialise)


def _counted(triples: QueryTriples, most: int) -> Iterator[Triple]:
    for number, triple in enumerate(triples):
        if number == most:
            raise QueryStopped(too_many_rows(most))
        yield triple


def too_many_rows(most: int) -> str:
    """Return the error message for an answer with more than `most` rows."""
    return f"the answer has more rows than query-rows allows ({most}): ask for less with LIMIT or a filter"


def negotiate(accept: str, offers: tuple[str, ...]) -> str:
    """Return the offer that an Accept header prefers; the first one if it accepts none.

    >>> negotiate("text/*;q=0.5, application/xml;q=0.9", ("text/csv", "application/xml"))
    'application/xml'
    """
    return (_negotiated_again if len(accept) <= SHORT else _negotiated)(accept, offers)


def _negotiated(accept: str, offers: tuple[str, ...]) -> str:
    def liking(offer: str) -> tuple[float, int]:
        best = (-1, 0.0)  # how exactly a media range matches the offer, and its weight
        for part in accept.split(","):
            wanted, *parameters = (p.strip().lower() for p in part.split(";"))
            exactness = ("*/*", offer.partition("/")[0] + "/*", offer)
            if wanted in exactness:
                weight = next((_weight(p) for p in parameters if p.startswith("q=")), 1.0)
                best = max(best, (exactness.index(wanted), weight))
        return best[1], best[0]

    return max(offers, key=lambda offer: (*liking(offer), -offers.index(offer)))


_negotiated_again = lru_cache(maxsize=REMEMBERED)(_negotiated)


def _weight(parameter: str) -> float:
    try:
        return min(1.0, max(0.0, float(parameter[2:])))
    except ValueError:
        return 0.0
