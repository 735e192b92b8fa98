"""Queries that have to end, and reads as new as they ask to be, on a real cluster under steady updates."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.clusters.cluster import HTTP, ask, index_of, name, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters.cluster import Cluster

DATA = "urn:killing:data"
ENDLESS = (
    f"SELECT (COUNT(*) AS ?n) {{ GRAPH <{DATA}> {{ {' '.join(f'?a{n} ?b{n} ?c{n} .' for n in range(9))} }} }}"
)
"""300 to the power of 9."""
RATE = 50


@pytest.fixture(scope="module", autouse=True)
def data(cluster: Cluster) -> Iterator[None]:
    lines = " ".join(f"<urn:{number}> <urn:killing> {number} ." for number in range(300))
    assert cluster.update(f"INSERT DATA {{ GRAPH <{DATA}> {{ {lines} }} }}").status_code == 204
    cluster.wait_until_equal()
    yield
    assert cluster.update(f"DROP GRAPH <{DATA}>").status_code == 204
    cluster.wait_until_equal()


def queries(url: str) -> list[dict[str, Any]]:
    found: dict[str, Any] = HTTP.get(f"{url}/queries").json()
    assert found.get("unreachable", {}) == {}
    return list(found["queries"])


def cpu(pid: int) -> float | None:
    """Ticks of a process; None: there is none that could take any."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else float(fields[11]) + float(fields[12])
    return None


def until_gone(pid: int) -> None:
    deadline = time.monotonic() + 5
    while cpu(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def started(
    cluster: Cluster, answers: list[httpx.Response], **parameters: str
) -> tuple[threading.Thread, dict[str, Any]]:
    def run() -> None:
        with httpx.Client(timeout=60) as client:
            answers.append(
                client.get(f"{cluster.masters[0]}/sparql", params={"query": ENDLESS, **parameters})
            )

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 10
    while not (found := [query for query in queries(cluster.masters[0]) if query["text"] == ENDLESS]):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return thread, found[0]


@contextmanager
def updating(cluster: Cluster, subject: str, master: int = 0) -> Iterator[list[tuple[int, int]]]:
    """Fifty updates a second; the newest value that was acknowledged, with its index, is the last one."""
    done = threading.Event()
    acknowledged: list[tuple[int, int]] = []

    def run() -> None:
        number, due = 0, time.monotonic()
        while not done.is_set():
            number += 1
            answer = cluster.update(
                f"DELETE {{ {subject} <urn:n> ?n }} INSERT {{ {subject} <urn:n> {number} }}"
                f" WHERE {{ OPTIONAL {{ {subject} <urn:n> ?n }} }}",
                master=master,
            )
            assert answer.status_code == 204, answer.text
            acknowledged.append((number, index_of(answer)))
            due += 1 / RATE
            time.sleep(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while not acknowledged:
            time.sleep(0.02)
        yield acknowledged
    finally:
        done.set()
        thread.join()


def test_a_query_for_hours_ends_at_its_time_limit(cluster: Cluster) -> None:
    answers: list[httpx.Response] = []
    began = time.monotonic()
    thread, query = started(cluster, answers, timeout="5")
    worker = query["worker"]
    assert query["via"] == "dc1-m1"
    assert query["client"] == "127.0.0.1"
    before = cpu(query["pid"])
    assert before is not None
    until(lambda: (cpu(query["pid"]) or 0.0) > before, 3)
    assert cluster.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}").status_code == 204
    assert ask(cluster.workers[worker], "ASK {}").json()["boolean"] is True, "the same worker serves"
    thread.join()
    assert 4.9 < time.monotonic() - began < 10
    [answer] = answers
    assert (answer.status_code, answer.json()["error"]) == (503, "QueryStopped")
    assert "5 s" in answer.json()["message"]
    until_gone(query["pid"])
    assert queries(cluster.masters[0]) == [], "and it was not begun again at another worker"
    cluster.wait_until_equal()


def test_a_query_is_deleted_at_a_master(cluster: Cluster) -> None:
    answers: list[httpx.Response] = []
    thread, query = started(cluster, answers)
    assert HTTP.delete(f"{cluster.masters[0]}/queries/{query['id']}").status_code == 204
    thread.join()
    assert (answers[0].status_code, answers[0].json()["error"]) == (503, "QueryStopped")
    until_gone(query["pid"])
    for gone in (query["id"], "dc1-w1-000000-1", "nobody"):
        assert HTTP.delete(f"{cluster.masters[0]}/queries/{gone}").status_code == 404


def test_a_client_that_leaves_ends_its_query(cluster: Cluster) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{cluster.masters[0]}/sparql", params={"query": ENDLESS}, timeout=0.7)
    deadline = time.monotonic() + 5
    while queries(cluster.masters[0]):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_when_a_worker_is_killed_its_queries_die_with_it(cluster: Cluster) -> None:
    url = cluster.workers["dc1-w2"]

    def run() -> None:
        with suppress(httpx.HTTPError):
            httpx.get(f"{url}/sparql", params={"query": ENDLESS}, timeout=30)

    thread = threading.Thread(target=run)
    thread.start()
    while not (found := queries(url)):
        time.sleep(0.02)
    cluster.lab.kill("dc1-w2")
    until_gone(found[0]["pid"])
    thread.join()
    cluster.lab.start("dc1-w2")
    cluster.wait_until_equal()
    copies = cluster.lab.directory / "nodes" / "dc1-w2" / "data" / "copies"
    assert len(list(copies.iterdir())) <= 2, "what the killed one left is gone"


def test_reads_are_as_new_as_they_ask_to_be(cluster: Cluster) -> None:
    subject = name()
    query = f"SELECT ?n {{ {subject} <urn:n> ?n }}"
    took: dict[str, list[float]] = {}

    def value(master: int, headers: dict[str, str]) -> int:
        began = time.monotonic()
        answer = HTTP.get(
            f"{cluster.masters[master]}/sparql",
            params={"query": query},
            headers={"Accept": "text/csv", **headers},
        )
        assert answer.status_code == 200, answer.text
        how = headers.get("Quadlog-Consistency", "session") + " at an index" * (
            "Quadlog-Min-Index" in headers
        )
        took.setdefault(how, []).append(time.monotonic() - began)
        return int(answer.text.split()[1])

    with updating(cluster, subject) as acknowledged:
        for _ in range(30):
            newest = acknowledged[-1][0]
            assert value(0, {}) >= newest, "session is the default"
            newest = acknowledged[-1][0]
            assert value(0, {"Quadlog-Consistency": "local"}) >= newest
            number, index = acknowledged[-1]
            assert value(1, {"Quadlog-Consistency": "eventual", "Quadlog-Min-Index": f"{index}"}) >= number
            newest = acknowledged[-1][0]
            assert value(2, {"Quadlog-Consistency": "strict"}) >= newest, "at another master, with no index"
    for how, seconds in took.items():
        seconds.sort()
        half, most = (1000 * seconds[int(len(seconds) * share)] for share in (0.5, 0.99))
        print(f"{how}: p50 {half:.1f} ms, p99 {most:.1f} ms")
    cluster.wait_until_equal()
