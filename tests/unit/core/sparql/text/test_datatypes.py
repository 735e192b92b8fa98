"""Literals that cannot be stored as what they are, at every way in; and what the store makes of all others."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Store, parse, serialize

from quadlog.core.effects.patch import parse_patch
from quadlog.core.sparql.operations import InsertData
from quadlog.core.sparql.text.datatypes import ALTERED, UNTAGGED, IllFormedLiteral
from quadlog.core.sparql.text.terms import BlankNodes, Literals
from quadlog.core.sparql.update import parse_update
from quadlog.errors import UserError
from quadlog.rdf.documents import Document, DocumentError, lines_of
from quadlog.worker.evaluate.answers import values_of

if TYPE_CHECKING:
    from collections.abc import Callable

XSD, RDF = "http://www.w3.org/2001/XMLSchema#", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
CONFORMANCE = Path(__file__).parents[5] / "docs" / "conformance.md"
S, P = NamedNode("urn:s"), NamedNode("urn:p")

ILL_FORMED = [
    *((value, f"{XSD}{name}") for value, name in [
        ("300", "byte"), ("-129", "byte"), ("40000", "short"), ("2147483648", "int"), ("-1", "unsignedByte"),
        ("256", "unsignedByte"), ("-1", "unsignedLong"), ("-5", "nonNegativeInteger"), ("0", "positiveInteger"),
        ("5", "nonPositiveInteger"), ("0", "negativeInteger"), ("inf", "double"), ("-NaN", "float"),
        ("P1YT", "duration"), ("PT.5S", "dayTimeDuration"), ("P1MT", "yearMonthDuration"),
        ("2020-01-01T00:00:00", "dateTimeStamp"),
    ]),
    ("x", f"{RDF}langString"), ("", f"{RDF}dirLangString"),
]  # fmt: skip
KEPT = [
    ("abc", "integer"), ("", "integer"), (" 1 ", "integer"), ("1.0", "integer"), ("x", "byte"), ("1e3", "decimal"),
    ("9223372036854775808", "integer"), ("99999999999999999999", "unsignedLong"), ("TRUE", "boolean"),
    ("2020-02-30", "date"), ("2020-01-01", "dateTime"), ("25:00:00", "time"), ("P", "duration"), ("x", "double"),
    ("0.1234567890123456789", "decimal"), ("2020-13", "gYearMonth"), ("0f", "hexBinary"), (" x ", "token"),
]  # fmt: skip


def typed(value: str, name: str) -> str:
    return f'"{value}"^^<{name}>'


def data(form: str) -> Callable[[str, str], object]:
    return lambda value, name: parse_update(form % typed(value, name), tx_id=b"1")


def document(kind: RdfFormat, text: str) -> Callable[[str, str], object]:
    def read(value: str, name: str) -> object:
        body = text.replace("VALUE", value).replace("NAME", name).encode()
        said = Document(body=body, media_type=kind.media_type, base="")
        return list(lines_of(said, None, BlankNodes(b"1", 0), named_graphs=True))

    return read


def answered(value: str, name: str) -> object:
    term = {"type": "literal", "value": value, "datatype": name}
    said = {"head": {"vars": ["a"]}, "results": {"bindings": [{"a": term}]}}
    return values_of(json.dumps(said).encode())


LINE = '<urn:s> <urn:p> "VALUE"^^<NAME> .'
NESTED = '<urn:s> <urn:p> <<( <urn:s> <urn:p> "VALUE"^^<NAME> )>> .'
WAYS: dict[str, Callable[[str, str], object]] = {
    "INSERT DATA": data("INSERT DATA { <urn:s> <urn:p> %s }"),
    "INSERT DATA of a triple term": data("INSERT DATA { <urn:s> <urn:p> <<( <urn:s> <urn:p> %s )>> }"),
    "DELETE DATA": data("DELETE DATA { GRAPH <urn:g> { <urn:s> <urn:p> %s } }"),
    "template": data("INSERT { ?s <urn:p> %s } WHERE { ?s ?p ?o }"),
    "DELETE WHERE": data("DELETE WHERE { ?s ?p %s }"),
    "VALUES": data("INSERT { ?s ?p ?o } WHERE { VALUES ?o { %s } ?s ?p ?x }"),
    "FILTER": data("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o FILTER(?o=%s) }"),
    "patch": lambda value, name: list(
        parse_patch(f"A <urn:s> <urn:p> {typed(value, name)} .".encode(), tx_id=b"1")
    ),
    "patch with blanks": lambda value, name: list(
        parse_patch(f"A <urn:s> <urn:p> {typed(value, name).replace('^^', ' ^^ ')} .".encode(), tx_id=b"1")
    ),
    "pattern": lambda value, name: list(parse_patch(f"DP * * {typed(value, name)} * .".encode(), tx_id=b"1")),
    "answer of a SERVICE": answered,
    "Turtle": document(RdfFormat.TURTLE, LINE),
    "TriG": document(RdfFormat.TRIG, f"<urn:g> {{ {LINE} }}"),
    "N-Triples": document(RdfFormat.N_TRIPLES, NESTED),
    "N-Quads": document(RdfFormat.N_QUADS, LINE),
    "N3": document(RdfFormat.N3, LINE),
    "RDF/XML": document(
        RdfFormat.RDF_XML,
        f'<r:RDF xmlns:r="{RDF}" xmlns="urn:"><r:Description r:about="urn:s"><p r:datatype="NAME">VALUE</p>'
        "</r:Description></r:RDF>",
    ),
    "JSON-LD": document(RdfFormat.JSON_LD, '{"@id": "urn:s", "urn:p": {"@value": "VALUE", "@type": "NAME"}}'),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_ill_formed_literal_is_refused_by_name_at_every_way_in(way: str) -> None:
    for value, name in ILL_FORMED:
        for _ in range(3):  # a plan is made of the second text
            with pytest.raises((UserError, DocumentError), match=re.escape(re.split("[#]", name)[1])):
                WAYS[way](value, name)
    for value, name in KEPT:
        WAYS[way](value, f"{XSD}{name}")
    with pytest.raises((UserError, DocumentError)):  # also behind a plan that other constants have made
        WAYS[way](*ILL_FORMED[0])


def test_the_line_of_a_patch_is_named() -> None:
    lines = ['A <urn:s> <urn:p> "1"^^<urn:d> .'] * 7 + [f"A <urn:s> <urn:p> {typed('300', f'{XSD}byte')} ."]
    with pytest.raises(UserError, match="line 8: "):
        list(parse_patch("\n".join(lines).encode(), tx_id=b"1"))


def test_a_patch_has_literals_as_the_store_keeps_them_however_they_are_written() -> None:
    for blank in ("", " ", "\t"):
        [added] = parse_patch(f'A <urn:s> <urn:p> "01"{blank}^^{blank}<{XSD}integer> .'.encode(), tx_id=b"1")
        assert isinstance(added, InsertData)
        assert [quad.object for quad in added.quads] == [Literal("1", datatype=NamedNode(f"{XSD}integer"))]


def stored(literal: Literal) -> Literal:
    store = Store()
    store.add(Quad(S, P, literal))
    found = next(iter(store)).object
    assert isinstance(found, Literal)
    return found


@pytest.mark.parametrize(("value", "name"), KEPT)
def test_other_ill_typed_literals_are_kept_as_they_are(value: str, name: str) -> None:
    literal = Literal(value, datatype=NamedNode(f"{XSD}{name}"))
    assert stored(literal) == literal == Literals().typed(value, literal.datatype)


NUMBERS = [
    "byte", "short", "int", "long", "unsignedByte", "unsignedShort", "unsignedInt", "unsignedLong",
    "nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger",
    "integer", "decimal", "double", "float",
]  # fmt: skip
OTHERS = [
    "boolean", "dateTime", "dateTimeStamp", "date", "time", "duration", "yearMonthDuration", "dayTimeDuration", "gYear",
    "gYearMonth", "gMonth", "gDay", "gMonthDay", "string", "anyURI",
]  # fmt: skip
FORMS = st.one_of(
    st.integers(-(1 << 65), 1 << 65).map(str),
    st.from_regex(r"[+-]?[0-9]{0,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"-?P([0-9]{1,2}Y)?([0-9]{1,2}M)?([0-9]{1,2}D)?(T([0-9]{1,2}H)?([0-9.]{1,3}S)?)?", fullmatch=True),
    st.from_regex(r"(-?[0-9]{3,5}-[01][0-9]-[0-3][0-9])?T?([0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,20})?)?"
                  r"(Z|[+-][01][0-9]:[0-5][0-9])?", fullmatch=True),
    st.sampled_from(["INF", "-INF", "+INF", "NaN", "nan", "inf", "Infinity", "true", "1", "0", "TRUE", "24:00:00"]),
)  # fmt: skip
WIDER = dict.fromkeys(NUMBERS[:12], "integer") | {"dateTimeStamp": "dateTime"}


@given(FORMS, st.sampled_from([*NUMBERS, *OTHERS]))
def test_the_value_of_what_is_accepted_stays(value: str, name: str) -> None:
    """In the same type, or the type that it is derived from; and only in types that the text is searched for."""
    written = Literal(value, datatype=NamedNode(f"{XSD}{name}"))
    found = stored(written)
    try:
        assert Literals().typed(value, written.datatype) == found
    except IllFormedLiteral:
        assert found != written
        assert f"{XSD}{name}" in ALTERED
        return
    if found == written:
        return
    assert found.datatype.value == f"{XSD}{WIDER.get(name, name)}"
    assert stored(found) == found
    if name in NUMBERS[:14]:
        assert Decimal(found.value) == Decimal(value)
    elif name in NUMBERS:
        before, after = float(value.replace("INF", "inf")), float(found.value.replace("INF", "inf"))
        assert before == after or (isnan(before) and isnan(after)) or name == "float"


OTHER_TYPES = st.sampled_from([*UNTAGGED, f"{RDF}HTML", "urn:d"])
LITERALS = st.one_of(
    st.builds(Literal, st.text()),
    st.builds(lambda v, n: Literal(v, datatype=NamedNode(f"{XSD}{n}")), FORMS, st.sampled_from([*NUMBERS, *OTHERS])),
    st.builds(lambda v, n: Literal(v, datatype=NamedNode(n)), st.text(), OTHER_TYPES),
    st.builds(lambda v, t: Literal(v, language=t), st.text(), st.sampled_from(["en", "de-CH-1996", "x-a", "zh-Hans"])),
)  # fmt: skip


@given(LITERALS)
def test_what_is_accepted_can_be_dumped_and_read_back(literal: Literal) -> None:
    """From the store's own lines, in every format, as the same term."""
    text = f"INSERT DATA {{ <urn:s> <urn:p> {literal} }}"
    try:
        [operation] = parse_update(text, tx_id=b"1")
    except UserError:
        with pytest.raises(IllFormedLiteral):
            Literals().typed(literal.value, literal.datatype)
        return
    assert isinstance(operation, InsertData)
    [quad] = operation.quads
    store = Store()
    store.add(quad)
    assert set(store) == {quad}
    for kind in (RdfFormat.N_QUADS, RdfFormat.TRIG, RdfFormat.TURTLE, RdfFormat.N_TRIPLES):
        lines = serialize([quad.triple], format=kind)
        assert lines is not None
        said = Document(body=lines, media_type=kind.media_type, base="")
        [line] = lines_of(said, None, BlankNodes(b"1", 0), named_graphs=True)
        assert list(parse(line, RdfFormat.N_QUADS)) == [quad]
        assert line == f"{quad} .\n"
    [added] = parse_patch(f"A {quad} .".encode(), tx_id=b"1")
    assert isinstance(added, InsertData)
    assert added.quads == (quad,)


def test_the_table_of_terms_as_stored_is_right() -> None:
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \|", CONFORMANCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) > 15
    for left, right in rows:
        written, kept = (
            next(iter(parse(f"@prefix xsd: <{XSD}> . <urn:s> <urn:p> {text} .", RdfFormat.TURTLE))).object
            for text in (left, right)
        )
        assert isinstance(written, Literal)
        assert left != right
        assert stored(written) == kept
        assert str(kept).replace(f"<{XSD}", "xsd:").replace(">", "") == right
        if written.language is None:
            assert Literals().typed(written.value, written.datatype) == kept


def test_only_a_literal_is_refused_for_its_text() -> None:
    literals, text = Literals(), "300"
    with pytest.raises(IllFormedLiteral):
        literals.refuse_ill_formed(Literal(text, datatype=NamedNode(f"{XSD}byte")))
    literals.refuse_ill_formed(BlankNode("b"))
    literals.refuse_ill_formed(NamedNode(f"urn:{text}"))
