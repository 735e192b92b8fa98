"""Queries about Brick, sent to every worker and evaluated on the file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyoxigraph import QueryResultsFormat, QuerySolutions, RdfFormat, Store

if TYPE_CHECKING:
    import httpx

    from quadlog.demo.cluster import DemoNode

PREFIXES = """\
PREFIX brick: <https://brickschema.org/schema/Brick#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX sh: <http://www.w3.org/ns/shacl#>
"""
JSON = "application/sparql-results+json"
SHOWN = 4
"""Maximum rows of an answer in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoQuery:
    """A query whose answer is ordered and has no blank nodes, so that answers can be compared."""

    text: str
    query: str


QUESTIONS = (
    DemoQuery(
        text="How many classes are there?",
        query="SELECT (COUNT(DISTINCT ?class) AS ?classes) { ?class a owl:Class }",
    ),
    DemoQuery(
        text="How many kinds of equipment, at any depth?",
        query="SELECT (COUNT(DISTINCT ?kind) AS ?kinds) { ?kind rdfs:subClassOf+ brick:Equipment }",
    ),
    DemoQuery(
        text="What is a chilled water pump?",
        query="""\
SELECT DISTINCT ?label {
  brick:Chilled_Water_Pump rdfs:subClassOf*/rdfs:label ?label
} ORDER BY ?label""",
    ),
    DemoQuery(
        text="What may equipment feed, says a list in blank nodes?",
        query="""\
SELECT DISTINCT ?class {
  brick:Equipment sh:property [ sh:path brick:feeds ; sh:or/rdf:rest*/rdf:first/sh:class ?class ]
} ORDER BY ?class""",
    ),
    DemoQuery(
        text="Which shapes have most properties in blank nodes?",
        query="""\
SELECT ?shape (COUNT(DISTINCT ?property) AS ?properties) {
  ?shape sh:property ?property FILTER(isIRI(?shape) && isBlank(?property))
} GROUP BY ?shape ORDER BY DESC(?properties) ?shape LIMIT 3""",
    ),
)

Rows = tuple[tuple[str, ...], ...]


async def ask_worker(http: httpx.AsyncClient, worker: DemoNode, question: DemoQuery) -> Rows:
    """Return the answer of a worker."""
    parameters = {"query": PREFIXES + question.query}
    response = await http.get(f"{worker.url}/sparql", params=parameters, headers={"Accept": JSON})
    return rows_of(response.raise_for_status().json())


def ask_file(turtle: bytes) -> list[Rows]:
    """Return the answers to all `QUESTIONS`, evaluated on the file."""
    store = Store()
    store.bulk_load(turtle, format=RdfFormat.TURTLE)
    found: list[Rows] = []
    for question in QUESTIONS:
        answer = store.query(PREFIXES + question.query)
        assert isinstance(answer, QuerySolutions)
        body = answer.serialize(format=QueryResultsFormat.JSON)
        assert body is not None
        found.append(rows_of(json.loads(body)))
    return found


def rows_of(result: dict[str, Any]) -> Rows:
    """Return the rows of a SPARQL JSON result.

    >>> rows_of({"head": {"vars": ["a", "b"]}, "results": {"bindings": [{"a": {"value": "1"}}]}})
    (('1', ''),)
    """
    names = result["head"]["vars"]
    bindings = result["results"]["bindings"]
    return tuple(tuple(row[name]["value"] if name in row else "" for name in names) for row in bindings)


def shown(rows: Rows) -> str:
    """Return an answer as text for the table: IRIs by their local names, at most `SHOWN` rows.

    >>> shown((("https://brickschema.org/schema/Brick#Pump", "3"), ("https://w3id.org/rec#Asset", "22")))
    'Pump 3, Asset 22'
    """
    said = [" ".join(value.rpartition("#")[2] for value in row) for row in rows]
    more = f" and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    return ", ".join(said[:SHOWN]) + more
