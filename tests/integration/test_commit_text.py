"""Every line of an effect goes into an update's text, or beside it, so that exactly its quad comes and goes.

A line that SPARQL refuses, or reads otherwise, would stop every worker at the same entry.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import BaseDirection, BlankNode, Literal, NamedNode, Quad, Store, Triple

from quadlog.core.effects.signature import quad_line
from quadlog.quadstore.commit import NetChange, UpdateText

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
ODD = [
    "\\", '"', "'", "\n", "\r", "\t", "\b", "\f", "\0", "\x0b", "\x1f", "\x7f", "\x85", "\u2028", "\ufeff", "\uffff",
    "\U0010ffff", "\u0300", "\ue000", "u0041", "\\u0041", "\\U00000041", "\\n", '"""', "{", "}", "<", ">", "#", "?x",
    " . ", "@en", "^^", "_:b", "<<(", ")>>", ";", "%41", "é", "e\u0301", "x" * 300,
]  # fmt: skip
"""What SPARQL, N-Quads or Unicode make something of."""
STARTS = [
    "urn:", "x:", "a+b-c.d:", "HTTP://é.com/", "http://[::1]:80/", "http://u@h?", "http://a/../b/./", "tag:x,2:",
    "file:///", "mailto:",
]  # fmt: skip
LANGUAGES = [
    "en",
    "EN-us",
    "zh-Hans-CN",
    "i-klingon",
    "x-private",
    "sl-rozaj-biske-1994",
    "en-12345678",
    "abcdefgh",
]
TYPES = [
    *(f"{XSD}{name}" for name in (
        "string", "integer", "int", "byte", "decimal", "float", "double", "boolean", "date", "dateTime", "time",
        "gYear", "gMonthDay", "duration", "dayTimeDuration", "dateTimeStamp", "anyURI", "hexBinary", "own",
    )),
    *(f"{RDF}{name}" for name in ("langString", "dirLangString", "HTML", "XMLLiteral", "JSON")),
    "urn:type", "http://www.opengis.net/ont/geosparql#wktLiteral",
]  # fmt: skip
VALUES = [
    "0", "01", "-0", "+1", "1.50", "-0.0", "NaN", "INF", "+INF", "1e3", "1e400", "true", "1", "2020-01-01",
    "2020-01-01T24:00:00Z", "-0001-01-01", "P0D", "-P1M", "24:00:00", "--12", "9" * 23, "0.1234567890123456789",
    "  1 ", "", "POINT (1 2)",
]  # fmt: skip


def iri(text: str) -> NamedNode:
    """As far as it is one."""
    try:
        return NamedNode(text)
    except ValueError:
        return NamedNode("urn:other")


def typed(value: str, datatype: NamedNode) -> Literal:
    """As far as it may be."""
    try:
        return Literal(value, datatype=datatype)
    except ValueError:
        return Literal(value)


texts = st.lists(st.sampled_from(ODD) | st.characters(exclude_categories=["Cs"]), max_size=6).map("".join)
ends = st.lists(st.sampled_from([*ODD, *"abc/?#[]@!$&'()*+,;=:-._~%"]), max_size=5).map("".join)
iris = st.tuples(st.sampled_from(STARTS), ends).map("".join).map(iri)
nodes = st.sampled_from(["a", "0", "b0", "1.2", "é", "a-b", "deadbeef" * 4]).map(BlankNode)
directions = st.sampled_from(["ltr", "rtl"]).map(BaseDirection)
literals = (
    texts.map(Literal)
    | st.builds(lambda value, language: Literal(value, language=language), texts, st.sampled_from(LANGUAGES))
    | st.builds(
        lambda value, language, direction: Literal(value, language=language, direction=direction),
        texts,
        st.sampled_from(LANGUAGES),
        directions,
    )
    | st.builds(typed, texts | st.sampled_from(VALUES), st.sampled_from(TYPES).map(NamedNode) | iris)
)
values = st.recursive(
    iris | nodes | literals, lambda inner: st.builds(Triple, iris | nodes, iris, inner), max_leaves=3
)
quads = st.builds(Quad, iris | nodes, iris, values, iris | nodes) | st.builds(
    Quad, iris | nodes, iris, values
)


def carry_out(store: Store, quads: dict[str, bool]) -> None:
    update = UpdateText.of(NetChange(quads, {}))
    store.update(update.text(), custom_functions=update.functions())


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(quads, min_size=1, max_size=6))
def test_every_stored_quad_comes_and_goes_by_its_line(some: list[Quad]) -> None:
    there = Store()
    there.extend(some)
    lines = sorted(map(quad_line, there))
    store = Store()
    carry_out(store, dict.fromkeys(lines, True))
    assert sorted(map(quad_line, store)) == lines
    carry_out(store, dict.fromkeys(lines[::2], False))
    assert sorted(map(quad_line, store)) == lines[1::2]
