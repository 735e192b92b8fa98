"""An answer in XML is XML, whatever was stored; or it is an error, before the first byte where that is possible."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple, parse, serialize

from quadlog.errors import NotAcceptable, QuadlogError
from quadlog.quadstore.quadstore import QuadStore
from quadlog.quadstore.xml_answers import XmlOutput, for_rdf_xml
from tests.support.isomorphism import isomorphic
from tests.support.workers.served import served
from tests.support.workers.stores import body

if TYPE_CHECKING:
    from pathlib import Path

RESULTS, RDF_XML = "application/sparql-results+xml", "application/rdf+xml"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
ALL, GRAPH = "SELECT ?o { ?s ?p ?o }", "CONSTRUCT WHERE { ?s ?p ?o }"

FORBIDDEN = [*(set(range(32)) - {9, 10, 13}), 0xFFFE, 0xFFFF]
ALLOWED = [9, 10, 13, 32, 0x7F, 0x85, 0xD7FF, 0xE000, 0xFFFD, 0x1FFFE, 0x10FFFF]

NO_NAMES = [
    "http://a/2024/1",
    "http://a/",
    "http://a/b#",
    "urn:1",
    "http://a/%20",
    f"{RDF}li",
    f"{RDF}Description",
]
NAMES = ["http://a/2024/b1", "http://a/1b", "urn:é", f"{RDF}_1", f"{RDF}value", "http://a/x'y", "http://a/&b"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> QuadStore:
    return QuadStore.open(tmp_path_factory.mktemp("empty"))


def texts_in(document: bytes, element: str) -> set[str | None]:
    return {found.text for found in ET.fromstring(document).iter(element)}  # noqa: S314 - our own


def written(value: str) -> str:
    """A literal as SPARQL writes it."""
    return '"' + "".join(f"\\U{ord(character):08X}" for character in value) + '"'


@pytest.mark.parametrize("code", FORBIDDEN)
def test_a_character_that_xml_lacks_is_an_error_that_names_it(store: QuadStore, code: int) -> None:
    literal = written(f"a{chr(code)}b")
    select, construct = f"SELECT ({literal} AS ?o) {{}}", f"CONSTRUCT {{ <urn:s> <urn:p> {literal} }} {{}}"
    for query, accept in ((select, RESULTS), (construct, RDF_XML)):
        with pytest.raises(NotAcceptable, match=f"U\\+{code:04X}"):
            body(store.query(query, accept=accept))


def test_all_other_characters_come_back(store: QuadStore) -> None:
    values = {"".join(map(chr, ALLOWED)) + "\r\n\r]]>&<'\" \r", " \r\n "}
    literals = [written(value) for value in values]
    select = body(store.query(f"SELECT ?o {{ VALUES ?o {{ {' '.join(literals)} }} }}", accept=RESULTS))
    assert texts_in(select, "{http://www.w3.org/2005/sparql-results#}literal") == values
    construct = f"CONSTRUCT {{ <urn:s> <urn:p> {', '.join(literals)} }} {{}}"
    document = body(store.query(construct, accept=RDF_XML))
    assert {triple.object for triple in parse(document, RdfFormat.RDF_XML)} == set(map(Literal, values))
    assert texts_in(document, "{urn:}p") == values


@pytest.mark.parametrize("value", ["\ufffe", "\uffff", "\ufffd\uffff", "x\uffff\ufffd"])
def test_a_character_is_found_wherever_pieces_end(value: str) -> None:
    document = f"<a>{value}</a>".encode()
    for one in range(len(document)):
        for other in range(one, len(document)):
            output = XmlOutput(BytesIO())
            with pytest.raises(NotAcceptable):  # noqa: PT012 - in whichever piece
                for piece in (document[:one], document[one:other], document[other:]):
                    output.write(piece)


@pytest.mark.parametrize("value", ["\uffef\uffbf", "\uefff\ufffd", "ﾾ\u00ef\u00bf"])
def test_no_other_character_is_taken_for_one_wherever_pieces_end(value: str) -> None:
    document = f"<a>{value}</a>".encode()
    for one in range(len(document)):
        written = BytesIO()
        output = XmlOutput(written)
        output.write(document[:one])
        output.write(document[one:])
        assert written.getvalue() == document


@pytest.mark.parametrize("iri", NO_NAMES)
def test_a_predicate_that_rdf_xml_cannot_express_is_an_error(store: QuadStore, iri: str) -> None:
    for triple in (f"<urn:s> <{iri}> 1", f"<urn:s> <urn:p> <<( <urn:s> <{iri}> 1 )>>"):
        query = f"CONSTRUCT {{ {triple} }} {{}}"
        with pytest.raises(NotAcceptable, match="Turtle"):
            body(store.query(query, accept=RDF_XML))
        assert body(store.query(query, accept="text/turtle"))


@pytest.mark.parametrize("iri", [*NAMES, *NO_NAMES])
def test_rdf_xml_is_read_again_as_the_same_triples_or_refused(iri: str) -> None:
    subject, node = NamedNode("urn:s"), NamedNode(iri)
    for triple in (Triple(subject, node, Literal("x")), Triple(subject, NamedNode(f"{RDF}type"), node)):
        try:
            document = serialize(for_rdf_xml([triple]), format=RdfFormat.RDF_XML)
        except NotAcceptable:
            assert iri in NO_NAMES
            continue
        assert document is not None
        assert texts_in(document, "x") == set()
        assert [quad.triple for quad in parse(document, RdfFormat.RDF_XML) if isinstance(quad, Quad)] == [
            triple
        ]


def test_labels_of_blank_nodes_are_xml_names() -> None:
    nodes = [BlankNode(label) for label in ("1", "0a", "a.b", "é", "_x31", "a", "_x")]
    inner = Triple(nodes[0], NamedNode("urn:p"), nodes[1])
    triples = [Triple(one, NamedNode("urn:p"), other) for one in nodes for other in nodes]
    triples.append(Triple(nodes[2], NamedNode("urn:q"), inner))
    document = serialize(for_rdf_xml(triples), format=RdfFormat.RDF_XML)
    assert document is not None
    back = [quad.triple for quad in parse(document, RdfFormat.RDF_XML) if isinstance(quad, Quad)]
    assert len(set(back)) == len(triples)
    assert isomorphic([Quad(*triple) for triple in back], [Quad(*triple) for triple in triples])


@pytest.mark.anyio
@pytest.mark.parametrize(("query", "accept"), [(ALL, RESULTS), (GRAPH, RDF_XML)])
async def test_over_http_it_is_406_or_a_transfer_without_its_end(
    tmp_path: Path, query: str, accept: str
) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with served(tmp_path, most=1) as here:
        here.client.headers["accept"] = accept
        here.update('INSERT DATA { <urn:z> <urn:p> "bell\\u0001" }')
        answer = await here.ask(query)
        assert (answer.status_code, answer.json()["error"]) == (406, "NotAcceptable")
        assert "U+0001" in answer.json()["message"]
        # More than can have come before the first of it is passed on: where the error came too, it is a 406.
        many = " , ".join(f'"{"x" * 1000}{number}"' for number in range(1000))
        here.update(f"INSERT DATA {{ <urn:a> <urn:p> {many} }}")
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/sparql",
            "headers": [(b"accept", accept.encode())],
            "query_string": urlencode({"query": f"{query} ORDER BY ?s"}).encode(),
        }
        with suppress(QuadlogError):
            await here.app(scope, asyncio.Event().wait, send)  # type: ignore[arg-type]
        assert sent[0]["status"] == 200
        assert sum(len(message["body"]) for message in sent[1:]) > 50_000
        assert all(message["more_body"] for message in sent[1:]), "its end never comes"
        assert (await here.ask("ASK {}")).status_code == 200
