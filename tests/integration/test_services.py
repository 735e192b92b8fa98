"""SERVICE: an endpoint's answer stands in its place, as pyoxigraph's own federation has it, within limits."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import pytest
from pyoxigraph import QueryResultsFormat, QuerySolutions, Store

from quadlog.core.records import Outcome
from tests.support.web import Web, running_web
from tests.support.workers.loads import Pair
from tests.support.workers.updates import same, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

THERE = """
INSERT DATA {
  <urn:s1> <urn:name> "one", "eins"@de, "a ) } VALUES SERVICE NOW() \\" \\\\ \\n x" ; <urn:n> 1, 01.50, true .
  <urn:s2> <urn:name> "zw\\u00F6lf" ; <urn:n> "2"^^<urn:type> .
  GRAPH <urn:g> { <urn:s3> <urn:name> "three" }
}
"""
HERE = "INSERT DATA { <urn:s1> <urn:p> 1 . <urn:s2> <urn:p> 2 . GRAPH <urn:h> { <urn:s1> <urn:p> 3 } }"


def respond(request: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    request.send_response(status)
    request.send_header("Content-Type", "application/sparql-results+json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def query_in(request: BaseHTTPRequestHandler) -> str:
    """As a form, or as a query: pyoxigraph sends the latter."""
    body = request.rfile.read(int(request.headers["Content-Length"])).decode()
    return parse_qs(body)["query"][0] if body.startswith("query=") else body


def endpoint(store: Store, asked: list[str], request: BaseHTTPRequestHandler) -> None:
    asked.append(query_in(request))
    result = store.query(asked[-1])
    assert isinstance(result, QuerySolutions)
    said = result.serialize(format=QueryResultsFormat.JSON)
    assert said is not None
    respond(request, said)


class There:
    """An endpoint on loopback."""

    def __init__(self, web: Web) -> None:
        self.web, self.store, self.asked = web, Store(), list[str]()
        self.store.update(THERE)
        web.special["/there"] = partial(endpoint, self.store, self.asked)
        self.url = f"{web.url}/there"


@pytest.fixture
def there() -> Iterator[There]:
    with running_web() as web:
        yield There(web)


def saying(body: bytes, status: int = 200) -> partial[None]:
    """An endpoint that says that to everything."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        query_in(request)
        respond(request, body, status)

    return partial(answer)


WHERES = [
    "SERVICE <{url}> {{ ?s <urn:name> ?name }}",
    "?s <urn:p> ?p SERVICE <{url}> {{ ?s <urn:name> ?name }}",
    "?s <urn:p> ?p OPTIONAL {{ service silent <{url}> {{ ?s <urn:n> ?name FILTER(?name = 1) }} }}",
    "SERVICE e:there {{ ?s <urn:name> ?name }} # SERVICE ?x {{ }}\n SERVICE <{url}> {{ ?s <urn:n> ?n }} ?s <urn:p> ?p",
    "?s <urn:p> ?p FILTER NOT EXISTS {{ SERVICE <{url}> {{ ?s <urn:n> 1 }} }} BIND('SERVICE {{' AS ?name)",
    "{{ SELECT ?s (COUNT(*) AS ?name) {{ SERVICE <{url}> {{ ?s ?q ?o }} }} GROUP BY ?s }}",
    "GRAPH ?g {{ ?s <urn:p> ?p SERVICE <{url}> {{ GRAPH <urn:g> {{ ?x <urn:name> ?name }} }} }}",
    "?s <urn:p> ?p SERVICE <{url}> {{ }} BIND(1 AS ?name)",
    "{{ SERVICE <{url}> {{ SELECT * {{ ?s <urn:name> ?name }} ORDER BY ?name LIMIT 2 }} }} UNION {{ ?s ?p ?name }}",
    "SERVICE <{url}> {{ OPTIONAL {{ ?s <urn:none> ?x }} ?s <urn:name> ?name }} ?s <urn:p> ?x",
]


@pytest.mark.parametrize("where", WHERES)
def test_what_is_answered_is_what_pyoxigraph_asks_for(tmp_path: Path, there: There, where: str) -> None:
    pair, twin = Pair(tmp_path, service_endpoints=there.url), Store()
    pair.run(HERE)
    twin.update(HERE)
    head = f"PREFIX e: <{there.web.url}/> "
    text = f"{head}INSERT {{ ?s <urn:got> ?name }} WHERE {{ {where.format(url=there.url)} }}"
    twin.update(text)
    effect = pair.run(text)
    assert (effect.outcome, effect.reason) == (Outcome.APPLIED, None)
    assert effect.inserted, "the case says something"
    same(pair.following, twin)


def test_the_endpoint_is_asked_once_with_the_prologue(tmp_path: Path, there: There) -> None:
    pair = Pair(tmp_path, service_endpoints=there.url)
    pair.run(
        f"PREFIX u: <urn:> INSERT {{ ?s u:got ?o }} WHERE {{ SERVICE <{there.url}> {{ ?s u:name ?o }} }}"
        " ; DELETE { ?s u:got ?o } INSERT { ?s u:again ?o } WHERE { ?s u:got ?o }"
    )
    assert there.asked == ["PREFIX u: <urn:>\nSELECT * WHERE { ?s u:name ?o }"]
    assert len([line for line in state_of(pair.following)[0] if "urn:again" in line]) == 4


def test_what_is_not_allowed_is_not_asked(tmp_path: Path, there: There) -> None:
    away = f"{there.web.url}/away"
    pair = Pair(tmp_path, load_from=f"{there.web.url}/", service_endpoints=away)
    text = f"INSERT {{ <urn:s> <urn:p> 1 }} WHERE {{ SERVICE <{there.url}> {{ ?s ?p ?o }} }}"
    effect = pair.run(text)
    assert effect.outcome is Outcome.REJECTED
    assert "service-endpoints" in (effect.reason or "")
    silent = pair.run(text.replace("SERVICE", "SERVICE SILENT"))
    assert len(silent.inserted) == 1, "one empty solution"
    there.web.redirects["/away"] = there.url
    assert "answered 302" in (pair.run(text.replace(there.url, away)).reason or "")
    assert there.asked == []


ROW = {"head": {"vars": ["s"]}, "results": {"bindings": [{"s": {"type": "uri", "value": "urn:s"}}]}}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>", "no application/sparql-results+json"),
        (b"[" * 100_000, "no application/sparql-results+json"),
        (b'{"head": {}, "boolean": true}', "no application/sparql-results+json"),
        (json.dumps(ROW).replace("uri", "bnode").encode(), "has a bnode"),
        (json.dumps(ROW).replace("uri", "triple").encode(), "has a triple"),
        (json.dumps(ROW).replace("urn:s", "urn:s> <urn:p").encode(), "no application/sparql-results+json"),
        (json.dumps(ROW).replace('"s"', '"s) { } }"').encode(), "no variable"),
        (b"x" * 9_000_000, "bytes at most"),
    ],
)
def test_what_is_no_answer_is_rejected(tmp_path: Path, there: There, body: bytes, why: str) -> None:
    there.web.special["/there"] = saying(body)
    pair = Pair(tmp_path, service_endpoints=there.url)
    asks = f"INSERT {{ ?s <urn:p> 1 }} WHERE {{ SERVICE <{there.url}> {{ ?s ?p ?o }} }}"
    effect = pair.run(f"INSERT DATA {{ <urn:a> <urn:p> 1 }} ; {asks}")
    assert effect.outcome is Outcome.REJECTED
    assert why in (effect.reason or "")
    assert not state_of(pair.following)[0]


def test_errors_of_the_endpoint(tmp_path: Path, there: There) -> None:
    there.web.special["/bad"] = saying(b"no", 500)
    there.web.special["/slow"] = lambda _: time.sleep(2)
    text = "INSERT {{ <urn:s> <urn:p> 1 }} WHERE {{ SERVICE{silent} <{url}> {{ ?s ?p ?o }} }}"
    for path, why, load_timeout in (("bad", "answered 500", 60.0), ("slow", "load-timeout", 0.5)):
        url = f"{there.web.url}/{path}"
        pair = Pair(tmp_path / path, service_endpoints=url, load_timeout=load_timeout)
        effect = pair.run(text.format(silent="", url=url))
        assert effect.outcome is Outcome.REJECTED
        assert why in (effect.reason or "")
        assert pair.run(text.format(silent=" SILENT", url=url)).outcome is Outcome.APPLIED


def test_many_rows(tmp_path: Path, there: There) -> None:
    """As text they are no deeper than one."""
    there.store.update("".join(f"INSERT DATA {{ <urn:x:{n}> <urn:m> {n} }} ;\n" for n in range(20_000)))
    pair = Pair(tmp_path, service_endpoints=there.url)
    effect = pair.run(f"INSERT {{ ?s <urn:m> ?m }} WHERE {{ SERVICE <{there.url}> {{ ?s <urn:m> ?m }} }}")
    assert len(effect.inserted) == 20_000
