"""Each row of the table of answers in docs/http-api.md, provoked.

On a real cluster; where it takes a fault, at a real node and store that has one.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from quadlog.clock import now
from quadlog.core.messages import Submitted
from quadlog.core.model import HardState, Transaction, View, first_view, id_of_key
from quadlog.masterstore.store import MasterStore
from tests.support.clusters.cluster import FORM, HTTP, UPDATE, Cluster, name, nothing_logged, until
from tests.support.masters.doors import VOTING, Door, door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import httpx

GUIDE = (Path(__file__).parents[3] / "docs" / "http-api.md").read_text(encoding="utf-8")
STATEMENTS = "/repositories/main/statements"
KEY = "Idempotency-Key"
QUERY = {"Content-Type": "application/sparql-query"}
STRICT: dict[str, Any] = {"params": {"query": "ASK {}"}, "headers": {"Quadlog-Consistency": "strict"}}


class Row(NamedTuple):
    """As it stands in the document."""

    situation: str
    status: int
    errors: tuple[str, ...]
    headers: frozenset[str]


def rows() -> dict[str, Row]:
    table = GUIDE[GUIDE.index("| situation |") :].split("\n\n")[0].splitlines()[2:]
    found: dict[str, Row] = {}
    for line in table:
        situation, status, errors, headers = (cell.strip() for cell in line.strip("|").split("|"))
        named = frozenset(re.findall(r"`([^`]+)`", headers))
        found[situation] = Row(situation, int(status), tuple(re.findall(r"`([^`]+)`", errors)), named)
    return found


ROWS = rows()


def check(row: Row, answer: httpx.Response) -> None:
    """Status, error, whether it is definite, and of the headers all that the row has, and no other way out."""
    assert answer.status_code == row.status, answer.text
    assert row.headers <= set(map(str.title, answer.headers)), answer.headers
    for header in ("Location", "Retry-After"):
        assert (header in answer.headers) == (header in row.headers), f"{header}: {answer.headers}"
    if row.errors:
        said = answer.json()
        assert said["error"] in row.errors
        assert said["definite"] is (row.status != 504)
        assert said["message"]


def at(cluster: Cluster, method: str, path: str, *, master: int = 0, **rest: Any) -> httpx.Response:  # noqa: ANN401
    return HTTP.request(method, f"{cluster.masters[master]}{path}", **rest)


# --- on the cluster -------------------------------------------------------------------------------------


def done(cluster: Cluster) -> list[httpx.Response]:
    """By each door that takes writes."""
    one, control = name(), f"/controls/{uuid.uuid4().hex}"
    text = {"Content-Type": "text/turtle"}
    graph = {"context": one}
    return [
        cluster.update(f"INSERT DATA {{ {one} <urn:is> 1 }}"),
        at(cluster, "POST", "/update", data={"update": f"DELETE WHERE {{ {one} ?p ?o }}"}),
        at(cluster, "POST", STATEMENTS, content=f"INSERT DATA {{ {one} <urn:is> 1 }}", headers=UPDATE),
        at(cluster, "POST", STATEMENTS, params=graph, content=f"{one} <urn:is> 2 .", headers=text),
        at(cluster, "PUT", STATEMENTS, params=graph, content=f"{one} <urn:is> 3 .", headers=text),
        at(cluster, "DELETE", STATEMENTS, params=graph),
        at(cluster, "DELETE", STATEMENTS, params={"subj": one}),
        at(cluster, "PUT", control, content="ASK {}", headers=QUERY),
        at(cluster, "DELETE", control),
    ]


def again(cluster: Cluster) -> list[httpx.Response]:
    """By another door, and at the other masters: the same transaction, once in the log."""
    text, key = f"INSERT DATA {{ {name()} <urn:is> 'once' }}", uuid.uuid4().hex
    first = cluster.update(text, Idempotency_Key=key)
    with nothing_logged(cluster):
        answers = [
            at(cluster, "POST", path, master=master, content=text, headers=UPDATE | {KEY: key})
            for path in ("/update", STATEMENTS)
            for master in range(len(cluster.masters))
        ]
    for header in ("Quadlog-Tx", "Quadlog-Index"):
        assert {answer.headers[header] for answer in answers} == {first.headers[header]}
    return answers


def malformed(cluster: Cluster) -> list[httpx.Response]:
    text = {"Content-Type": "text/turtle"}
    return [
        cluster.update("INSERT"),
        at(cluster, "POST", "/update", data={"other": "x"}, headers=FORM),
        at(cluster, "POST", "/update", params={"dry-run": "perhaps"}, content="CLEAR ALL", headers=UPDATE),
        at(cluster, "POST", STATEMENTS, content="<urn:a> .", headers=text),
        at(cluster, "DELETE", STATEMENTS, params={"subject": "<urn:a>"}),
        at(cluster, "PUT", "/controls/c", content="ASK {", headers=QUERY),
        at(cluster, "GET", "/sparql", params={"query": "SELECT"}),
        at(cluster, "GET", "/sparql", params={"query": "ASK {}", "inference": "true"}),
        at(cluster, "GET", "/sparql?query=ASK%20%7B%7D%23%ff"),
        at(
            cluster,
            "POST",
            "/update?using-graph-uri=urn:a",
            data={"update": "CLEAR ALL", "using-graph-uri": "urn:b"},
        ),
        at(cluster, "GET", "/sparql", params={"query": "ASK {}"}, headers={"Quadlog-Consistency": "fresh"}),
        at(cluster, "POST", "/cluster/peers", content=b"{}"),
        cluster.update("CLEAR ALL", Idempotency_Key="x" * 256),
    ]


def at_the_wrong_door(cluster: Cluster) -> list[httpx.Response]:
    worker = next(iter(cluster.workers.values()))
    return [
        HTTP.post(f"{worker}/update", content="CLEAR ALL", headers=UPDATE),
        at(cluster, "POST", "/sparql", data={"update": "CLEAR ALL"}),
    ]


def nothing_there(cluster: Cluster) -> list[httpx.Response]:
    return [
        at(cluster, "GET", "/repositories/other/statements"),
        at(cluster, "GET", "/controls/none"),
        at(cluster, "DELETE", "/queries/none-1-1"),
        at(cluster, "DELETE", "/cluster/workers/none"),
        at(cluster, "DELETE", "/cluster/peers/none"),
        at(cluster, "GET", "/cluster/settings/none"),
        at(cluster, "PUT", "/cluster/settings/none", content="1"),
        at(cluster, "GET", "/cluster/splits/7-00"),
    ]


def rejected(cluster: Cluster) -> list[httpx.Response]:
    """What a control forbids, and what cannot be done; sent again it is rejected again."""
    control, one = f"/controls/{uuid.uuid4().hex}", name()
    rule = f"ASK {{ FILTER NOT EXISTS {{ {one} ?p ?o }} }}"
    assert at(cluster, "PUT", control, content=rule, headers=QUERY).status_code == 204
    try:
        key = uuid.uuid4().hex
        text = f"INSERT DATA {{ {one} <urn:is> 1 }}"
        answers = [cluster.update(text, Idempotency_Key=key) for _ in range(2)]
    finally:
        assert at(cluster, "DELETE", control).status_code == 204
    assert len({answer.headers["Quadlog-Tx"] for answer in answers}) == 1
    return [*answers, cluster.update(f"DROP GRAPH {one}"), at(cluster, "DELETE", control)]


def conflict(cluster: Cluster) -> list[httpx.Response]:
    worker, master = next(iter(cluster.workers)), cluster.lab.masters[1]["id"]
    seed = {"signature": "11" * 32, "quads": 1, "digest": "22" * 32, "sources": ["a.nq"]}
    return [
        at(cluster, "DELETE", f"/cluster/workers/{worker}"),
        at(cluster, "POST", "/cluster/peers", json={"id": master, "dc": "dc2"}),
        at(cluster, "POST", "/cluster/seed", json=seed),
        at(cluster, "POST", "/cluster/seed", master=2, json=seed),
    ]


def too_large(cluster: Cluster) -> list[httpx.Response]:
    return [at(cluster, "PUT", "/controls/large", content="#" * 300_000 + "\nASK {}", headers=QUERY)]


def other_media_type(cluster: Cluster) -> list[httpx.Response]:
    kind = {"Content-Type": "application/pdf"}
    doors = [("POST", "/update"), ("PUT", STATEMENTS), ("PUT", "/controls/c")]
    return [at(cluster, method, path, content=b"x", headers=kind) for method, path in doors]


def two_bodies(cluster: Cluster) -> list[httpx.Response]:
    key = uuid.uuid4().hex
    first = cluster.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", Idempotency_Key=key)
    answers = [
        cluster.update("CLEAR ALL", master=1, Idempotency_Key=key),
        at(cluster, "DELETE", STATEMENTS, headers={KEY: key}),
        at(cluster, "DELETE", "/controls/c", headers={KEY: key}),
    ]
    assert {answer.headers["Quadlog-Tx"] for answer in answers} == {first.headers["Quadlog-Tx"]}
    return answers


def not_executed(cluster: Cluster) -> list[httpx.Response]:
    service = "SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }"
    return [answered(cluster, query=service)]


def not_expressible(cluster: Cluster) -> list[httpx.Response]:
    results, graph = ({"Accept": f"application/{kind}+xml"} for kind in ("sparql-results", "rdf"))
    return [
        answered(cluster, results, query='SELECT ("\\u0001" AS ?x) {}'),
        answered(cluster, graph, query="CONSTRUCT { <urn:s> <urn:2024/1> 1 } {}"),
    ]


def answered(cluster: Cluster, headers: dict[str, str] | None = None, **parameters: str) -> httpx.Response:
    """On a busy machine a worker says for a while that no process that reads is there yet."""

    def tried() -> list[httpx.Response]:
        answer = at(cluster, "GET", "/sparql", params=parameters, headers=headers)
        return [] if answer.json()["error"] == "Unavailable" else [answer]

    return until(tried)[0]


def not_shown(cluster: Cluster) -> list[httpx.Response]:
    later = {"Quadlog-Min-Index": "999999999"}
    return [at(cluster, "GET", "/sparql", params={"query": "ASK {}"}, headers=later)]


def on_a_branch(cluster: Cluster) -> list[httpx.Response]:
    other = {"Quadlog-Min-Index": f"1:{'0' * 16}"}
    paths = ("/sparql?query=ASK{}", STATEMENTS, "/controls")
    return [at(cluster, "GET", path, headers=other) for path in paths]


def rolled_back(cluster: Cluster) -> list[httpx.Response]:
    """More data centres must have it than there are."""
    settings = {"synchro-quorum": ("9", "N/2 + 1"), "synchro-timeout": ("0.01", "5")}
    text, key = f"INSERT DATA {{ {name()} <urn:is> 1 }}", uuid.uuid4().hex
    try:
        for setting, (value, _) in settings.items():
            assert (
                at(cluster, "PUT", f"/cluster/settings/{setting}", json={"value": value}).status_code == 200
            )
        headers = UPDATE | {KEY: key, "Quadlog-Commit": "sync"}
        return [
            at(cluster, "POST", path, master=master, content=text, headers=headers)
            for path in ("/update", STATEMENTS)
            for master in range(len(cluster.masters))
        ]
    finally:
        for setting, (_, value) in settings.items():
            assert (
                at(cluster, "PUT", f"/cluster/settings/{setting}", json={"value": value}).status_code == 200
            )


def ended(cluster: Cluster) -> list[httpx.Response]:
    graph = name()
    lines = " ".join(f"<urn:{number}> <urn:is> {number} ." for number in range(100))
    assert cluster.update(f"INSERT DATA {{ GRAPH {graph} {{ {lines} }} }}").status_code == 204
    patterns = " ".join(f"?a{n} ?b{n} ?c{n} ." for n in range(9))
    query = f"SELECT (COUNT(*) AS ?n) {{ GRAPH {graph} {{ {patterns} }} }}"
    try:
        return [answered(cluster, query=query, timeout="0.2")]
    finally:
        assert cluster.update(f"DROP GRAPH {graph}").status_code == 204


ON_A_CLUSTER: dict[str, Callable[[Cluster], list[httpx.Response]]] = {
    "done": done,
    "the same `Idempotency-Key` again": again,
    "malformed: text, parameters, document": malformed,
    "a write at a worker, an update at `/sparql`": at_the_wrong_door,
    "no such repository, control, query, worker, peer, setting, report": nothing_there,
    "rejected by a control or by its evaluation": rejected,
    "synchronous, and rolled back": rolled_back,
    "the format that was asked for cannot express the answer": not_expressible,
    "a conflict with what is there": conflict,
    "too large": too_large,
    "a media type that is not taken": other_media_type,
    "one `Idempotency-Key` with two bodies": two_bodies,
    "legal SPARQL that is not executed": not_executed,
    "a read as of an index that no worker shows in time": not_shown,
    "a read as of an index of another branch": on_a_branch,
    "a query was ended by a limit or by hand": ended,
}


@pytest.mark.parametrize("situation", ON_A_CLUSTER)
def test_a_row_on_a_cluster(cluster: Cluster, situation: str) -> None:
    row = ROWS[situation]
    for answer in ON_A_CLUSTER[situation](cluster):
        check(row, answer)


REFUSED = ("malformed: text, parameters, document", "too large", "a media type that is not taken")


def test_what_is_refused_is_not_logged(cluster: Cluster) -> None:
    with nothing_logged(cluster):
        for situation in (*REFUSED, "a conflict with what is there"):
            answers = ON_A_CLUSTER[situation](cluster)
            assert any(answer.status_code // 100 == 4 for answer in answers), situation


# --- where something is amiss -----------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MasterStore]:
    store = MasterStore(tmp_path / "store")
    yield store
    store.close()


def without_worker(of: Door) -> list[httpx.Response]:
    turtle = {"Content-Type": "text/turtle"}
    return [
        of.ask("POST", "/update", content="CLEAR ALL", headers=UPDATE),
        of.ask("PUT", STATEMENTS, content="<urn:a> a 1 .", headers=turtle),
        of.ask("DELETE", STATEMENTS),
        of.ask("DELETE", "/controls/c"),
        of.ask("DELETE", "/cluster/peers/m2"),
        of.ask("POST", "/update?dry-run=true", content="CLEAR ALL", headers=UPDATE),
        of.ask("GET", "/sparql", params={"query": "ASK {}"}),
    ]


def without_answer(of: Door) -> list[httpx.Response]:
    """It waits in the queue for a master that is silent."""
    waiting = Transaction(id=id_of_key("main", "k"), digest=bytes(32))
    of.node.agreement.step(Submitted(transaction=waiting), now())
    key = {KEY: "k"}
    return [
        of.ask("POST", "/update", content="CLEAR ALL", headers=UPDATE | key),
        of.ask("DELETE", STATEMENTS, headers=key),
        of.ask("DELETE", "/controls/c", headers=key),
        of.ask("DELETE", "/cluster/peers/m2", headers=key),
    ]


def without_majority(of: Door) -> list[httpx.Response]:
    return [of.ask("GET", "/sparql", **STRICT)]


def on_a_waiting_side(of: Door) -> list[httpx.Response]:
    return [
        of.ask("POST", "/update", content="CLEAR ALL", headers=UPDATE),
        of.ask("PUT", STATEMENTS, content="<urn:a> a 1 .", headers={"Content-Type": "text/turtle"}),
        of.ask("DELETE", "/controls/c"),
        of.ask("PUT", "/cluster/settings/max-peer-lag", content="30"),
    ]


AMISS: dict[str, Callable[[Door], list[httpx.Response]]] = {
    "not possible now": without_worker,
    "outcome unknown": without_answer,
    "a strict read without a majority": without_majority,
    "a write on a side of a split that waits for a majority, or a synchronous one without one": on_a_waiting_side,
}


@pytest.mark.parametrize("situation", AMISS)
def test_a_row_where_something_is_amiss(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, situation: str
) -> None:
    monkeypatch.setattr("quadlog.master.http.reads.WAIT_S", 0.1)
    alone = HardState(view=View(epoch=2, members=("m1",), parent=first_view(VOTING).id))
    of = door(store, monkeypatch, tmp_path, alone if "majority" in situation else None)
    for answer in AMISS[situation](of):
        check(ROWS[situation], answer)
    assert not of.broker.payloads or situation == "outcome unknown"


def test_every_row_is_provoked() -> None:
    assert set(ON_A_CLUSTER) | set(AMISS) == set(ROWS)
