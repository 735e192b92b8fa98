"""STRDT and typed literals in the text of queries and WHEREs: none becomes another term than the text says."""

from __future__ import annotations

import pytest
from pyoxigraph import NamedNode

from quadlog.core.effects.effect import effect_of
from quadlog.core.effects.template import filled_in
from quadlog.core.sparql.operations import Modify
from quadlog.core.sparql.update import parse_update
from quadlog.errors import SyntaxRefused
from quadlog.quadstore.quadstore import QuadStore
from tests.support.workers.stores import body

PREFIXES = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>"
ERRORS = [
    'STRDT("300", xsd:byte)',
    'strdt ("nan", xsd:double)',
    'STRDT("x", rdf:langString)',
    'STRDT("x", IRI(CONCAT(STR(rdf:), "dirLangString")))',
    'STRDT("x"@en, xsd:string)',
    "STRDT(1, xsd:string)",
    'STRDT("1", "2")',
    'STRDT("1", ?nothing)',
]
MADE = {
    'STRDT("30", xsd:byte)': "30",
    'STRDT("abc", xsd:integer)': '"abc"^^<http://www.w3.org/2001/XMLSchema#integer>',
    'STRDT("x", <urn:STRDT(>)': '"x"^^<urn:STRDT(>',
    'STRDT(STR(STRDT("01", xsd:integer)), xsd:decimal)': '"1"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    'STRDT("STRDT(", xsd:string)': '"STRDT("',
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> QuadStore:
    return QuadStore.open(tmp_path_factory.mktemp("empty"))


def made(store: QuadStore, expression: str) -> str:
    query = f"{PREFIXES} SELECT ({expression} AS ?x) {{}}"
    return body(store.query(query, accept="text/tab-separated-values")).decode().splitlines()[1]


def inserted(store: QuadStore, expression: str) -> list[str]:
    """Objects of what an update with this expression inserts."""
    text = f"{PREFIXES} INSERT {{ <urn:s> <urn:p> ?x , <urn:o> }} WHERE {{ BIND({expression} AS ?x) }}"
    [operation] = parse_update(text, tx_id=b"1")
    assert isinstance(operation, Modify)
    change = effect_of(filled_in(operation, store.solutions(operation.where, {}), b"1"), store)
    return [str(quad.object) for quad in change.inserted if quad.object != NamedNode("urn:o")]


@pytest.mark.parametrize("expression", ERRORS)
def test_strdt_is_an_error_where_there_is_no_such_literal(store: QuadStore, expression: str) -> None:
    assert made(store, expression) == ""
    assert inserted(store, expression) == []


@pytest.mark.parametrize("expression", MADE)
def test_strdt_makes_what_can_be_stored(store: QuadStore, expression: str) -> None:
    assert made(store, expression) == MADE[expression]
    assert len(inserted(store, expression)) == 1


def test_strdt_stands_wherever_a_function_may(store: QuadStore) -> None:
    call = 'STRDT("true", xsd:boolean)'
    query = f"""{PREFIXES} SELECT ({call} AS ?y) (COUNT(*) AS ?n) {{ VALUES ?x {{ 1 2 }} FILTER {call} FILTER({call}) }}
        GROUP BY {call} HAVING {call} ORDER BY {call} DESC({call})"""
    assert body(store.query(query, accept="text/csv")) == b"y,n\r\ntrue,2\r\n"


@pytest.mark.parametrize("literal", ['"300"^^xsd:byte', '"""3\\u00300""" ^^ xsd:byte', "'x'^^rdf:langString"])
@pytest.mark.parametrize("query", ["SELECT ({} AS ?x) {{}}", "ASK {{ ?s ?p {} }}", "ASK {{ FILTER(?x={}) }}"])
def test_an_ill_formed_literal_in_a_query_is_refused(store: QuadStore, query: str, literal: str) -> None:
    with pytest.raises(SyntaxRefused, match=r"byte|langString"):
        store.query(f"{PREFIXES} {query.format(literal)}")


@pytest.mark.parametrize(
    "literal", ['"30"^^xsd:byte', '"\\"300\\"^^xsd:byte"', "'abc'^^xsd:integer", "'a'@en", "'1'"]
)
def test_all_others_are_not(store: QuadStore, literal: str) -> None:
    assert body(store.query(f"{PREFIXES} ASK {{ BIND({literal} AS ?x) }}")) == b'{"head":{},"boolean":true}'
