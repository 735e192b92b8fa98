"""Queries at the door of every master and worker, and what they never see."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

from tests.support.clusters.cluster import (
    FORM,
    HTTP,
    Cluster,
    ask,
    index_of,
    name,
    nothing_logged,
)

XML_LITERAL = "{http://www.w3.org/2005/sparql-results#}literal"


def test_solutions_in_every_format(cluster: Cluster) -> None:
    subject = name()
    assert cluster.update(f'INSERT DATA {{ {subject} <urn:is> "a,b"@en }}').status_code == 204
    query = f"SELECT ?o {{ {subject} <urn:is> ?o }}"

    def answer(accept: str) -> tuple[str, str]:
        got = ask(cluster.masters[0], query, accept)
        assert got.status_code == 200, got.text
        return got.headers["content-type"].split(";")[0], got.text

    media_type, text = answer("application/sparql-results+json")
    assert media_type == "application/sparql-results+json"
    expected = {"type": "literal", "value": "a,b", "xml:lang": "en"}
    assert json.loads(text)["results"]["bindings"] == [{"o": expected}]
    media_type, text = answer("application/sparql-results+xml")
    assert media_type == "application/sparql-results+xml"
    assert [found.text for found in ET.fromstring(text).iter(XML_LITERAL)] == ["a,b"]  # noqa: S314 - from our own worker
    assert answer("text/csv") == ("text/csv", 'o\r\n"a,b"\r\n')
    assert answer("text/tab-separated-values") == ("text/tab-separated-values", '?o\n"a,b"@en\n')
    # What the header prefers, not what stands first.
    assert answer("text/csv;q=0.3, application/sparql-results+xml;q=0.9, */*;q=0.1")[0].endswith("xml")
    assert answer("application/sparql-results+xml;q=0, text/csv;q=0.001")[0] == "text/csv"
    assert answer("text/*, application/sparql-results+json;q=0.5")[0] == "text/csv"
    assert answer("*/*")[0] == "application/sparql-results+json"
    assert answer("TEXT/CSV; Q=1.0")[0] == "text/csv"


def test_graphs_in_every_format(cluster: Cluster) -> None:
    subject = name()
    assert cluster.update(f'INSERT DATA {{ {subject} <urn:is> "ü" }}').status_code == 204
    query = f"CONSTRUCT WHERE {{ {subject} ?p ?o }}"
    line = f'{subject} <urn:is> "ü" .'
    for accept, expected in (
        ("application/n-triples", "application/n-triples"),
        ("text/turtle", "text/turtle"),
        ("text/turtle;q=0.4, application/n-triples;q=0.5", "application/n-triples"),
        ("application/sparql-results+json, text/turtle;q=0.1", "text/turtle"),
        ("*/*", "text/turtle"),
    ):
        got = ask(cluster.masters[0], query, accept)
        assert got.headers["content-type"].split(";")[0] == expected
        assert got.text.split() == line.split()
        assert index_of(got) > 0


def test_a_query_comes_in_three_forms(cluster: Cluster) -> None:
    subject = name()
    assert cluster.update(f"INSERT DATA {{ {subject} <urn:is> 1 }}", master=2).status_code == 204
    query = f"ASK {{ {subject} <urn:is> 1 }}"
    for url in (cluster.masters[2], *(worker["url"] for worker in cluster.lab.dcs[2]["workers"])):
        cluster.wait_until_equal()
        direct = HTTP.post(
            f"{url}/sparql",
            content=query,
            headers={"Content-Type": "application/sparql-query; charset=utf-8"},
        )
        form = HTTP.post(f"{url}/sparql", data={"query": query})
        by_get = HTTP.get(f"{url}/sparql", params={"query": query})
        for answer in (direct, form, by_get):
            assert answer.json()["boolean"] is True
            assert index_of(answer) > 0


def test_wrong_queries(cluster: Cluster) -> None:
    url = f"{cluster.masters[0]}/sparql"
    wrong = [
        (HTTP.get(url), 400, "'query'"),
        (HTTP.get(url, params=[("query", "ASK {}"), ("query", "ASK {}")]), 400, "2"),
        (HTTP.get(url, params={"query": "SELECT *\n{ ?s }"}), 400, "line 2, column"),
        (HTTP.post(url, content=b"ASK {}", headers={"Content-Type": "text/plain"}), 400, "text/plain"),
        (HTTP.post(url, content=b"\xff", headers={"Content-Type": "application/sparql-query"}), 400, "UTF-8"),
        (HTTP.post(url, content=b"query=%ff", headers=FORM), 400, "UTF-8"),
    ]
    for answer, status, said in wrong:
        assert answer.status_code == status, answer.text
        assert said in answer.json()["message"]


def test_what_the_dataset_parameters_name_is_all_that_is_seen(cluster: Cluster) -> None:
    graph = name()
    assert cluster.update(f"INSERT DATA {{ GRAPH {graph} {{ {graph} <urn:is> 1 }} }}").status_code == 204
    for parameter, pattern in (
        ("default-graph-uri", "?s ?p ?o"),
        ("named-graph-uri", "GRAPH ?g { ?s ?p ?o }"),
    ):
        answer = HTTP.get(
            f"{cluster.masters[0]}/sparql",
            params={"query": f"SELECT ?s {{ {pattern} }}", parameter: graph[1:-1]},
            headers={"Accept": "text/csv"},
        )
        assert answer.text.split() == ["s", graph[1:-1]]


def reserved_graphs(cluster: Cluster) -> dict[str, str]:
    """Worker id to the name that it alone knows: read from its disk, as no client can."""
    found = cluster.lab.directory.rglob("reserved-graph")
    names = {next(p for p in path.parts if p in cluster.workers): path.read_text().strip() for path in found}
    assert set(names) == set(cluster.workers)
    return names


def test_nobody_writes_to_the_reserved_graph(cluster: Cluster) -> None:
    real = next(iter(reserved_graphs(cluster).values()))
    with nothing_logged(cluster):
        for iri in ("urn:quadlog:state:x", real):
            for text in (
                f"INSERT DATA {{ GRAPH <{iri}> {{ <urn:s> <urn:p> 1 }} }}",
                f"DELETE DATA {{ GRAPH <{iri}> {{ <urn:s> <urn:p> 1 }} }}",
                f"PREFIX q: <{iri[:18]}> INSERT DATA {{ GRAPH q:{iri[18:]} {{ <urn:s> <urn:p> 1 }} }}",
                f"BASE <{iri}> INSERT DATA {{ GRAPH <> {{ <urn:s> <urn:p> 1 }} }}",
                f"INSERT DATA {{ GRAPH <{iri.replace('state', chr(92) + 'u0073tate')}> {{ <urn:s> <urn:p> 1 }} }}",
            ):
                answer = cluster.update(text)
                assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden"), (text, answer.text)


def test_nobody_sees_the_reserved_graph(cluster: Cluster) -> None:
    graph = name()
    assert cluster.update(f"INSERT DATA {{ GRAPH {graph} {{ <urn:s> <urn:p> 1 }} }}").status_code == 204
    cluster.wait_until_equal()
    names = reserved_graphs(cluster)
    assert all(found.startswith("urn:quadlog:state:") for found in names.values())
    for worker, url in cluster.workers.items():
        for query in (
            "SELECT ?g { GRAPH ?g { ?s ?p ?o } }",
            "SELECT DISTINCT * { graph # one of them\n $g { ?s ?p ?o } }",
            "SELECT * { GRAPH ?g {} }",
            "SELECT * { { SELECT * { GRAPH ?g { ?s ?p ?o } } } }",
            "SELECT * { GRAPH ?g { SELECT * { ?s ?p ?o } } }",
            "SELECT * { GRAPH ?g { ?s <urn:quadlog:applied> ?o } }",
            "SELECT * { OPTIONAL { GRAPH ?g { ?s ?p ?o } } }",
            "CONSTRUCT { ?g ?p ?o } WHERE { GRAPH ?g { ?s ?p ?o } }",
        ):
            answer = ask(url, query, "text/csv, application/n-triples")
            assert answer.status_code == 200, answer.text
            assert names[worker] not in answer.text, query
            assert "quadlog:applied" not in answer.text, query
        for pattern in ("?s <urn:quadlog:applied> ?o", "?s ?p ?o FILTER(STRSTARTS(STR(?s), 'urn:quadlog'))"):
            for wrapped in (
                f"GRAPH ?g {{ {pattern} }}",
                f"FILTER EXISTS {{ GRAPH ?g {{ {pattern} }} }}",
                pattern,
            ):
                assert ask(url, f"ASK {{ {wrapped} }}").json()["boolean"] is False, wrapped
        assert "quadlog:" not in HTTP.get(f"{url}/statements").text
    everything = HTTP.get(f"{cluster.masters[0]}/repositories/main/statements").text
    assert graph in everything
    assert "quadlog:" not in everything
    assert HTTP.get(f"{cluster.masters[0]}/repositories/other/statements").status_code == 404
