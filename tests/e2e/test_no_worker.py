"""One data centre with one worker: what a client is told while the worker or the broker is away."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.clusters.cluster import Cluster, until
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

MASTER, WORKER, BROKER = "dc1-m1", "dc1-w1", "broker-dc1"
REQUEST_TIMEOUT = 3.0


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its processes get a short request-timeout through the environment, as the lab passes it on."""
    environment = {
        "QUADLOG_REQUEST_TIMEOUT": str(REQUEST_TIMEOUT),
        # An operator's proxy is not for what nodes say to each other: nobody listens there.
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "",
        "no_proxy": "",
    }
    directory = tmp_path_factory.mktemp("small") / "lab"
    with BROKERS.lab(directory, dcs=1, workers=1, environment=environment) as lab:
        yield Cluster(lab)


def insert(small: Cluster, key: str | None = None) -> httpx.Response:
    key = key or str(uuid.uuid4())
    return small.update(f"INSERT DATA {{ <urn:s:{uuid.uuid4()}> <urn:p> 1 }}", Idempotency_Key=key)


def read(small: Cluster) -> httpx.Response:
    query = {"query": "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"}
    return httpx.get(f"{small.masters[0]}/sparql", params=query, headers={"Accept": "text/csv"}, timeout=30)


def count(small: Cluster) -> int:
    answer = read(small)
    assert answer.status_code == 200, answer.text
    return int(answer.text.split()[1])


def worker_state(small: Cluster) -> str:
    [worker] = small.status()["workers"]
    state: str = worker["state"]
    return state


def transaction(small: Cluster, name: str) -> dict[str, Any]:
    told: dict[str, Any] = httpx.get(f"{small.masters[0]}/tx/{name}", timeout=10).json()
    return told


def unavailable(answer: httpx.Response) -> bool:
    """503, definitely nothing was done, and when to try again."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["error"] == "Unavailable"
    assert answer.json()["definite"] is True
    return True


def test_without_a_worker_nothing_is_taken(small: Cluster) -> None:
    assert insert(small).status_code == 204
    before, index = count(small), small.status()["agreed_index"]
    small.lab.kill(WORKER)
    until(lambda: worker_state(small) == "down")
    key = f"while it was down {uuid.uuid4()}"
    assert unavailable(insert(small))
    assert unavailable(insert(small, key))
    assert unavailable(read(small))
    assert transaction(small, key)["state"] == "unknown"
    ready = httpx.get(f"{small.masters[0]}/healthz/ready", timeout=10)
    assert (ready.status_code, "Retry-After" in ready.headers) == (503, True)
    assert httpx.get(f"{small.masters[0]}/healthz/alive", timeout=10).status_code == 200
    # What is wrong with the request is still said first: trying again would not help.
    assert small.update("INSERT").status_code == 400
    # It stays down until somebody starts it.
    time.sleep(1)
    assert worker_state(small) == "down"
    assert small.lab.exited(WORKER)
    status = small.status()
    assert (status["agreed_index"], status["incoming"], status["waiting"]) == (index, 0, 0)

    small.lab.start(WORKER)
    until(lambda: worker_state(small) == "serving")
    assert count(small) == before
    answer = insert(small, key)
    assert answer.status_code == 204, answer.text
    assert answer.headers["Quadlog-Index"].split(":")[0] == str(index + 1), "nothing was logged in between"
    assert count(small) == before + 1


def test_an_update_that_lost_its_worker_half_way_is_applied_when_one_is_back(small: Cluster) -> None:
    """The master has not noticed yet that it is gone: accepted, and said to be undecided."""
    assert insert(small).status_code == 204
    before = count(small)
    small.lab.kill(WORKER, "STOP")
    answer = insert(small)
    assert answer.status_code == 504, answer.text
    assert (answer.json()["error"], answer.json()["definite"]) == ("OutcomeUnknown", False)
    assert transaction(small, answer.headers["Quadlog-Tx"])["state"] == "pending"
    small.lab.kill(WORKER, "CONT")
    until(lambda: transaction(small, answer.headers["Quadlog-Tx"])["state"] == "applied")
    until(lambda: worker_state(small) == "serving")
    assert count(small) == before + 1


def test_while_the_broker_is_suspended_an_update_is_undecided(small: Cluster) -> None:
    assert insert(small).status_code == 204
    before, key, text = (
        count(small),
        f"suspended {uuid.uuid4()}",
        f"INSERT DATA {{ <urn:{uuid.uuid4()}> <urn:p> 1 }}",
    )
    small.lab.kill(BROKER, "STOP")
    try:
        began = time.monotonic()
        answer = small.update(text, Idempotency_Key=key)
        took = time.monotonic() - began
        assert answer.status_code == 504, answer.text
        assert REQUEST_TIMEOUT <= took < REQUEST_TIMEOUT + 3
        assert (answer.json()["error"], answer.json()["definite"]) == ("OutcomeUnknown", False)
        name = answer.headers["Quadlog-Tx"]
        assert answer.headers["Location"] == f"/tx/{name}"
        assert int(answer.headers["Retry-After"]) > 0
        assert name in answer.json()["message"]
        for known in (name, key):
            assert transaction(small, known) == {"id": name, "state": "pending"}
        # The heartbeats come through the same broker: by now nothing more is taken.
        assert worker_state(small) == "down"
        assert unavailable(insert(small))
    finally:
        small.lab.kill(BROKER, "CONT")
    until(lambda: transaction(small, name)["state"] == "applied")
    until(lambda: worker_state(small) == "serving")
    again = small.update(text, Idempotency_Key=key)
    assert (again.status_code, again.headers["Quadlog-Tx"]) == (204, name)
    assert again.headers["Quadlog-Index"].split(":")[0] == str(transaction(small, key)["index"])
    assert count(small) == before + 1


def test_whoever_waits_is_answered_when_the_broker_goes_on(small: Cluster) -> None:
    answers: list[httpx.Response] = []
    small.lab.kill(BROKER, "STOP")
    waiting = threading.Thread(target=lambda: answers.append(insert(small)))
    waiting.start()
    time.sleep(1)
    small.lab.kill(BROKER, "CONT")
    waiting.join(timeout=30)
    assert [answer.status_code for answer in answers] == [204]


def test_a_master_that_was_killed_goes_on(small: Cluster) -> None:
    assert insert(small).status_code == 204
    before, index = count(small), small.status()["agreed_index"]
    small.lab.kill(MASTER)
    with pytest.raises(httpx.HTTPError):
        insert(small)
    small.lab.start(MASTER)
    until(lambda: small.status()["agreed_index"] == index)
    until(lambda: read(small).status_code == 200)
    assert count(small) == before
    assert insert(small).headers["Quadlog-Index"].split(":")[0] == str(index + 1)
