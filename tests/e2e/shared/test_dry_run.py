"""`dry-run=true`: what an update would do, and nothing logged."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from quadlog import codec
from quadlog.core.records import Effect
from tests.support.clusters.cluster import (
    HTTP,
    UPDATE,
    Cluster,
    name,
    nothing_logged,
    objects,
    records,
    until,
)

if TYPE_CHECKING:
    import httpx


def dry(cluster: Cluster, text: str, *, master: int = 0, using: str = "") -> httpx.Response:
    return HTTP.post(
        f"{cluster.masters[master]}/update",
        params={"dry-run": "true"} | ({"using-graph-uri": using} if using else {}),
        content=text.encode(),
        headers=UPDATE,
    )


def foreseen(cluster: Cluster, text: str, *, master: int = 0, using: str = "") -> dict[str, Any]:
    answer = dry(cluster, text, master=master, using=using)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def last_effect(cluster: Cluster) -> Effect:
    """What stands last in the effects."""
    dc = cluster.lab.dcs[0]
    said = (
        codec.decode(record.value() or b"")
        for record in records(dc["kafka"], f"main.{dc['name']}.effects", last=10)
    )
    return [effect for effect in said if isinstance(effect, Effect)][-1]


def test_it_tells_exactly_what_the_update_does_then(cluster: Cluster) -> None:
    one, two, graph = name(), name(), name()
    start = f"INSERT DATA {{ {one} <urn:n> 1 , 2 . GRAPH {graph} {{ {one} <urn:n> 3 }} }}"
    text = (
        f"DELETE {{ {one} <urn:n> ?n }} INSERT {{ {two} <urn:n> ?m }} WHERE {{ {one} <urn:n> ?n BIND(?n + 10 AS ?m) }}"
        f" ; CLEAR GRAPH {graph}"
    )
    assert cluster.update(start).status_code == 204
    for master in range(3):
        cluster.wait_until_equal()
        with nothing_logged(cluster):
            found = foreseen(cluster, text, master=master)
        assert found["outcome"] == "APPLIED"
        assert found["deleted"] == [
            f'{one} <urn:n> "{n}"^^<http://www.w3.org/2001/XMLSchema#integer>{" " + graph if n == 3 else ""} .'
            for n in (1, 2, 3)
        ]
        assert len(found["inserted"]) == 2
        assert found["emptied"] == [graph]
    assert objects(cluster.masters[0], one) == ["1", "2", "3"]
    found = foreseen(cluster, text)
    assert cluster.update(text).status_code == 204
    cluster.wait_until_equal()
    done = last_effect(cluster)
    assert done.index == found["index"] + 1
    assert list(done.deleted) == found["deleted"]
    assert list(done.inserted) == found["inserted"]
    assert done.signature_before.hex() == found["signature"]
    assert done.signature_after.hex() == found["signature_after"]
    assert done.quads == found["quads"]


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_it_shows_what_was_acknowledged_here(cluster: Cluster, times: int) -> None:
    subject = name()
    for number in range(times):
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:n> {number} }}").status_code == 204
        assert len(foreseen(cluster, f"DELETE WHERE {{ {subject} ?p ?o }}")["deleted"]) == number + 1


def test_parameters_stand_in_a_form_as_well_and_datasets_count(cluster: Cluster) -> None:
    graph, into = name(), name()
    assert cluster.update(f"INSERT DATA {{ GRAPH {graph} {{ {graph} <urn:n> 7 }} }}").status_code == 204
    text = f"INSERT {{ {into} <urn:n> ?n }} WHERE {{ {graph} <urn:n> ?n }}"
    with nothing_logged(cluster):
        assert foreseen(cluster, text)["inserted"] == []
        assert len(foreseen(cluster, text, using=graph.strip("<>"))["inserted"]) == 1
        fields = {"update": text, "using-graph-uri": graph.strip("<>"), "dry-run": "true"}
        answer = HTTP.post(f"{cluster.masters[1]}/update", data=fields)
        assert answer.status_code == 200
        assert len(answer.json()["inserted"]) == 1


def test_what_would_be_rejected_is_told_so(cluster: Cluster) -> None:
    with nothing_logged(cluster):
        found = foreseen(cluster, "CREATE GRAPH <urn:dry> ; CREATE GRAPH <urn:dry>")
        assert found["outcome"] == "REJECTED"
        assert "already exists" in found["reason"]


@pytest.mark.parametrize(
    ("parameters", "text", "status", "words"),
    [
        ({"dry-run": "yes"}, "INSERT DATA { <urn:a> <urn:b> 1 }", 400, "dry-run is true or false"),
        (
            {"dry-run": ["true", "false"]},
            "INSERT DATA { <urn:a> <urn:b> 1 }",
            400,
            "dry-run is true or false",
        ),
        ({"dry-run": "true"}, "INSERT DATA { <urn:a> <urn:b> }", 400, "line 1"),
        ({"dry-run": "true", "using-graph-uri": "no iri"}, "INSERT {} WHERE {}", 400, "using-graph-uri"),
    ],
)
def test_what_is_not_understood_is_refused_and_never_written(
    cluster: Cluster, parameters: dict[str, Any], text: str, status: int, words: str
) -> None:
    with nothing_logged(cluster):
        answer = HTTP.post(f"{cluster.masters[0]}/update", params=parameters, content=text, headers=UPDATE)
        assert (answer.status_code, words in answer.text) == (status, True), answer.text


def test_many_at_once_are_told_to_come_again_or_are_answered(cluster: Cluster) -> None:
    """A worker holds one at a time; writes and reads go on beside them."""
    subject, answers = name(), list[int]()

    def ask() -> None:
        answers.append(dry(cluster, f"INSERT DATA {{ {subject} <urn:n> 1 }}").status_code)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:other> {len(answers)} }}").status_code == 204
    assert set(answers) <= {200, 503}
    assert answers.count(200) >= 2, "there are two workers"


def test_whoever_leaves_is_not_waited_for(cluster: Cluster) -> None:
    """Both workers are at an endless one; each is free again as soon as its client has left."""
    graph = name()
    lines = " ".join(f"<urn:{number}> <urn:dry> {number} ." for number in range(300))
    assert cluster.update(f"INSERT DATA {{ GRAPH {graph} {{ {lines} }} }}").status_code == 204
    cluster.wait_until_equal()
    cross = " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(9))
    endless = f"INSERT {{ {graph} <urn:n> ?n }} WHERE {{ SELECT (COUNT(*) AS ?n) {{ GRAPH {graph} {{ {cross} }} }} }}"

    def asks() -> HTTPConnection:
        """Its answer is not waited for."""
        client = HTTPConnection(urlsplit(cluster.masters[0]).netloc)
        client.request("POST", "/update?dry-run=true", endless, UPDATE)
        return client

    def status() -> int:
        return dry(cluster, f"INSERT DATA {{ {graph} <urn:n> 1 }}").status_code

    with ExitStack() as leaving:

        def both_are_at_work() -> bool:
            """One that comes while both are is refused at once, as is the one that is asked for its status."""
            leaving.enter_context(closing(asks()))
            return status() == 503

        until(both_are_at_work)
    until(lambda: status() == 200, 2)
    assert cluster.update(f"DROP GRAPH {graph}").status_code == 204
