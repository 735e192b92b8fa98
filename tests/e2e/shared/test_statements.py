"""Statements added, replaced, removed and patched at every master, over HTTP."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters.cluster import (
    FORM,
    HTTP,
    UPDATE,
    Cluster,
    all_equal,
    ask,
    index_of,
    lines_with,
    name,
    nothing_logged,
    objects,
)
from tests.support.clusters.sizes import LIMIT, refusal
from tests.support.clusters.statements import send
from tests.support.labs import quadlog

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

PATCH = "application/rdf-patch"


def fine(answer: httpx.Response) -> httpx.Response:
    assert answer.status_code == 204, answer.text
    uuid.UUID(answer.headers["Quadlog-Tx"])
    return answer


DATA = {
    "application/n-triples": '{s} <urn:p> "x"@en .\n{s} <urn:q> _:b .\n_:b <urn:q> _:b .',
    "text/plain": '{s} <urn:p> "x"@en .\n{s} <urn:q> _:b .\n_:b <urn:q> _:b .',
    "text/turtle": "{s} <urn:p> 'x'@en ; <urn:q> _:b . _:b <urn:q> _:b .",
    "application/x-turtle": "@prefix u: <urn:> . {s} u:p 'x'@en ; u:q _:b . _:b u:q _:b .",
    "application/trig": "{{ {s} <urn:p> 'x'@en ; <urn:q> _:b . _:b <urn:q> _:b }}",
    "application/n-quads": '{s} <urn:p> "x"@en .\n{s} <urn:q> _:b .\n_:b <urn:q> _:b .',
    "application/ld+json": (
        '{{"@id": "{bare}", "urn:p": {{"@value": "x", "@language": "en"}},'
        ' "urn:q": {{"@id": "_:b", "urn:q": {{"@id": "_:b"}}}}}}'
    ),
    "application/rdf+xml": """<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:u="urn:">
        <r:Description r:about="{bare}"><u:p xml:lang="en">x</u:p><u:q r:nodeID="b"/></r:Description>
        <r:Description r:nodeID="b"><u:q r:nodeID="b"/></r:Description></r:RDF>""",
}


@pytest.mark.parametrize("media_type", DATA)
def test_data_of_every_format_are_added(cluster: Cluster, media_type: str) -> None:
    for master in range(3):
        subject = name()
        body = DATA[media_type].format(s=subject, bare=subject.strip("<>"))
        answer = fine(send(cluster, "POST", body, f"{media_type}; charset=UTF-8", master=master))
        assert index_of(answer) > 0
        exact = f"ASK {{ {subject} <urn:p> 'x'@en ; <urn:q> ?b . ?b <urn:q> ?b FILTER(isBlank(?b)) }}"
        assert ask(cluster.masters[master], exact).json()["boolean"] is True
    all_equal(cluster)


def test_contexts_say_where_data_go(cluster: Cluster) -> None:
    subject, one, two, three = (name() for _ in range(4))
    quads = f"{subject} <urn:p> <urn:1> {three} .\n{subject} <urn:p> <urn:2> ."
    fine(send(cluster, "POST", quads, "application/n-quads"))
    assert lines_with(cluster, subject) == sorted(quads.splitlines())
    fine(send(cluster, "POST", f"{subject} <urn:p> <urn:3> .", "text/turtle", given={"context": one}))
    both = {"context": [two, "null"]}
    fine(send(cluster, "POST", f"{subject} <urn:p> _:b {one} .", "application/n-quads", given=both, master=1))
    found = lines_with(cluster, subject, master=1)
    assert f"{subject} <urn:p> <urn:3> {one} ." in found
    new = [line for line in found if "_:" in line]
    assert [line.split()[3:] for line in new] == [["."], [two, "."]]
    assert len({line.split()[2] for line in new}) == 1, "one blank node in both"
    assert len(found) == 5


def test_relative_iris_need_a_base(cluster: Cluster) -> None:
    subject = name()
    base = {"baseURI": "<http://base.example/a/>"}
    fine(send(cluster, "POST", f"{subject} <p> <../b> .", "text/turtle", given=base))
    assert lines_with(cluster, subject) == [f"{subject} <http://base.example/a/p> <http://base.example/b> ."]
    with nothing_logged(cluster):
        answer = send(cluster, "POST", f"{subject} <p> <b> .", "text/turtle")
        assert (answer.status_code, "Turtle" in answer.text) == (400, True)


def test_removed_by_pattern(cluster: Cluster) -> None:
    subject, other, graph = name(), name(), name()
    fine(
        send(
            cluster,
            "POST",
            f"{subject} <urn:p> 1 , 'x'@en ; <urn:q> 1 . {graph} {{ {subject} <urn:p> 1 . {other} <urn:p> {subject} }}",
            "application/trig",
            master=2,
        )
    )
    one = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'

    def left() -> int:
        return len(lines_with(cluster, subject, master=2))

    def remove(**given: str | list[str]) -> int:
        fine(send(cluster, "DELETE", given=given, master=2))
        return left()

    assert left() == 5
    assert remove(subj=subject, obj="<urn:no>") == 5
    assert remove(subj=subject, obj='"01"^^<http://www.w3.org/2001/XMLSchema#int>', context="null") == 3
    assert remove(subj=subject, pred="<urn:p>", obj='"x"@en', context=[graph, "null"]) == 2
    assert remove(obj=subject) == 1
    fine(send(cluster, "POST", f"{subject} <urn:q> _:b .", "application/n-triples", master=2))
    [node] = [line.split()[2] for line in lines_with(cluster, subject, 2) if "_:" in line]
    assert remove(obj=node) == 1
    assert remove(subj=subject, obj=one) == 0
    all_equal(cluster)


def test_replaced_within_one_transaction(cluster: Cluster) -> None:
    subject, one, two = name(), name(), name()
    fine(
        send(
            cluster,
            "POST",
            f"{one} {{ {subject} <urn:p> 1 }} {two} {{ {subject} <urn:p> 2 }}",
            "application/trig",
        )
    )
    before = index_of(
        fine(send(cluster, "PUT", f"{subject} <urn:p> 3 .", "text/turtle", given={"context": one}))
    )
    assert objects(cluster.masters[0], subject) == ["2", "3"]
    given = {"context": [one, two]}
    answer = fine(send(cluster, "PUT", f"{subject} <urn:p> 4 .", "text/turtle", given=given, master=1))
    assert index_of(answer) == before + 1
    assert objects(cluster.masters[1], subject) == ["4", "4"]
    fine(send(cluster, "PUT", "", "text/turtle", given={"context": [one]}, master=2))
    assert objects(cluster.masters[2], subject) == ["4"]
    fine(send(cluster, "DELETE", given={"context": two}))
    all_equal(cluster)


def test_a_patch_is_taken_at_both_doors(cluster: Cluster) -> None:
    subject, graph = name(), name()
    fine(
        send(
            cluster,
            "POST",
            f"TX .\nA {subject} <urn:p> _:b {graph} .\nA _:b <urn:p> {subject} .\nTC .",
            PATCH,
        )
    )
    node = lines_with(cluster, subject)[-1].split()[0]
    assert node.startswith("_:")
    patch = (
        f"D <{node}> <urn:p> {subject} .\nA <{node}> <urn:q> {subject} {graph} .\nA <{node}> <urn:q> _:b ."
    )
    answer = HTTP.post(f"{cluster.masters[1]}/update", content=patch, headers={"Content-Type": PATCH})
    fine(answer)
    found = lines_with(cluster, node, master=1)
    assert f"{node} <urn:q> {subject} {graph} ." in found
    assert f"{subject} <urn:p> {node} {graph} ." in found
    assert len(found) == 3
    fine(send(cluster, "POST", f"DP <{node}> * * * .\nDP * * <{node}> * .", PATCH, master=2))
    assert lines_with(cluster, node, master=2) == []
    all_equal(cluster)


def test_updates_are_taken_as_at_the_other_door(cluster: Cluster) -> None:
    subject = name()
    text = f"INSERT DATA {{ {subject} <urn:p> 1 }}"
    fine(send(cluster, "POST", text, UPDATE["Content-Type"]))
    url = f"{cluster.masters[1]}/repositories/main/statements"
    fine(HTTP.post(url, data={"update": text.replace("1 }", "2 }")}))
    assert objects(cluster.masters[1], subject) == ["1", "2"]


def test_a_key_runs_once(cluster: Cluster) -> None:
    subject, key = name(), f"statements/{uuid.uuid4()}"
    data = f"{subject} <urn:p> [ <urn:q> [] ] ."
    first = fine(send(cluster, "POST", data, "text/turtle", Idempotency_Key=key))
    for master in range(3):
        again = fine(send(cluster, "POST", data, "text/turtle", master=master, Idempotency_Key=key))
        assert again.headers["Quadlog-Index"] == first.headers["Quadlog-Index"]
        other = send(
            cluster, "PUT", data, "text/turtle", master=master, given={"context": name()}, Idempotency_Key=key
        )
        assert (other.status_code, other.json()["error"]) == (422, "KeyReused")
    assert len(lines_with(cluster, subject)) == 1


def test_dry_runs(cluster: Cluster) -> None:
    subject, graph = name(), name()
    fine(send(cluster, "POST", f"{subject} <urn:p> <urn:1> .", "text/turtle", given={"context": graph}))
    for master in range(3):
        cluster.wait_until_equal()
        with nothing_logged(cluster):
            given = {"context": graph, "dry-run": "true"}
            put = send(
                cluster, "PUT", f"{subject} <urn:p> <urn:2> .", "text/turtle", given=given, master=master
            )
            assert put.status_code == 200, put.text
            found = put.json()
            assert found["deleted"] == [f"{subject} <urn:p> <urn:1> {graph} ."], put.text
            assert found["inserted"] == [f"{subject} <urn:p> <urn:2> {graph} ."]
            gone = send(cluster, "DELETE", given={"subj": subject, "dry-run": "true"}, master=master).json()
            assert gone["deleted"] == [f"{subject} <urn:p> <urn:1> {graph} ."]
            assert gone["emptied"] == [graph]
            patch = send(
                cluster, "POST", "A _:b <urn:p> _:b .", PATCH, given={"dry-run": "true"}, master=master
            )
            assert len(patch.json()["inserted"]) == 1
    deep = "<urn:s> <urn:p> " + "<<( <urn:s> <urn:p> " * 20_000 + "<urn:o>" + " )>>" * 20_000 + " ."
    with nothing_logged(cluster):
        assert send(cluster, "POST", deep, "text/turtle", given={"dry-run": "true"}).status_code == 400


TURTLE = "text/turtle"
NESTED = "<urn:s> <urn:p> " + "<<( <urn:s> <urn:p> " * 20_000 + "<urn:o>" + " )>>" * 20_000 + " ."
WRONG: list[tuple[str, str, str, dict[str, Any], int, str]] = [
    ("POST", PATCH, "A <urn:s> <urn:p> <urn:o> .\nB <urn:s> .", {}, 400, "line 2"),
    ("POST", PATCH, "A <urn:s> <urn:p> <urn:o> <urn:quadlog:state:x> .", {}, 403, "reserved"),
    ("POST", PATCH, NESTED.replace("<urn:s>", "A <urn:s>", 1), {}, 400, "nested"),
    ("POST", PATCH, "A <urn:s> <urn:p> <urn:o> .", {"context": "null"}, 400, "names its graphs itself"),
    ("POST", PATCH, "A <urn:s> <urn:p> <urn:o> .", {"using-graph-uri": "urn:x"}, 400, "mean nothing to a patch"),
    ("PUT", PATCH, "A <urn:s> <urn:p> <urn:o> .", {}, 415, "data come as"),
    ("POST", TURTLE, "<urn:s> <urn:p> ", {}, 400, "Turtle"),
    ("POST", TURTLE, NESTED, {}, 400, "cannot be read"),
    ("POST", "application/n-triples", NESTED, {}, 400, "cannot be read"),
    ("POST", "application/ld+json", '{"urn:p":' + "[" * 200_000 + "]" * 200_000 + "}", {}, 400, "cannot be read"),
    ("POST", "application/rdf+xml", "<x", {}, 400, "RDF/XML"),
    ("POST", "application/trig", "_:g { <urn:s> <urn:p> 1 }", {}, 400, "named by IRIs"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"context": "<urn:quadlog:state:x>"}, 403, "reserved"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"context": "urn:g"}, 400, "as N-Triples writes it"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"context": "_:g"}, 400, "null for the default graph"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"context": '"g"'}, 400, "null for the default graph"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"contexts": "<urn:g>"}, 400, "contexts"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"baseURI": "a"}, 400, "absolute IRI"),
    ("POST", TURTLE, "<urn:s> <urn:p> 1 .", {"dry-run": "yes"}, 400, "dry-run"),
    ("POST", "application/pdf", "", {}, 415, "application/pdf"),
    ("PUT", UPDATE["Content-Type"], "CLEAR ALL", {}, 415, "data come as"),
    ("PUT", FORM["Content-Type"], "update=CLEAR+ALL", {}, 415, "data come as"),
    ("DELETE", "", "", {"subject": "<urn:s>"}, 400, "no parameter subject"),
    ("DELETE", "", "", {"subj": "urn:s"}, 400, "as N-Triples writes it"),
    ("DELETE", "", "", {"subj": ""}, 400, "as N-Triples writes it"),
    ("DELETE", "", "", {"subj": '"x"'}, 400, "subj is an IRI or a blank node"),
    ("DELETE", "", "", {"pred": "_:b"}, 400, "pred is an IRI"),
    ("DELETE", "", "", {"subj": ["<urn:s>", "<urn:t>"]}, 400, "stands once"),
    ("DELETE", "", "", {"obj": "<urn:o> .\n<urn:s> <urn:p> <urn:o>"}, 400, "as N-Triples writes it"),
    ("DELETE", "", "", {"context": "<urn:quadlog:state:x>"}, 403, "reserved"),
    ("DELETE", TURTLE, "<urn:s> <urn:p> 1 .", {}, 400, "the request has no body"),
]  # fmt: skip


def test_what_is_wrong_logs_nothing(cluster: Cluster) -> None:
    with nothing_logged(cluster):
        for number, (method, media_type, body, given, status, words) in enumerate(WRONG):
            answer = send(cluster, method, body, media_type, given=given, master=number % 3)
            told = (method, media_type, body[:100], given, answer.text[:500])
            assert (answer.status_code, answer.json()["definite"]) == (status, True), told
            assert words in answer.json()["message"], told
        for method in ("POST", "PUT", "DELETE"):
            url = f"{cluster.masters[0]}/repositories/other/statements"
            answer = HTTP.request(method, url, content="", headers={"Content-Type": TURTLE})
            assert (answer.status_code, answer.json()["error"]) == (404, "NoSuchRepository")


def test_too_much_is_413_and_says_what_takes_it(cluster: Cluster) -> None:
    long = "urn:" + "x" * 1000
    body = f"@prefix x: <{long}> .\n" + "".join(f"x:s{n} x:p x:o .\n" for n in range(25_000))
    with nothing_logged(cluster):
        answer = send(cluster, "POST", body, TURTLE)
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge"), answer.text
        assert "quadlog import" in answer.json()["message"]
        _, told = refusal(cluster.masters[0], f"Content-Type: {PATCH}\r\nContent-Length: {LIMIT + 1}")
        assert told.startswith(b"HTTP/1.1 413 ")
        assert b"quadlog import" in told


def test_no_import_into_a_log_that_holds_something(cluster: Cluster, tmp_path: Path) -> None:
    fine(cluster.update(f"INSERT DATA {{ {name()} <urn:p> 1 }}"))
    file = tmp_path / "some.nq"
    file.write_text("<urn:seed> <urn:p> <urn:o> .\n")
    with nothing_logged(cluster):
        done = quadlog("import", str(file), "--into", cluster.masters[0])
        assert done.returncode == 1
        assert "NotEmpty: the log holds something" in done.stderr
        assert cluster.status()["seed"] is None
        assert not lines_with(cluster, "<urn:seed>")
