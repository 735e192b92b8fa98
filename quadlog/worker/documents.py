"""What a fetched document says, as quads that a store would hold."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyoxigraph as ox
from pyoxigraph import BlankNode, Literal, Quad, RdfFormat, Triple

from quadlog.core.sparql.terms import BlankNodes, Literals

if TYPE_CHECKING:
    from pyoxigraph import DefaultGraph, NamedNode

    from quadlog.core.operations import Load

_NO_WORD = frozenset(("", "text/plain", "application/octet-stream"))
"""Content types that servers give to what they do not know."""


class DocumentError(Exception):
    """It cannot be loaded, and why."""


def quads_of(load: Load, *, tx_id: bytes, body: bytes, media_type: str, base: str) -> tuple[Quad, ...]:
    """The quads of a document, in its graph; without blank nodes that any other document has.

    Args:
        load: what asked for it.
        tx_id: of the transaction; new labels follow from it, the operation, and where a node first appears.
        body: the document.
        media_type: its Content-Type.
        base: where it was in the end.

    Raises:
        DocumentError: of no known format, or not well-formed, or with named graphs.

    """
    known = format_of(media_type, base)
    terms = _Terms(BlankNodes(tx_id, load.number))
    try:
        found = ox.parse(body, known, base_iri=base, without_named_graphs=True)
        return tuple(dict.fromkeys(terms.quad(quad, load.graph) for quad in found))
    except (SyntaxError, ValueError) as error:
        raise DocumentError(f"not well-formed {known.name}: {error}") from None


def format_of(media_type: str, iri: str) -> RdfFormat:
    """By its Content-Type, or where that says nothing by its suffix.

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
    """Terms as a store holds them."""

    def __init__(self, nodes: BlankNodes) -> None:
        """`nodes` has the new blank nodes."""
        self._nodes = nodes
        self._renamed: dict[BlankNode, BlankNode] = {}
        self._literals = Literals()

    def quad(self, quad: Quad | Triple, graph: NamedNode | DefaultGraph) -> Quad:
        triple = self._triple(quad)
        return Quad(triple.subject, triple.predicate, triple.object, graph)

    def _triple(self, triple: Quad | Triple) -> Triple:
        subject, value = triple.subject, triple.object
        if isinstance(subject, BlankNode):
            subject = self._node(subject)
        if isinstance(value, BlankNode):
            value = self._node(value)
        elif isinstance(value, Triple):
            value = self._triple(value)
        elif isinstance(value, Literal) and value.language is None:
            value = self._literals.typed(value.value, value.datatype)
        return Triple(subject, triple.predicate, value)

    def _node(self, node: BlankNode) -> BlankNode:
        # By their order: the parser gives nodes without a label one that is chance.
        renamed = self._renamed.get(node)
        if renamed is None:
            renamed = self._renamed[node] = self._nodes.fresh()
        return renamed
