"""Answers in XML: content that XML 1.0 cannot express is an error, and carriage returns are escaped.

pyoxigraph 0.5 writes control characters and carriage returns as they are, and invalid element names in RDF/XML
(oxigraph/oxigraph#1785 and #1859, fixed after that version).  See decision 45.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from xml.parsers import expat

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple, parse, serialize

from quadlog.core.sparql.text.terms import RDF_TYPE
from quadlog.errors import NotAcceptable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.effects.template import Term
    from quadlog.quadstore.quadquery import QueryOutput

_FORBIDDEN: Final = bytes(code for code in range(32) if code not in b"\t\n\r")
_NONCHARACTERS: Final = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")
"""U+FFFE and U+FFFF in UTF-8; pyoxigraph's strings contain no surrogates."""
_FIRST_BYTES: Final = b"\xef\xbf"

_NODE_ID: Final = re.compile(r"(?!_x)[A-Za-z_][A-Za-z0-9_.-]*")
"""Labels that are written as they are; all others are encoded, after a prefix that none of these has."""

_NAMES: Final = 10_000
"""Number of IRIs for which a cache stores whether they can name an element."""


class XmlOutput:
    """Output for XML documents that refuses or escapes characters, and passes the rest on."""

    def __init__(self, output: QueryOutput) -> None:
        self._output = output
        self._last = b""
        """First bytes of a character that the next piece may complete."""

    def write(self, piece: bytes, /) -> int:
        """Check and pass on some bytes.

        Raises:
            NotAcceptable: they contain a character that no XML document can contain.

        """
        if len(piece.translate(None, _FORBIDDEN)) != len(piece):
            found = next(byte for byte in piece if byte in _FORBIDDEN)
            raise NotAcceptable(_no_character(found))
        if self._last or _FIRST_BYTES[:1] in piece:
            self._check_noncharacters(self._last + piece)
        self._output.write(piece.replace(b"\r", b"&#13;") if b"\r" in piece else piece)
        return len(piece)

    def flush(self) -> None:
        """Flush the output, as a file does."""
        self._output.flush()

    def _check_noncharacters(self, text: bytes) -> None:
        for found in _NONCHARACTERS:
            if found in text:
                raise NotAcceptable(_no_character(ord(found.decode())))
        cut = next((length for length in (2, 1) if text.endswith(_FIRST_BYTES[:length])), 0)
        self._last = _FIRST_BYTES[:cut]


def _no_character(code: int) -> str:
    return f"this answer has the character U+{code:04X}, which XML 1.0 cannot express: ask for it in JSON or N-Triples"


def for_rdf_xml(triples: Iterable[Triple]) -> Iterator[Triple]:
    """Yield the triples in a form that can be written as RDF/XML.

    Labels of blank nodes that are not XML names are replaced, equal labels by equal names.

    Raises:
        NotAcceptable: a predicate, or a class that pyoxigraph writes as an element, cannot name an element.

    """
    known: set[NamedNode] = set()
    for triple in triples:
        if triple.predicate not in known:
            _check_name(triple.predicate, "predicate")
            known.add(triple.predicate)
        if triple.predicate == RDF_TYPE and isinstance(triple.object, NamedNode):
            _check_name(triple.object, "class")
        plain = isinstance(triple.object, NamedNode | Literal) and isinstance(triple.subject, NamedNode)
        yield triple if plain else _renamed(triple)


def _renamed(triple: Triple) -> Triple:
    subject, value = triple.subject, triple.object
    assert not isinstance(subject, Triple), "RDF 1.2 has triples as objects only"
    return Triple(_node(subject), triple.predicate, _value(value))


def _value(term: Term) -> Term:
    if isinstance(term, Triple):
        [inner] = for_rdf_xml([term])
        return inner
    return term if isinstance(term, Literal) else _node(term)


def _node(term: NamedNode | BlankNode) -> NamedNode | BlankNode:
    if isinstance(term, NamedNode) or _NODE_ID.fullmatch(term.value):
        return term
    return BlankNode(f"_x{term.value.encode().hex()}")


def _check_name(iri: NamedNode, what: str) -> None:
    if not _can_be_element(iri.value):
        raise NotAcceptable(
            f"RDF/XML cannot express this answer: the {what} {iri} does not end with an XML name (a letter, then"
            " letters, digits, `-`, `_` or `.`), or is a reserved one: ask for Turtle or N-Triples"
        )


@lru_cache(maxsize=_NAMES)
def _can_be_element(iri: str) -> bool:
    """Return whether the serialiser writes a name for this IRI that XML and RDF/XML parsers accept, by trying it."""
    triple = Triple(NamedNode("urn:s"), NamedNode(iri), Literal(""))
    try:
        text = serialize([triple], format=RdfFormat.RDF_XML)
        assert text is not None, "without an output the text is returned"
        expat.ParserCreate(namespace_separator=" ").Parse(text, True)  # noqa: FBT003 - positional only
        return [quad.triple for quad in parse(text, RdfFormat.RDF_XML) if isinstance(quad, Quad)] == [triple]
    except (OSError, SyntaxError, expat.ExpatError):
        return False
