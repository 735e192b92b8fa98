"""Updates at the door of every master, as clients send them: over HTTP, on a real cluster."""

from __future__ import annotations

import uuid
from urllib.parse import quote

import pytest
from pyoxigraph import QuerySolutions, Store

from tests.support.clusters.cluster import (
    FORM,
    HTTP,
    Cluster,
    ask,
    index_of,
    name,
    nothing_logged,
    objects,
)


def test_an_update_comes_as_it_is(cluster: Cluster) -> None:
    subject = name()
    answer = cluster.update(f'INSERT DATA {{ {subject} <urn:is> "dïrect 🐍" }}')
    assert (answer.status_code, answer.text) == (204, "")
    uuid.UUID(answer.headers["Quadlog-Tx"])
    index, chain = answer.headers["Quadlog-Index"].split(":")
    assert int(index) > 0
    assert len(bytes.fromhex(chain)) == 8
    # Read your write: at the same master, at once.
    assert objects(cluster.masters[0], subject) == ["dïrect 🐍"]


def test_an_update_comes_as_a_form(cluster: Cluster) -> None:
    subject = name()
    update = f'INSERT DATA {{ {subject} <urn:is> "a+b & c=ü" }}'
    answer = HTTP.post(f"{cluster.masters[1]}/update", data={"update": update}, timeout=30)
    assert answer.status_code == 204, answer.text
    assert answer.headers["Quadlog-Tx"]
    assert objects(cluster.masters[1], subject) == ["a+b & c=ü"]


def test_every_write_is_read_back_at_its_master(cluster: Cluster) -> None:
    """Least busy worker or not: it shows what was acknowledged there."""
    for number in range(30):
        subject, master = name(), number % 3
        answer = cluster.update(f"INSERT DATA {{ {subject} <urn:is> {number} }}", master=master)
        assert answer.status_code == 204
        read = ask(cluster.masters[master], f"SELECT ?o {{ {subject} <urn:is> ?o }}", "text/csv")
        assert read.text.split() == ["o", str(number)]
        assert index_of(read) >= index_of(answer)


def test_declarations_may_follow_a_semicolon(cluster: Cluster) -> None:
    """Legal, and pyoxigraph alone refuses it."""
    subject = name()
    text = (
        f"PREFIX a: <urn:a:> INSERT DATA {{ {subject} a:p 1, 2 }} ;\n"
        f"PREFIX b: <urn:b:> BASE <http://b.example/> DELETE DATA {{ {subject} a:p 1 }} ;\n"
        f"INSERT DATA {{ GRAPH <x> {{ {subject} b:p 3 }} }} ;"
    )
    answer = cluster.update(text)
    assert answer.status_code == 204, answer.text
    assert objects(cluster.masters[0], subject) == ["2", "3"]
    where = f"ASK {{ GRAPH <http://b.example/x> {{ {subject} <urn:b:p> 3 }} }}"
    assert ask(cluster.masters[0], where).json()["boolean"] is True


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("INSERT DATA {\n  <urn:s> <urn:p> }", "line 2, column 19"),
        ("INSERT DATA { <urn:s> <urn:p> <urn:o> }\n\n  INSERT", "line 3, column"),
        ("SELECT * { ?s ?p ?o }", "line 1, column"),
        ("INSERT DATA { ?s <urn:p> 1 }", "line 1, column"),
        ("DELETE DATA { _:b <urn:p> 1 }", "line 1"),
        ("INSERT DATA { x:s <urn:p> 1 }", "line 1, column"),
        (
            "INSERT DATA { <urn:s> <urn:p> 1 } ; PREFIX x: <urn:x:>\nDELETE DATA { x:s x:p",
            "line 2, column 22",
        ),
    ],
)
def test_what_is_no_sparql_is_400_with_its_place(cluster: Cluster, text: str, place: str) -> None:
    with nothing_logged(cluster):
        answer = cluster.update(text)
        assert answer.status_code == 400
        assert answer.json()["error"] == "SyntaxRefused"
        assert answer.json()["definite"] is True
        assert place in answer.json()["message"]


UNSUPPORTED = (
    "INSERT { ?s <urn:p> 1 } WHERE { SERVICE ?x { ?s ?p ?o } }",
    "INSERT DATA { <urn:s> <urn:p> 1 } ; DELETE { ?s ?p ?o } WHERE { SERVICE SILENT $x { ?s ?p ?o } }",
    f"INSERT {{}} WHERE {{ FILTER({'1 + ' * 2_000} 1) }}",
)


def test_what_is_not_supported_yet_is_501(cluster: Cluster) -> None:
    with nothing_logged(cluster):
        answers = {text: cluster.update(text, master=number % 3) for number, text in enumerate(UNSUPPORTED)}
    for text, answer in answers.items():
        assert (answer.status_code, answer.json()["error"]) == (501, "Unsupported"), text
        assert answer.json()["definite"] is True


def test_every_form_at_every_master(cluster: Cluster) -> None:
    """The same sequence as pyoxigraph's own ``update`` of it; all workers equal afterwards."""
    graph, other, spare, subject = name(), name(), name(), name()
    count = f"SELECT (COUNT(*) AS ?c) {{ GRAPH {other} {{ ?s ?p ?n }} }}"
    numbers = f"INSERT DATA {{ GRAPH {other} {{ {subject} <urn:n> 1, 2, 3 }} }}"
    small = f"GRAPH ?g {{ ?s ?p ?n }} FILTER(?g = {other} && ?n < 3)"
    new = f"INSERT {{ [] <urn:of> ?s }} WHERE {{ ?s <urn:n> 2 FILTER(?s = {subject}) }}"
    old = f"VALUES ?s {{ {subject} }} ?s <urn:n> ?n BIND(?n + 1 AS ?m)"
    more = f"INSERT {{ ?s <urn:n> ?m . GRAPH {other} {{ ?s <urn:was> ?n }} }} WHERE {{ {old} }}"
    less = f"DELETE {{ GRAPH ?g {{ ?s ?p ?n }} }} WHERE {{ {small} }}"
    left = f"INSERT {{ {subject} <urn:left> ?c }} WHERE {{ {count} }}"
    texts = [
        f"CREATE GRAPH {graph}",
        f"INSERT DATA {{ {subject} <urn:n> 1 . GRAPH {graph} {{ {subject} <urn:n> 1 }} }}",
        f"DELETE {{ ?s <urn:n> ?n }} {more}",
        f"WITH {graph} DELETE {{ ?s <urn:n> ?n }} INSERT {{ ?s <urn:m> ?n }} WHERE {{ ?s <urn:n> ?n }}",
        f"INSERT {{ GRAPH {graph} {{ ?s <urn:u> ?n }} }} USING {other} WHERE {{ ?s <urn:was> ?n }}",
        f"DELETE WHERE {{ GRAPH {other} {{ {subject} <urn:was> ?n }} }}",
        f"{numbers} ; {less} ; {left}",
        f"CLEAR GRAPH {other} ; {new}",
        f"ADD {graph} TO {other} ; COPY {graph} TO {spare} ; MOVE {spare} TO {other}",
        f"MOVE SILENT GRAPH {spare} TO {graph} ; ADD DEFAULT TO {spare} ; MOVE {spare} TO {graph}",
        f"DROP GRAPH {graph} ; CREATE SILENT GRAPH {other} ; DROP SILENT GRAPH {graph}",
    ]
    twin = Store()
    for number, text in enumerate(texts):
        answer = cluster.update(text, master=number % 3)
        assert answer.status_code == 204, (text, answer.text)
        twin.update(text)
    with pytest.raises(RuntimeError):
        twin.update(f"CLEAR GRAPH {graph}")
    refused = cluster.update(f"INSERT DATA {{ {subject} <urn:no> 1 }} ; CLEAR GRAPH {graph}", master=1)
    assert (refused.status_code, refused.json()["error"]) == (409, "Rejected")
    assert f"the graph {graph} does not exist" in refused.json()["message"]
    index = cluster.wait_until_equal()
    about = f"SELECT ?p ?o {{ {{ {subject} ?p ?o }} UNION {{ ?b ?p {subject} BIND(1 AS ?o) }} }}"
    wanted = twin.query(about)
    assert isinstance(wanted, QuerySolutions)
    rows = sorted((row["p"].value, row["o"].value) for row in wanted)
    assert len(rows) > 2
    states = []
    for url in cluster.workers.values():
        found = ask(url, about).json()["results"]["bindings"]
        assert sorted((row["p"]["value"], row["o"]["value"]) for row in found) == rows
        assert ask(url, f"ASK {{ GRAPH ?g {{ }} FILTER(?g = {graph}) }}").json()["boolean"] is False
        assert ask(url, f"ASK {{ GRAPH ?g {{ }} FILTER(?g = {other}) }}").json()["boolean"] is True
        status = HTTP.get(f"{url}/status").json()
        states.append((status["applied_index"], status["signature"], status["quads"]))
    assert len(set(states)) == 1
    assert states[0][0] >= index


def test_bodies_that_are_wrong(cluster: Cluster) -> None:
    text = f"INSERT DATA {{ {name()} <urn:p> 1 }}".encode()
    plus = quote(text).encode()
    wrong: list[tuple[int, str, bytes, str]] = [
        (415, "text/plain", text, "text/plain"),
        (415, "application/sparql-query", text, "application/sparql-query"),
        (415, "application/json", b"{}", "application/json"),
        (415, "", text, "nothing"),
        (415, "multipart/form-data; boundary=x", text, "multipart/form-data"),
        (400, "application/sparql-update; charset=latin-1", text, "latin-1"),
        (400, "application/sparql-update; charset=UTF-16", text.decode().encode("utf-16"), "utf-16"),
        (400, "application/sparql-update", b'INSERT DATA { <urn:s> <urn:p> "\xff" }', "UTF-8"),
        (400, "application/sparql-update", b'INSERT DATA { <urn:s> <urn:p> "\xed\xa0\x80" }', "UTF-8"),
        (400, FORM["Content-Type"], b"", "has 0"),
        (400, FORM["Content-Type"], b"query=" + plus, "has 0"),
        (400, FORM["Content-Type"], b"update=" + plus + b"&update=" + plus, "has 2"),
        (400, FORM["Content-Type"], b"update=%FF", "UTF-8"),
        (400, FORM["Content-Type"], b"update=" + plus + b"&a=b" * 100_000, "more than 1000 fields"),
        (400, FORM["Content-Type"], b"update=\xff", "UTF-8"),
        (400, FORM["Content-Type"] + "; charset=iso-8859-1", b"update=" + plus, "iso-8859-1"),
    ]
    with nothing_logged(cluster):
        for status, media_type, body, said in wrong:
            headers = {"Content-Type": media_type} if media_type else {}
            answer = HTTP.post(f"{cluster.masters[2]}/update", content=body, headers=headers)
            assert answer.status_code == status, (media_type, body, answer.text)
            assert said in answer.json()["message"], (media_type, answer.text)
    for fine in ("application/sparql-update; charset=utf-8", 'Application/SPARQL-Update;charset="UTF-8"'):
        answer = HTTP.post(f"{cluster.masters[2]}/update", content=text, headers={"Content-Type": fine})
        assert answer.status_code == 204, fine
    assert HTTP.get(f"{cluster.masters[2]}/update").status_code == 405
