"""What clients of other languages send is stored, and what is cut on its way is not."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.cluster import FORM, HTTP, UPDATE, Cluster, ask, name, nothing_logged, until
from tests.support.raw_http import H2C, connected, exchange, parts_of, request, status_of, until_closed

if TYPE_CHECKING:
    from collections.abc import Iterable

CLIENTS = Path(__file__).parents[2] / "support" / "Clients.java"
STATEMENTS = "/repositories/main/statements"
TURTLE = {"Content-Type": "text/turtle"}
CLOSE = {"Connection": "close"}


def java(cluster: Cluster, *, updates: int, puts: int, expects: bool) -> str:
    """Write at all masters in turn; returns the subject."""
    subject = name().strip("<>")
    asked = [subject, str(updates), str(puts), str(expects).lower(), *cluster.masters]
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", str(CLIENTS), *asked],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["204"] * (updates + puts)
    return subject


def found(cluster: Cluster, pattern: str) -> set[str]:
    """The values of ?x, read at the first master when all are equal."""
    cluster.wait_until_equal()
    rows = ask(cluster.masters[0], f"SELECT ?x {{ {pattern} }}").json()["results"]["bindings"]
    return {row["x"]["value"] for row in rows}


def numbers(count: int) -> set[str]:
    return {str(number) for number in range(count)}


@pytest.mark.parametrize(
    ("updates", "puts", "expects"),
    [
        (24, 6, False),
        (6, 3, True),
        pytest.param(100, 10, False, marks=pytest.mark.soak),  # for what goes wrong by chance
    ],
)
def test_what_a_java_program_writes_is_stored(
    cluster: Cluster, updates: int, puts: int, *, expects: bool
) -> None:
    subject = java(cluster, updates=updates, puts=puts, expects=expects)
    assert found(cluster, f"<{subject}> <urn:update> ?x") == numbers(updates)
    assert found(cluster, f"GRAPH ?g {{ <{subject}> <urn:put> ?x }}") == numbers(puts)


CURL = shutil.which("curl")
HAS_HTTP2 = CURL is not None and "HTTP2" in subprocess.check_output([CURL, "--version"], text=True)


@pytest.mark.skipif(not HAS_HTTP2, reason="there is no curl with HTTP2 here")
@pytest.mark.parametrize("chunks", [[], ["Transfer-Encoding: chunked"]], ids=["length", "chunks"])
@pytest.mark.parametrize("expect", ["Expect:", "Expect: 100-continue"])
def test_what_curl_writes_is_stored(cluster: Cluster, chunks: list[str], expect: str) -> None:
    subject = name()
    headers = [part for header in (*chunks, expect) for part in ("-H", header)]
    bodies = [f"INSERT DATA {{ {subject} <urn:is> {number} }}" for number in range(3)]
    for master, body in zip(cluster.masters, bodies, strict=True):
        curl = ["curl", "-s", "--http2", "-w", "%{http_code}", *headers]
        media_type = ["-H", "Content-Type: application/sparql-update"]
        said = subprocess.check_output(
            [*curl, *media_type, "--data-binary", body, f"{master}/update"], text=True
        )
        assert said == "204"
    assert found(cluster, f"{subject} <urn:is> ?x") == numbers(3)


def cut_requests(count: int, chance: random.Random) -> Iterable[bytes]:
    """Requests that write, each cut somewhere."""
    data = "".join(f"<urn:cut:{number}> <urn:is> 'cut' .\n" for number in range(50)).encode()
    update = b"INSERT DATA { " + data + b" } ; CLEAR ALL"
    writes = [
        ("POST", "/update", UPDATE, update),
        ("POST", STATEMENTS, UPDATE, update),
        ("POST", STATEMENTS, TURTLE, data),
        ("PUT", STATEMENTS, TURTLE, data),
    ]
    for _ in range(count):
        method, target, media_type, body = chance.choice(writes)
        headers = media_type | chance.choice([CLOSE, H2C, {"Expect": "100-continue"}])
        whole = request(method, target, headers, body, chunk=chance.choice([0, 100, 3000]))
        yield whole[: chance.randrange(1, len(whole))]


def check_cut(cluster: Cluster, count: int) -> None:
    chance, doors = random.Random(count), [*cluster.masters, *cluster.workers.values()]
    with nothing_logged(cluster):
        for sent in cut_requests(count, chance):
            with connected(chance.choice(doors)) as one:
                one.sendall(sent)
                if chance.random() < 0.5:
                    one.shutdown(socket.SHUT_WR)
                else:  # until the other side has taken what there is
                    one.settimeout(0.05)
                try:
                    answer = until_closed(one).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
                except TimeoutError:
                    answer = b""
            assert status_of(answer) in {0, 400, 403}, answer  # 403: a worker takes no writes


def test_of_requests_that_are_cut_none_is_done_in_part(cluster: Cluster) -> None:
    check_cut(cluster, 100)


@pytest.mark.soak
def test_of_a_thousand_requests_that_are_cut_none_is_done_in_part(cluster: Cluster) -> None:
    check_cut(cluster, 1000)


@pytest.mark.parametrize(
    ("headers", "body", "chunk"),
    [({}, b"", 0), ({"Transfer-Encoding": "chunked"}, b"0\r\n\r\n", 0), (H2C, b"", 0)],
    ids=["nothing", "no chunks", "upgrade"],
)
def test_a_put_without_a_body_replaces_nothing(
    cluster: Cluster, headers: dict[str, str], body: bytes, chunk: int
) -> None:
    graph = name()
    target = f"{STATEMENTS}?context=%3C{graph.strip('<>')}%3E"
    assert cluster.update(f"INSERT DATA {{ GRAPH {graph} {{ <urn:a> <urn:is> 1 }} }}").status_code == 204
    sent = request("PUT", target, TURTLE | CLOSE | headers, chunk=chunk) + body
    with nothing_logged(cluster):
        answer = exchange(
            cluster.masters[0], sent.replace(b"Connection: Upgrade", b"Connection: close, Upgrade")
        )
        assert status_of(answer) == 400
        assert b"Content-Length: 0" in parts_of(answer)[1]
    assert found(cluster, f"GRAPH {graph} {{ <urn:a> <urn:is> ?x }}") == {"1"}
    empty = request("PUT", target, TURTLE | CLOSE | {"Content-Length": "0"})
    assert status_of(exchange(cluster.masters[0], empty)) == 204
    assert found(cluster, f"GRAPH {graph} {{ <urn:a> <urn:is> ?x }}") == set()


def test_a_dataset_in_the_url_of_a_form_counts_or_is_refused(cluster: Cluster) -> None:
    graph, other = name().strip("<>"), name().strip("<>")
    text = (
        f"INSERT DATA {{ GRAPH <{graph}> {{ <urn:a> <urn:is> 1 }} GRAPH <{other}> {{ <urn:a> <urn:is> 2 }} }}"
    )
    assert cluster.update(text).status_code == 204
    for door in (cluster.masters[0], *list(cluster.workers.values())[:1]):
        cluster.wait_until_equal()
        form = {"query": "SELECT ?x { <urn:a> <urn:is> ?x }"}
        url = f"{door}/sparql"

        def values(form: dict[str, str], *, url: str = url, **given: str) -> list[str] | int:
            given = {key.replace("_", "-"): value for key, value in given.items()}
            answer = HTTP.post(url, data=form, params=given)
            if answer.status_code != 200:
                return answer.status_code
            return [row["x"]["value"] for row in answer.json()["results"]["bindings"]]

        assert values(form, default_graph_uri=graph) == ["1"]
        assert values(form | {"default-graph-uri": graph}, default_graph_uri=graph) == ["1"]
        assert values(form | {"default-graph-uri": graph}, default_graph_uri=other) == 400
        assert values(form, query="ASK {}") == 400
        assert values(form, defaultgraph=graph) == 400
        assert values(form, using_graph_uri=graph) == 400
        assert values(form, queryLn="SERQL") == 400
        assert values(form, queryLn="sparql", infer="true", default_graph_uri=other) == ["2"]


def test_a_dataset_in_the_url_of_an_update_counts_or_is_refused(cluster: Cluster) -> None:
    graph, other, target = (name().strip("<>") for _ in range(3))
    text = (
        f"INSERT DATA {{ GRAPH <{graph}> {{ <urn:a> <urn:is> 1 }} GRAPH <{other}> {{ <urn:a> <urn:is> 2 }} }}"
    )
    assert cluster.update(text).status_code == 204
    form = {"update": f"INSERT {{ <{target}> <urn:is> ?x }} WHERE {{ <urn:a> <urn:is> ?x }}"}

    def status(form: dict[str, str], **given: str) -> int:
        parameters = {key.replace("_", "-"): value for key, value in given.items()}
        return HTTP.post(f"{cluster.masters[0]}/update", data=form, params=parameters).status_code

    with nothing_logged(cluster):
        assert status(form | {"using-graph-uri": graph}, using_graph_uri=other) == 400
        assert status(form, default_graph_uri=graph) == 400
        assert status(form, update="CLEAR ALL") == 400
        assert status(form | {"remove-graph-uri": graph}) == 400
        for body in (b"update=%ff", b"update=CLEAR+ALL&%ff=1", b"update=\xff"):
            assert HTTP.post(f"{cluster.masters[0]}/update", content=body, headers=FORM).status_code == 400
        for headers, path in ((UPDATE, "/update"), ({"Content-Type": "application/rdf-patch"}, "/update"),
                              ({"Content-Type": "application/n-quads"}, STATEMENTS)):  # fmt: skip
            body = b'A <urn:a> <urn:is> "\xff" .\n'
            assert HTTP.post(cluster.masters[0] + path, content=body, headers=headers).status_code == 400
        assert HTTP.post(f"{cluster.masters[0]}/update?using-graph-uri=%ff", data=form).status_code == 400
    assert status(form, using_graph_uri=graph) == 204
    assert found(cluster, f"<{target}> <urn:is> ?x") == {"1"}


NUMBERS = " ".join(map(str, range(200)))
LARGE = f"SELECT * {{ VALUES ?a {{ {NUMBERS} }} VALUES ?b {{ {NUMBERS} }} }}"
ENDLESS = "SELECT * {{ {} }}".format(" ".join(f"VALUES ?{name} {{ {NUMBERS} }}" for name in "abcd"))
"""More than a thousand million solutions."""


def test_head_is_get_without_a_body_at_every_door(cluster: Cluster) -> None:
    master, worker = cluster.masters[0], next(iter(cluster.workers.values()))
    paths = {
        master: ["/sparql?query=ASK%20%7B%7D", STATEMENTS, "/controls", "/queries", "/cluster/status", "/cluster/log",
                 "/cluster/peers", "/healthz/ready", "/tx/nothing", "/sparql?query=nonsense"],
        worker: ["/sparql?query=ASK%20%7B%7D", "/statements", "/controls", "/queries", "/status"],
    }  # fmt: skip
    cluster.wait_until_equal()
    for url, targets in paths.items():
        for target in targets:
            get = HTTP.get(url + target)
            answer = exchange(url, request("HEAD", target, CLOSE))
            assert (status_of(answer), parts_of(answer)[1]) == (get.status_code, b""), target
            assert parts_of(answer)[0].get("content-type") == get.headers.get("content-type"), target
    endless = HTTP.head(f"{master}/sparql", params={"query": ENDLESS})
    assert (endless.status_code, endless.content) == (200, b"")
    until(lambda: not HTTP.get(f"{master}/queries").json()["queries"], 5)


@pytest.mark.parametrize("kind", ["master", "worker"])
def test_http_1_0_gets_a_length_and_no_chunks(cluster: Cluster, kind: str) -> None:
    url = cluster.masters[0] if kind == "master" else next(iter(cluster.workers.values()))
    form = f"query={LARGE.replace(' ', '+')}".encode()
    accept = {"Accept": "application/sparql-results+json"}
    answer = exchange(url, request("POST", "/sparql", FORM | accept, form, version="1.0"))
    headers, body = parts_of(answer)
    assert "transfer-encoding" not in headers
    assert int(headers["content-length"]) == len(body)
    assert len(json.loads(body)["results"]["bindings"]) == 200 * 200
