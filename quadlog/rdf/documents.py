"""Documents that were fetched or sent by a client, as N-Quads that a store would contain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import pyoxigraph as ox
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, RdfFormat, Triple

from quadlog.core.sparql.text.caution import MAX_NESTING
from quadlog.core.sparql.text.datatypes import IllFormedLiteral
from quadlog.core.sparql.text.terms import BlankNodes, Literals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.core.effects.template import Term

Graph: TypeAlias = NamedNode | DefaultGraph

_NO_WORD = frozenset(("", "text/plain", "application/octet-stream"))
"""Content types that servers send for files of unknown type."""


class DocumentError(Exception):
    """A document cannot be loaded; the text is the reason."""


class DocumentTooLarge(DocumentError):
    """A document's quads exceed the requested maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document with its media type and base IRI."""

    body: bytes
    media_type: str
    base: str
    """Final IRI of the document; empty: relative IRIs cannot be resolved."""


def lines_of(
    document: Document, into: Sequence[Graph] | None, nodes: BlankNodes, *, named_graphs: bool
) -> Iterator[str]:
    """Yield the quads of a document, one line each; its blank nodes are new, numbered by their first appearance.

    Each quad is put into every graph of `into`; None: into the graph that the document names.

    Raises:
        DocumentError: the format is unknown, the document is not well-formed, or nested too deeply; or it has
            named graphs without `named_graphs`, or a graph that is a blank node.

    """
    known = format_of(document.media_type, document.base)
    terms = _Terms(nodes)
    ends = None if into is None else [_end_in(graph) for graph in into]
    try:
        for quad in ox.parse(
            document.body, known, base_iri=document.base or None, without_named_graphs=not named_graphs
        ):
            value = terms.value(quad.object)
            text = f"<<( {value} )>>" if isinstance(value, Triple) else str(value)
            triple = f"{terms.subject(quad.subject)} {quad.predicate} {text}"
            for end in (_end_in(quad.graph_name),) if ends is None else ends:
                yield triple + end
    except IllFormedLiteral as error:
        raise DocumentError(f"it has a literal that cannot be stored: {error}") from None
    except (SyntaxError, ValueError) as error:
        raise DocumentError(f"not well-formed {known.name}: {error}") from None


def _end_in(graph: Graph | BlankNode) -> str:
    if isinstance(graph, BlankNode):
        raise DocumentError(f"it has a graph that is a blank node ({graph}): graphs are named by IRIs")
    return " .\n" if isinstance(graph, DefaultGraph) else f" {graph} .\n"


def format_of(media_type: str, iri: str) -> RdfFormat:
    """Return the format by the Content-Type, or, if that is not informative, by the suffix.

    >>> format_of("text/turtle; charset=utf-8", "http://h/x.nt"), format_of("text/plain", "http://h/x.ttl?y.nt")
    (<RdfFormat Turtle>, <RdfFormat Turtle>)
    """
    name = media_type.partition(";")[0].strip().lower()
    suffix = PurePosixPath(urlsplit(iri).path).suffix[1:].lower()
    by_name, by_suffix = RdfFormat.from_media_type(name), RdfFormat.from_extension(suffix)
    known = by_suffix or by_name if name in _NO_WORD else by_name or by_suffix
    if known is None:
        raise DocumentError(f"neither the content type {name!r} nor the suffix {suffix!r} is a format of RDF")
    return known


class _Terms:
    """Terms as a store contains them."""

    def __init__(self, nodes: BlankNodes) -> None:
        """Start without renamed nodes; `nodes` creates the new blank nodes."""
        self._nodes = nodes
        self._renamed: dict[BlankNode, BlankNode] = {}
        self._literals = Literals()

    def subject(self, term: NamedNode | BlankNode | Triple) -> NamedNode | BlankNode:
        """Return the subject of a triple, at any depth."""
        assert not isinstance(term, Triple), "RDF 1.2 has triples as objects only"
        return self._node(term) if isinstance(term, BlankNode) else term

    def value(self, term: Term, depth: int = 0) -> Term:
        """Return the object of a triple, which may be a triple itself."""
        if isinstance(term, Literal):
            return self._literals.typed(term.value, term.datatype) if term.language is None else term
        if isinstance(term, BlankNode):
            return self._node(term)
        if isinstance(term, NamedNode):
            return term
        if depth == MAX_NESTING:
            raise DocumentError(f"its triple terms are nested deeper than {MAX_NESTING} levels")
        return Triple(self.subject(term.subject), term.predicate, self.value(term.object, depth + 1))

    def _node(self, node: BlankNode) -> BlankNode:
        # In order of appearance: the parser gives a random label to a node without one.
        renamed = self._renamed.get(node)
        if renamed is None:
            renamed = self._renamed[node] = self._nodes.fresh()
        return renamed
