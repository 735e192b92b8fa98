"""Controls in a cluster: set at one master, they hold at all of them."""

from __future__ import annotations

from typing import Any

import pytest

from quadlog import codec
from quadlog.core.records import Effect, Outcome
from tests.support.clusters.cluster import (
    HTTP,
    UPDATE,
    Cluster,
    index_of,
    name,
    nothing_logged,
    records,
    recount,
)
from tests.support.clusters.controls import ASK, control, delete, listed, put

TURTLE = "text/turtle"


def at_most_one(subject: str) -> str:
    return f"ASK {{ FILTER NOT EXISTS {{ {subject} <urn:v> ?a, ?b FILTER(?a != ?b) }} }}"


def shapes(subject: str) -> str:
    return f"""@prefix sh: <http://www.w3.org/ns/shacl#> .
<urn:Shape> a sh:NodeShape ; sh:targetNode {subject} ;
  sh:property [ sh:path <urn:v> ; sh:maxCount 1 ; sh:message "one value is enough" ] ."""


def effect_at(dc: dict[str, Any], index: int) -> Effect:
    """As the topic of a data centre has it."""
    said = (codec.decode(r.value() or b"") for r in records(dc["kafka"], f"main.{dc['name']}.effects"))
    return next(effect for effect in said if isinstance(effect, Effect) and effect.index == index)


@pytest.mark.parametrize("kind", [ASK, TURTLE])
def test_set_at_one_master_it_holds_at_all(cluster: Cluster, kind: str) -> None:
    subject = name()
    text, words = (
        (at_most_one(subject), at_most_one(subject))
        if kind == ASK
        else (shapes(subject), "one value is enough")
    )
    with control(cluster, "one", text, kind) as answer:
        index = index_of(answer)
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:v> 1 }}", master=1).status_code == 204
        cluster.wait_until_equal()
        before = {
            worker: HTTP.get(f"{url}/status").json()["quads"] for worker, url in cluster.workers.items()
        }
        for master in (1, 2, 0):
            broken = cluster.update(f"INSERT DATA {{ {subject} <urn:v> 2 }}", master=master)
            assert (broken.status_code, broken.json()["error"]) == (409, "Rejected"), broken.text
            assert broken.json()["message"].startswith("control one: ")
            assert words in broken.json()["message"]
            told = HTTP.get(f"{cluster.masters[master]}{broken.headers['Location']}").json()
            assert (told["state"], told["reason"]) == ("rejected", broken.json()["message"])
        at = cluster.wait_until_equal()
        for dc in cluster.lab.dcs:
            effect = effect_at(dc, told["index"])
            assert (effect.outcome, effect.reason) == (Outcome.REJECTED, told["reason"])
            assert (effect.deleted, effect.inserted) == ((), ())
            assert effect.signature_before == effect.signature_after
        for url in cluster.workers.values():
            status = HTTP.get(f"{url}/status").json()
            assert recount(url)[0] == status["signature"]
            assert status["quads"] == before[status["id"]]
        for master in range(3):
            assert listed(cluster, master=master) == {
                "one": {
                    "name": "one",
                    "kind": "ASK" if kind == ASK else "SHACL",
                    "text": text,
                    "index": index,
                }
            }
        for url in cluster.workers.values():
            one = HTTP.get(f"{url}/controls/one")
            assert (one.json()["text"], index_of(one)) == (text, at)
        replaced = f"DELETE DATA {{ {subject} <urn:v> 1 }} ; INSERT DATA {{ {subject} <urn:v> 2 }}"
        assert cluster.update(replaced).status_code == 204
    cluster.wait_until_equal()  # it was deleted at another master
    assert listed(cluster) == {}
    assert cluster.update(f"INSERT DATA {{ {subject} <urn:v> 3 }}").status_code == 204
    assert HTTP.get(f"{cluster.masters[0]}/controls/one").status_code == 404


def test_what_the_state_does_not_satisfy_is_not_set(cluster: Cluster) -> None:
    subject = name()
    assert cluster.update(f"INSERT DATA {{ {subject} <urn:v> 1, 2 }}").status_code == 204
    answer = put(cluster, "one", shapes(subject), TURTLE)
    assert answer.status_code == 409
    assert "one value is enough" in answer.json()["message"]
    assert listed(cluster) == {}
    assert cluster.update(f"INSERT DATA {{ {subject} <urn:v> 3 }}").status_code == 204
    unknown = delete(cluster, "one")
    assert (unknown.status_code, "there is none" in unknown.text) == (409, True)


def test_a_key_never_sets_twice(cluster: Cluster) -> None:
    subject, key = name(), name()
    first = put(cluster, "twice", at_most_one(subject), Idempotency_Key=key)
    try:
        again = put(cluster, "twice", at_most_one(subject), master=1, Idempotency_Key=key)
        assert (first.status_code, again.status_code) == (204, 204)
        assert index_of(first) == index_of(again)
        assert first.headers["Quadlog-Tx"] == again.headers["Quadlog-Tx"]
        assert put(cluster, "other", at_most_one(subject), Idempotency_Key=key).status_code == 422
        assert cluster.update(at_most_one(subject), Idempotency_Key=key).status_code == 400
        assert cluster.update("INSERT DATA {}", Idempotency_Key=key).status_code == 422
    finally:
        assert delete(cluster, "twice").status_code == 204


@pytest.mark.parametrize(
    ("control", "text", "kind", "refusal"),
    [
        ("a", "SELECT * {}", ASK, (400, "is an ASK")),
        ("a", "ASK {", ASK, (400, "line 1")),
        ("a", "ASK { SERVICE <urn:x> {} }", ASK, (501, "SERVICE")),
        ("a", "ASK { GRAPH <urn:quadlog:state:1> { ?s ?p ?o } }", ASK, (403, "reserved")),
        ("a", "ASK { ?s ?p '\xff' }".encode("latin-1"), ASK, (400, "UTF-8")),
        ("a", "foo bar", TURTLE, (400, "not Turtle")),
        ("a", "<urn:a> <urn:b> 1 .", TURTLE, (400, "no shapes")),
        ("a", f"<urn:a> <http://www.w3.org/ns/shacl#rule> <urn:b> . # {'x' * 300_000}", TURTLE, (413, "262144")),
        ("a", "<urn:a> <http://www.w3.org/ns/shacl#rule> <urn:b> .", TURTLE, (501, "not supported")),
        ("a", "{}", "application/json", (415, "application/sparql-query or as text/turtle")),
        ("-a", "ASK {}", ASK, (400, "1 to 64")),
        ("a?dry-run=true", "ASK {}", ASK, (400, "no parameters")),
        ("a b", "ASK {}", ASK, (400, "1 to 64")),
    ],
)  # fmt: skip
def test_what_is_no_control_is_refused_and_not_logged(
    cluster: Cluster, control: str, text: str | bytes, kind: str, refusal: tuple[int, str]
) -> None:
    with nothing_logged(cluster):
        answer = HTTP.put(
            f"{cluster.masters[0]}/controls/{control}", content=text, headers={"Content-Type": kind}
        )
        assert (answer.status_code, refusal[1] in answer.text) == (refusal[0], True), answer.text
        assert HTTP.put(f"{cluster.workers['dc1-w1']}/controls/{control}", content=text).status_code == 403


def test_a_dry_run_tells_of_all_controls(cluster: Cluster) -> None:
    subject = name()
    with control(cluster, "ask", at_most_one(subject)), control(cluster, "shacl", shapes(subject), TURTLE):
        cluster.wait_until_equal()
        for text, holds in ((f"{subject} <urn:v> 1", True), (f"{subject} <urn:v> 1, 2", False)):
            with nothing_logged(cluster):
                answer = HTTP.post(
                    f"{cluster.masters[1]}/update?dry-run=true",
                    content=f"INSERT DATA {{ {text} }}",
                    headers=UPDATE,
                ).json()
            assert answer["outcome"] == ("APPLIED" if holds else "REJECTED")
            told = answer["controls"]
            assert [(one["name"], one["kind"], one["holds"]) for one in told] == [
                ("ask", "ASK", holds),
                ("shacl", "SHACL", holds),
            ]
            if not holds:
                assert answer["reason"].startswith("control ask: ")
                assert "one value is enough" in told[1]["report"]
                assert answer["inserted"] == []


def test_a_killed_worker_and_the_next_evaluator_have_them(cluster: Cluster) -> None:
    subject = name()
    with control(cluster, "one", shapes(subject), TURTLE):
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:v> 1 }}").status_code == 204
        status = [worker for number in range(3) for worker in cluster.status(number)["workers"]]
        evaluator = next(worker["id"] for worker in status if worker["evaluating"])
        cluster.lab.kill(evaluator)
        broken = cluster.update(f"INSERT DATA {{ {subject} <urn:v> 2 }}", master=1)
        assert (broken.status_code, "control one: " in broken.text) == (409, True), broken.text
        cluster.lab.start(evaluator)
        cluster.wait_until_equal()
        found = HTTP.get(f"{cluster.workers[evaluator]}/controls").json()["controls"]
        assert [one["name"] for one in found] == ["one"]
