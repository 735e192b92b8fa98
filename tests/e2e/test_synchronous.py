"""Synchronous transactions on a real cluster: asking, deciding, masters that die or are gone, sides of a split."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from quadlog.failpoints import Failpoint
from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, ask, nothing_logged, until
from tests.support.clusters.ending import in_turn
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab

LAG_S = 2.0
TIMEOUT_S = 1.5


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    environment = {"QUADLOG_MAX_PEER_LAG": f"{LAG_S}", "QUADLOG_SYNCHRO_TIMEOUT": f"{TIMEOUT_S}"}
    directory = tmp_path_factory.mktemp("synchronous") / "lab"
    with BROKERS.lab(directory, dcs=3, workers=1, environment=environment) as lab:
        yield lab


@pytest.fixture
def cluster(running: RunningLab) -> Iterator[Cluster]:
    with in_turn(running) as cluster:
        yield cluster


def insert(text: str = "", graph: str = "") -> str:
    quad = f"<urn:sync:{text or uuid.uuid4()}> <urn:is> 1"
    return f"INSERT DATA {{ GRAPH <{graph}> {{ {quad} }} }}" if graph else f"INSERT DATA {{ {quad} }}"


def sync(cluster: Cluster, text: str, master: int = 0, **headers: str) -> httpx.Response:
    return cluster.update(text, master=master, Quadlog_Commit="sync", **headers)


def limbo(cluster: Cluster, master: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = cluster.status(master)["limbo"]
    return found


def outcome(cluster: Cluster, key: str, master: int = 0) -> str:
    found: str = HTTP.get(f"{cluster.masters[master]}/tx/{key}").json()["state"]
    return found


def put(cluster: Cluster, name: str, value: str) -> None:
    answer = HTTP.put(f"{cluster.masters[0]}/cluster/settings/{name}", json={"value": value})
    assert answer.status_code == 200, answer.text
    every = range(len(cluster.masters))
    until(lambda: {cluster_value(cluster, name, number) for number in every} == {value})


def cluster_value(cluster: Cluster, name: str, master: int) -> str:
    found: str = HTTP.get(f"{cluster.masters[master]}/cluster/settings/{name}").json()["value"]
    return found


def shows(cluster: Cluster, text: str) -> set[bool]:
    """What the workers say of a subject."""
    return {
        ask(url, f"ASK {{ <urn:sync:{text}> ?p ?o }}").json()["boolean"] for url in cluster.workers.values()
    }


def shows_everywhere(cluster: Cluster, text: str, *, is_applied: bool) -> bool:
    return shows(cluster, text) == {is_applied}


# A lab of its own comes first: the one for all others would idle beside it.
@pytest.mark.long("a lab of its own: two data centres part, go on, and come together")
def test_sides_without_a_majority_set_them_aside_and_they_are_committed_later(tmp_path: Path) -> None:
    environment = {
        "QUADLOG_MAX_PEER_LAG": f"{LAG_S}",
        "QUADLOG_SPLIT_RECOVERY": "Smart",
        "QUADLOG_SYNC_GRAPHS": "urn:sync:graph",
    }
    with (
        BROKERS.lab(tmp_path / "lab", dcs=2, workers=1, environment=environment) as lab,
        in_turn(lab) as cluster,
    ):
        keys = [f"side-{number}" for number in (0, 1)]
        assert cluster.update(insert(graph="urn:sync:graph")).headers["Quadlog-Commit"] == "sync"
        cluster.cut("dc1", "dc2")
        until(lambda: [len(cluster.status(n)["view"]["members"]) for n in (0, 1)] == [1, 1])
        for master, key in enumerate(keys):
            told = cluster.update(insert(key, "urn:sync:graph"), master=master, Idempotency_Key=key)
            assert (told.status_code, "suspended" in told.text) == (504, True), told.text
            assert outcome(cluster, key, master) == "suspended"
            refused = sync(cluster, insert(), master=master)
            assert (refused.status_code, refused.json()["error"]) == (503, "NoMajority")
            assert cluster.update(insert(f"asynchronous-{master}"), master=master).status_code == 204
        cluster.heal()
        until(lambda: {outcome(cluster, key, master) for key in keys for master in (0, 1)} == {"applied"})
        cluster.wait_until_equal()
        query = "SELECT (COUNT(*) AS ?n) { GRAPH <urn:sync:graph> { ?s ?p ?o } }"
        for url in cluster.workers.values():
            assert ask(url, query).json()["results"]["bindings"][0]["n"]["value"] == "3"
        again = [cluster.update(insert(key, "urn:sync:graph"), Idempotency_Key=key) for key in keys]
        print([(one.status_code, one.text) for one in again])


def test_each_way_of_asking_and_what_the_answer_says(cluster: Cluster) -> None:
    url = f"{cluster.masters[1]}/update"
    answers = [
        sync(cluster, insert(), master=1),
        HTTP.post(url, params={"is_sync": "true"}, content=insert(), headers=UPDATE),
        HTTP.post(url, data={"update": insert(), "is_sync": "true"}),
        HTTP.post(
            f"{cluster.masters[1]}/repositories/{cluster.status()['repository']}/statements",
            params={"is_sync": "true"},
            content="<urn:sync:statement> <urn:is> 1 .",
            headers={"Content-Type": "text/turtle"},
        ),
    ]
    for answer in answers:
        assert answer.status_code == 204, answer.text
        assert (answer.headers["Quadlog-Commit"], answer.headers["Quadlog-Durability"]) == (
            "sync",
            "3 of 3 data centres",
        )
        assert answer.headers["Quadlog-Index"]
    plain = cluster.update(insert())
    assert (plain.headers["Quadlog-Commit"], plain.headers["Quadlog-Durability"]) == (
        "default",
        "3 of 3 data centres",
    )
    last = limbo(cluster)["last_decision"]
    assert last["kind"] == "COMMIT"
    assert last["target"] >= int(answers[-1].headers["Quadlog-Index"].split(":")[0])


def test_a_lazy_one_is_answered_before_it_is_agreed(cluster: Cluster) -> None:
    key = str(uuid.uuid4())
    answer = cluster.update(insert(key), Quadlog_Commit="lazy", Idempotency_Key=key)
    assert answer.status_code == 204
    assert (answer.headers["Quadlog-Commit"], answer.headers["Quadlog-Durability"]) == (
        "lazy",
        "1 of 3 data centres",
    )
    assert "Quadlog-Index" not in answer.headers
    until(lambda: outcome(cluster, key) == "applied")
    until(lambda: shows(cluster, key) == {True})


@pytest.mark.parametrize(
    ("params", "header"),
    [
        ({"is_sync": "true", "is_lazy": "true"}, None),
        ({"is_sync": "true"}, "lazy"),
        ({"is_sync": "false"}, "sync"),
        ({"is_sync": "yes"}, None),
        ({}, "soon"),
    ],
)
def test_contradictions_are_refused(cluster: Cluster, params: dict[str, str], header: str | None) -> None:
    headers = UPDATE | ({} if header is None else {"Quadlog-Commit": header})
    with nothing_logged(cluster):
        answer = HTTP.post(f"{cluster.masters[0]}/update", params=params, content=insert(), headers=headers)
    assert (answer.status_code, answer.json()["definite"]) == (400, True)


def test_one_key_means_one_mode(cluster: Cluster) -> None:
    key, text = str(uuid.uuid4()), insert()
    assert sync(cluster, text, Idempotency_Key=key).status_code == 204
    assert sync(cluster, text, master=2, Idempotency_Key=key).status_code == 204
    assert cluster.update(text, Idempotency_Key=key).status_code == 422


def test_a_graph_makes_a_transaction_synchronous_from_any_master_without_a_restart(cluster: Cluster) -> None:
    put(cluster, "sync-graphs", "default urn:sync:graph")
    try:
        for master in range(3):
            for text, mode in (
                (insert(graph="urn:sync:graph"), "sync"),
                (insert(), "sync"),
                (insert(graph="urn:sync:other"), "default"),
                (
                    "INSERT { GRAPH <urn:sync:graph> { ?s ?p 2 } } WHERE { GRAPH <urn:sync:other> { ?s ?p ?o } }",
                    "sync",
                ),
                (
                    "INSERT { GRAPH <urn:sync:third> { ?s ?p 3 } } WHERE { GRAPH <urn:sync:graph> { ?s ?p ?o } }",
                    "default",
                ),
            ):
                answer = cluster.update(text, master=master)
                assert (answer.status_code, answer.headers.get("Quadlog-Commit")) == (204, mode), (
                    master,
                    text,
                )
                if "?s ?p 2" in text:
                    cluster.update("DROP SILENT GRAPH <urn:sync:graph>", master=master)
                if "?s ?p 3" in text:
                    cluster.update("DROP SILENT GRAPH <urn:sync:third>", master=master)
    finally:
        put(cluster, "sync-graphs", "off")
    assert cluster.update(insert(graph="urn:sync:graph")).headers["Quadlog-Commit"] == "default"
    cluster.wait_until_equal()


@pytest.mark.long("a master is given up, twice, and time-outs pass")
def test_what_no_quorum_has_is_rolled_back_and_never_shown(cluster: Cluster) -> None:
    """All three must have it, and one stands still: nothing undecided is shown, reads go on, the alarm says why."""
    put(cluster, "synchro-quorum", "N")
    lost, behind, key = str(uuid.uuid4()), str(uuid.uuid4()), str(uuid.uuid4())
    cluster.lab.kill("dc3-m1", "STOP")
    try:
        until(lambda: cluster.status(0)["view"]["members"] == ["dc1-m1", "dc2-m1"])
        put_timeout(cluster, 12)
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(sync, cluster, insert(lost), Idempotency_Key=key)
            until(lambda: limbo(cluster)["length"] == 1)
            later = pool.submit(cluster.update, insert(behind), master=1)
            [alarm] = until(
                lambda: [one for one in cluster.status(1)["alarms"] if one["name"] == "limbo-waits"], 10
            )
            assert "dc3 not known to" in alarm["reason"]
            [first] = limbo(cluster, 1)["first"]
            assert first["confirmed_by"] == ["dc1", "dc2"]
            assert outcome(cluster, key, 1) == "pending"
            assert shows(cluster, lost) == shows(cluster, behind) == {False}
            promoted = HTTP.post(f"{cluster.masters[1]}/cluster/promote", json={"timeout_s": 0.1})
            assert (promoted.status_code, "dc3 not known to" in promoted.text) == (504, True)
            told = waiting.result()
            assert (told.status_code, told.json()["error"]) == (409, "RolledBack"), told.text
            assert later.result().status_code == 204
        for master in (0, 1):
            again = sync(cluster, insert(lost), master=master, Idempotency_Key=key)
            assert (again.status_code, again.json()["error"]) == (409, "RolledBack")
            assert outcome(cluster, key, master) == "rolled back"
        until(lambda: not [one for one in cluster.status(1)["alarms"] if one["name"] == "limbo-waits"])

        # A quorum that is lowered meanwhile acts on what waits.
        put_timeout(cluster, 60)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(sync, cluster, insert(), master=1)
            until(lambda: limbo(cluster, 1)["length"] == 1)
            lowered = threading.Thread(target=set_quorum, args=(cluster,))
            lowered.start()
            assert waiting.result().status_code == 204
            lowered.join()
    finally:
        cluster.lab.kill("dc3-m1", "CONT")
        set_quorum(cluster)
        put_timeout(cluster, TIMEOUT_S)
    until(lambda: len(cluster.status(0)["view"]["members"]) == 3)
    cluster.wait_until_equal()
    said = quadlog("promote", "--at", cluster.masters[2]).stdout
    assert said.startswith("0 were undecided, none of them is now; the newest decision is "), said
    assert shows(cluster, lost) == {False}
    assert shows(cluster, behind) == {True}


@pytest.mark.long("a master is given up, for each way of asking")
@pytest.mark.parametrize("mode", ["sync", "default"])
def test_a_strict_read_does_not_wait_for_a_decision(cluster: Cluster, mode: str) -> None:
    """Also not for that on an entry that only its effect shows to be synchronous; by itself it would wait for 60 s."""
    put(cluster, "synchro-quorum", "N")
    put(cluster, "sync-graphs", "urn:sync:graph" if mode == "default" else "off")
    before, undecided, behind = (str(uuid.uuid4()) for _ in range(3))
    assert cluster.update("DROP SILENT ALL").status_code == 204
    cluster.lab.kill("dc3-m1", "STOP")
    try:
        until(lambda: cluster.status(0)["view"]["members"] == ["dc1-m1", "dc2-m1"])
        put_timeout(cluster, 60)
        assert cluster.update(insert(before)).status_code == 204
        with ThreadPoolExecutor(2) as pool:
            text = insert(undecided, graph="urn:sync:graph")
            waiting = pool.submit(cluster.update, text, Quadlog_Commit=mode)
            until(lambda: [limbo(cluster, number)["length"] for number in (0, 1)] == [1, 1])
            later = pool.submit(cluster.update, insert(behind), master=1)
            until(lambda: cluster.status(1)["agreed_index"] > limbo(cluster, 1)["first"][0]["index"])
            seconds = list[float]()
            for number in range(10):
                began = time.monotonic()
                assert read_strictly(cluster, number % 2) == {before}
                seconds.append(time.monotonic() - began)
            print(f"strict reads took {min(seconds):.3f} to {max(seconds):.3f} s")
            index = limbo(cluster)["first"][0]["index"]
            assert (limbo(cluster)["length"], waiting.done(), later.done()) == (1, False, False)
            assert min(seconds) < 1, seconds
            assert cluster.status(0)["agreed_index"] >= index + 11, (
                "each had an entry behind the undecided one"
            )
            named = {"Quadlog-Min-Index": str(index)}
            refused = HTTP.get(f"{cluster.masters[0]}/sparql", params={"query": "ASK { }"}, headers=named)
            assert refused.status_code == 503, refused.text
            assert f"behind {index}" in refused.json()["message"]
            lowered = threading.Thread(target=set_quorum, args=(cluster,))
            lowered.start()
            assert [waiting.result().status_code, later.result().status_code] == [204, 204]
            assert [read_strictly(cluster, number) for number in (0, 1)] == [{before, undecided, behind}] * 2
            lowered.join()
    finally:
        cluster.lab.kill("dc3-m1", "CONT")
        set_quorum(cluster)
        put_timeout(cluster, TIMEOUT_S)
    until(lambda: len(cluster.status(0)["view"]["members"]) == 3)
    put(cluster, "sync-graphs", "off")
    cluster.wait_until_equal()


def read_strictly(cluster: Cluster, master: int) -> set[str]:
    """The subjects that a strict read shows."""
    answer = HTTP.get(
        f"{cluster.masters[master]}/sparql",
        params={"query": "SELECT ?s { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"},
        headers={"Quadlog-Consistency": "strict", "Accept": "text/csv"},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    return {line.removeprefix("urn:sync:") for line in answer.text.split()[1:]}


def put_timeout(cluster: Cluster, seconds: float) -> None:
    path = f"{cluster.masters[0]}/cluster/settings/synchro-timeout"
    assert HTTP.put(path, json={"value": f"{seconds:g}"}).status_code == 200


def set_quorum(cluster: Cluster) -> None:
    path = f"{cluster.masters[0]}/cluster/settings/synchro-quorum"
    assert HTTP.put(path, json={"value": "N/2 + 1"}, timeout=60).status_code == 200


@pytest.mark.long("the proposing master dies at three points, and starts again")
def test_the_proposer_dies_at_each_point_of_a_decision(cluster: Cluster) -> None:
    """Whoever asked at another master has the answer; whoever asked at the dead one finds it under the same key."""
    keys: list[str] = []
    for point in (Failpoint.DECISION_SAVED, Failpoint.DECISION_POSTED, Failpoint.DECISION_AGREED):
        cluster.lab.kill("dc1-m1")
        cluster.lab.start("dc1-m1", QUADLOG_FAILPOINT=f"{point}:3")
        died = threading.Event()
        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(_ask_until, died, cluster, number % 3) for number in range(4)]
            try:
                until(lambda: cluster.lab.exited("dc1-m1"))
            finally:
                died.set()
            asked = {key: status for one in asking for key, status in one.result().items()}
        assert {*asked.values()} <= {204, 409, 503, 504, 0}
        cluster.lab.start("dc1-m1")
        keys += asked
    until(lambda: limbo(cluster)["length"] == 0)
    cluster.wait_until_equal()
    for key in keys:
        states = {outcome(cluster, key, master) for master in range(3)}
        if len(states) > 1 or states & {"pending", "unknown"}:
            assert sync(cluster, insert(key), Idempotency_Key=key).status_code in {204, 409}
        is_applied = outcome_at_all(cluster, key) == "applied"
        until(partial(shows_everywhere, cluster, key, is_applied=is_applied))


def outcome_at_all(cluster: Cluster, key: str) -> str:
    """What all masters say of it, once that is one final state."""

    def decided() -> str:
        states = {outcome(cluster, key, master) for master in range(len(cluster.masters))}
        return states.pop() if states in ({"applied"}, {"rolled back"}) else ""

    return until(decided)


def _ask_until(died: threading.Event, cluster: Cluster, master: int) -> dict[str, int]:
    """One after the other: where many wait at once, one decision is enough for all of them."""
    answers = dict[str, int]()
    while not died.is_set():
        key = str(uuid.uuid4())
        answers[key] = _try(cluster, key, master)
        if not answers[key]:  # it is dead
            break
    return answers


def _try(cluster: Cluster, key: str, master: int) -> int:
    try:
        return sync(cluster, insert(key), master=master, Idempotency_Key=key).status_code
    except httpx.TransportError:
        return 0
