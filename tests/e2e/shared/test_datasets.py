"""`using-graph-uri` and `using-named-graph-uri`: the protocol's own dataset of an update."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, name, nothing_logged, objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx


Graphs: TypeAlias = "Mapping[str, Sequence[str]]"
USING, NAMED = "using-graph-uri", "using-named-graph-uri"


def direct(cluster: Cluster, text: str, graphs: Graphs, *, master: int = 0, key: str = "") -> httpx.Response:
    """The text as it is, graphs in the URL."""
    headers = UPDATE | ({"Idempotency-Key": key} if key else {})
    return HTTP.post(f"{cluster.masters[master]}/update", params=_bare(graphs), content=text, headers=headers)


def as_form(cluster: Cluster, text: str, graphs: Graphs, *, master: int = 0) -> httpx.Response:
    """Text and graphs as fields of a form."""
    return HTTP.post(f"{cluster.masters[master]}/update", data={"update": text, **_bare(graphs)})


def _bare(graphs: Graphs) -> dict[str, list[str]]:
    return {parameter: [graph.strip("<>") for graph in named] for parameter, named in graphs.items()}


def test_every_where_of_the_request_looks_there(cluster: Cluster) -> None:
    """As the W3C's tests of the protocol: update_dataset_default_graph(s), _named_graphs, _full."""
    one, two, three = name(), name(), name()
    values = " ".join(f"GRAPH {graph} {{ {graph} <urn:n> {n} }}" for n, graph in enumerate((one, two, three)))
    assert cluster.update(f"INSERT DATA {{ {values} }}").status_code == 204
    for number, send in enumerate((direct, as_form)):
        into = name()
        plain = f"INSERT {{ {into} <urn:default> ?n }} WHERE {{ ?s <urn:n> ?n }}"
        named = f"INSERT {{ {into} <urn:named> ?n }} WHERE {{ GRAPH ?g {{ ?s <urn:n> ?n }} }}"
        for text, graphs, found in (
            (plain, {USING: [one]}, ["0"]),
            (plain, {USING: [two, one, one]}, ["0", "1"]),
            (plain, {NAMED: [one]}, []),
            (named, {USING: [one]}, []),
            (named, {NAMED: [two, three]}, ["1", "2"]),
            (f"{plain} ; {named}", {USING: [one], NAMED: [three]}, ["0", "2"]),
        ):
            assert cluster.update(f"DELETE WHERE {{ {into} ?p ?o }}").status_code == 204
            answer = send(cluster, text, graphs, master=number)
            assert answer.status_code == 204, answer.text
            assert objects(cluster.masters[number], into) == found
    gone = direct(cluster, f"DELETE WHERE {{ {one} ?p ?o }}", {USING: [one]}, master=2)
    assert gone.status_code == 204
    assert objects(cluster.masters[2], one) == ["0"]  # looked for there, deleted from the default graph
    cluster.wait_until_equal()


def test_what_the_protocol_forbids_is_400(cluster: Cluster) -> None:
    graph = name()
    with nothing_logged(cluster):
        for parameter in (USING, NAMED):
            for send in (direct, as_form):
                for text in (
                    f"WITH {graph} DELETE {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o }}",
                    f"INSERT {{}} USING {graph} WHERE {{ ?s ?p ?o }}",
                    f"CLEAR ALL ; INSERT {{}} USING NAMED {graph} WHERE {{ ?s ?p ?o }}",
                ):
                    answer = send(cluster, text, {parameter: [graph]})
                    assert (answer.status_code, answer.json()["error"]) == (400, "UserError"), answer.text
                    assert "2.2.3" in answer.json()["message"]
                text = "INSERT { ?s ?p ?o } WHERE { ?s ?p ?o }"
                for iri in ("", "graph", "urn:a b", "urn:a urn:b"):
                    assert send(cluster, text, {parameter: [graph, iri]}).status_code == 400
                reserved = send(cluster, text, {parameter: ["urn:quadlog:state:x"]})
                assert (reserved.status_code, reserved.json()["error"]) == (403, "Forbidden")
    many = [f"urn:{number}:{'x' * 90}" for number in range(200)]
    assert as_form(cluster, "CLEAR ALL", {USING: many}).status_code == 413


@pytest.mark.parametrize("parameter", [USING, NAMED])
def test_a_key_with_another_dataset_is_422(cluster: Cluster, parameter: str) -> None:
    key, one, two = f"dataset/{uuid.uuid4()}", name(), name()
    text = "INSERT { ?s <urn:found> 1 } WHERE { ?s <urn:nothing> ?o }"
    first = direct(cluster, text, {parameter: [one, two]}, key=key)
    assert first.status_code == 204
    for master in range(3):
        again = direct(cluster, text, {parameter: [two, one]}, master=master, key=key)
        assert (again.status_code, again.headers["Quadlog-Tx"]) == (204, first.headers["Quadlog-Tx"])
        other = direct(cluster, text, {parameter: [two]}, master=master, key=key)
        none = direct(cluster, text, {}, master=master, key=key)
        assert (other.status_code, none.status_code) == (422, 422)
