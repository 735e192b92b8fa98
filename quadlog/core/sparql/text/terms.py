"""Conversion of SPARQL's notations of terms to the terms that oxigraph stores."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

import pyoxigraph as ox
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store, Triple

from quadlog.core.sparql.text.datatypes import RDF, XSD, is_valid, refuse_ill_typed, refuse_untagged

XSD_STRING: Final = f"{XSD}string"
INTEGER: Final = f"{XSD}integer"
RDF_TYPE: Final = NamedNode(f"{RDF}type")
RDF_FIRST: Final = NamedNode(f"{RDF}first")
RDF_REST: Final = NamedNode(f"{RDF}rest")
RDF_NIL: Final = NamedNode(f"{RDF}nil")
RDF_REIFIES: Final = NamedNode(f"{RDF}reifies")

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CHARACTERS = {
    "t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\",
}  # fmt: skip
_PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""Integers of 64 bits whose lexical form the store does not change."""
_BOOLEAN = NamedNode(f"{XSD}boolean")
TRUE: Final = Literal("true", datatype=_BOOLEAN)
FALSE: Final = Literal("false", datatype=_BOOLEAN)


def unescape(text: str) -> str:
    r"""Replace escapes such as ``\n`` and ``\uXXXX``; ValueError for an unknown escape.

    >>> unescape(r"a\tb\u0041\\n")
    'a\tbA\\n'
    """
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    short, long, character = match.groups()
    if character is None:
        return chr(int(short or long, 16))
    try:
        return _CHARACTERS[character]
    except KeyError:
        raise ValueError(f"no such escape: \\{character}") from None


def string_value(token: str) -> str:
    """Return the value of a string in any of SPARQL's four forms of quotes."""
    return unescape(token[3:-3] if token[:3] in {'"""', "'''"} else token[1:-1])


class Names:
    """Resolver of IRIs and prefixed names, with the prefixes and the base declared so far."""

    def __init__(self) -> None:
        self._prefixes: dict[str, str] = {}
        self._base: str | None = None
        self._known: dict[str, NamedNode] = {}

    def set_base(self, token: str) -> None:
        """Process ``BASE <token>``, which is relative to the previous base."""
        self._base = self.iri(token).value
        self._known.clear()

    def set_prefix(self, prefix: str, token: str) -> None:
        """Process ``PREFIX prefix <token>``."""
        self._prefixes[prefix] = self.iri(token).value
        self._known.clear()

    def iri(self, token: str) -> NamedNode:
        """Resolve ``<token>`` against the base; ValueError if the result is no IRI.

        >>> names = Names()
        >>> names.set_base("<http://a/b/c/d;p?q>")
        >>> names.iri("<../g>"), names.iri("<#s>")
        (<NamedNode value=http://a/b/g>, <NamedNode value=http://a/b/c/d;p?q#s>)
        """
        node = self._known.get(token)
        if node is None:
            node = self._known[token] = self._resolve(unescape_iri(token[1:-1]))
        return node

    def prefixed(self, token: str) -> NamedNode:
        """Resolve ``prefix:local``; ValueError if the prefix is not declared."""
        node = self._known.get(token)
        if node is None:
            prefix, _, local = token.partition(":")
            try:
                namespace = self._prefixes[f"{prefix}:"]
            except KeyError:
                raise ValueError(f"the prefix {prefix}: is not declared") from None
            node = self._known[token] = NamedNode(namespace + local.replace("\\", ""))
        return node

    def _resolve(self, iri: str) -> NamedNode:
        if self._base is None:
            return NamedNode(iri)
        # oxigraph's own resolver, so that `..` in absolute IRIs is resolved in the same way.
        triple = next(ox.parse(f"<{iri}> <urn:p> 0", ox.RdfFormat.TURTLE, base_iri=self._base))
        assert isinstance(triple.subject, NamedNode)
        return triple.subject


def unescape_iri(text: str) -> str:
    """Replace codepoint escapes, the only ones in an IRI."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)), text)


_KNOWN: Final = 10_000
"""Maximum number of cached literals: an update may contain a million."""


class Literals:
    """Literals as oxigraph stores them: ``01`` becomes ``1``, an xsd:int becomes an xsd:integer."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Literal] = {}
        self._store: Store | None = None

    def typed(self, value: str, datatype: NamedNode) -> Literal:
        """Return the stored form of a literal with a datatype and without a language.

        >>> Literals().typed("01", NamedNode(f"{XSD}int"))
        <Literal value=1 datatype=<NamedNode value=http://www.w3.org/2001/XMLSchema#integer>>

        Raises:
            IllFormedLiteral: it would be stored as another term, or does not exist in RDF.

        """
        name = datatype.value
        if not name.startswith(XSD):
            refuse_untagged(value, name)
            return Literal(value, datatype=datatype)
        if name == XSD_STRING or (name == INTEGER and _PLAIN_INTEGER.fullmatch(value)):
            return Literal(value, datatype=datatype)
        known = self._known.get((value, name))
        if known is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            known = self._known[value, name] = self._stored(Literal(value, datatype=datatype))
        return known

    def refuse_ill_formed(self, term: NamedNode | BlankNode | Literal | Triple) -> None:
        """Raise IllFormedLiteral for a literal, or a triple term with a literal, that the store would alter."""
        while isinstance(term, Triple):
            term = term.object
        if (
            isinstance(term, Literal)
            and term.language is None
            and not is_valid(term.value, term.datatype.value)
        ):
            self.typed(term.value, term.datatype)  # raises nothing if the store keeps it unchanged

    def number(self, token: str) -> Literal:
        """Return the literal of a bare number."""
        if "e" in token or "E" in token:
            return self.typed(token, NamedNode(f"{XSD}double"))
        return self.typed(token, NamedNode(XSD + ("decimal" if "." in token else "integer")))

    def _stored(self, literal: Literal) -> Literal:
        # Use oxigraph instead of a copy of its rules: 3 µs, once for each new literal.
        if self._store is None:
            self._store = Store()
        quad = Quad(RDF_NIL, RDF_FIRST, literal)
        self._store.add(quad)
        stored = next(self._store.quads_for_pattern(None, None, None, None)).object
        self._store.remove(quad)
        assert isinstance(stored, Literal)
        if stored != literal:
            refuse_ill_typed(literal, stored)
        return stored


class BlankNodes:
    """The blank nodes of one operation, which depend only on transaction, operation and label.

    >>> a, b = BlankNodes(b"tx1", 0), BlankNodes(b"tx2", 0)
    >>> a.labelled("_:x") == a.labelled("_:x") == BlankNodes(b"tx1", 0).labelled("_:x")
    True
    >>> a.labelled("_:x") == b.labelled("_:x"), a.fresh() == a.fresh()
    (False, False)
    """

    def __init__(self, tx_id: bytes, operation: int) -> None:
        """Start without any node; `operation` is the number of the operation in its transaction."""
        self._hash = blake2b(b"%d,%d," % (len(tx_id), operation) + tx_id, digest_size=16)
        self._labels: dict[str, BlankNode] = {}
        self._count = 0

    def labelled(self, token: str) -> BlankNode:
        """Return the node of the token ``_:label``."""
        node = self._labels.get(token)
        if node is None:
            node = self._labels[token] = self.named(token)
        return node

    def fresh(self) -> BlankNode:
        """Return the node of the next unlabelled notation, such as ``[]``."""
        self._count += 1
        return self.named(str(self._count))  # never equal to a token, which begins with _:

    def named(self, name: str) -> BlankNode:
        """Return the node of a name: a token, a count of `fresh`, or a string that differs from all of these."""
        derived = self._hash.copy()
        derived.update(name.encode())
        digest = derived.hexdigest()
        # 32 hex digits without a leading zero: oxigraph stores such a label in the quad's key
        # instead of in its dictionary.  A leading letter makes it valid in RDF/XML.
        return BlankNode("abcdef"[int(digest[0], 16) % 6] + digest[1:])
