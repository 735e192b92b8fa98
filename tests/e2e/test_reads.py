"""Reads through a master: streamed, retried before their first byte, and never cut short in silence."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from quadlog.master.workers.worker_registry import SINK_MS
from quadlog.web import local_socket
from tests.support.clusters.cluster import PATIENCE_S, Cluster, ask, rss, until
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 1000
ALL_PAIRS = "SELECT * { ?x <urn:cross> ?a . ?y <urn:cross> ?b }"
"""A million rows, 150 MB of JSON."""
SOME = 200
SOME_PAIRS = f"?x <urn:cross> ?a . ?y <urn:cross> ?b FILTER(?a < {SOME})"
ROW = b'"a":'
COUNTED = "SELECT (COUNT(*) AS ?n) { ?x <urn:cross> ?a . ?y <urn:cross> ?b FILTER(STR(?a) < STR(?b)) }"
"""Seconds before its first byte."""
MIB = 1024 * 1024
WORKER_TIMEOUT = 2.0


@pytest.fixture(scope="module")
def one_dc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BROKERS.lab(tmp_path_factory.mktemp("reads") / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        lines = "\n".join(f"<urn:{number}> <urn:cross> {number} ." for number in range(SIDE))
        assert cluster.update(f"INSERT DATA {{ {lines} }}").status_code == 204
        cluster.wait_until_equal()
        yield cluster


def workers_of(cluster: Cluster) -> dict[str, dict[str, Any]]:
    return {worker["id"]: worker for worker in cluster.status()["workers"]}


def reading(cluster: Cluster) -> str:
    """The worker with a read under way, as soon as there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        if busy := [name for name, worker in workers_of(cluster).items() if worker["reads"]]:
            return busy[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def all_serving(cluster: Cluster) -> bool:
    return {worker["state"] for worker in workers_of(cluster).values()} == {"serving"}


@contextmanager
def begun(cluster: Cluster, query: str) -> Iterator[httpx.Response]:
    """Its first bytes are here; the rest is not asked for."""
    query_url = f"{cluster.masters[0]}/sparql?query={quote(query)}"
    with httpx.Client(timeout=60) as client, client.stream("GET", query_url) as answer:
        yield answer


@pytest.mark.alone
def test_a_million_rows_to_a_slow_client(one_dc: Cluster) -> None:
    pids = {node["id"]: node["pid"] for node in (*one_dc.lab.masters, *one_dc.lab.workers)}
    before = {name: rss(pid) for name, pid in pids.items()}
    most = dict(before)
    others: list[float] = []
    tail, rows = b"", 0
    with closing(HTTPConnection(urlsplit(one_dc.masters[0]).netloc, timeout=60)) as client:
        began = time.monotonic()
        client.request("GET", f"/sparql?query={quote(ALL_PAIRS)}")
        answer = client.getresponse()
        first = time.monotonic() - began
        while piece := answer.read(4096 if time.monotonic() - began < 3 else MIB):
            rows += (tail + piece).count(ROW)
            tail = piece[1 - len(ROW) :]
            most = {name: max(most[name], rss(pid)) for name, pid in pids.items()}
            if len(piece) == 4096:  # slowly, while others ask
                asked = time.monotonic()
                assert ask(one_dc.masters[0], "ASK { <urn:1> <urn:cross> 1 }").json()["boolean"] is True
                others.append(time.monotonic() - asked)
                time.sleep(0.02)
    growth = {name: round((most[name] - before[name]) / MIB) for name in pids}
    print(
        f"first byte after {first:.3f} s; {rows} rows in {time.monotonic() - began:.1f} s; grown by MiB {growth};"
        f" {len(others)} other reads meanwhile, at most {max(others):.3f} s"
    )
    assert rows == SIDE * SIDE
    assert max(growth.values()) < 30
    assert max(others) < 2


def test_all_of_a_streamed_answer_arrives(one_dc: Cluster) -> None:
    answer = ask(one_dc.masters[0], f"SELECT * {{ {SOME_PAIRS} }}", "text/csv")
    lines = answer.text.splitlines()
    assert (answer.status_code, len(lines), len(set(lines))) == (200, SOME * SIDE + 1, SOME * SIDE + 1)
    graph = ask(one_dc.masters[0], f"CONSTRUCT {{ ?x ?y ?b }} WHERE {{ {SOME_PAIRS} }}", "*/*")
    assert len(graph.text.split("urn:")) > SOME * SIDE


@pytest.mark.skipif(not local_socket.IS_SUPPORTED, reason="only Linux has abstract names of sockets")
def test_a_master_uses_the_local_sockets_of_its_workers(one_dc: Cluster) -> None:
    with begun(one_dc, ALL_PAIRS):
        address = urlsplit(one_dc.workers[reading(one_dc)]).netloc
        sockets = Path("/proc/net/unix").read_text().splitlines()
        ours = [line for line in sockets if line.endswith(f"@quadlog {address}")]
        assert len(ours) > 1, "the one that listens, and each connection"


@pytest.mark.alone
def test_a_client_that_leaves_is_noticed(one_dc: Cluster) -> None:
    with begun(one_dc, ALL_PAIRS):
        reading(one_dc)
    assert until(lambda: not any(worker["reads"] for worker in workers_of(one_dc).values()), 2)


def test_a_worker_that_dies_in_mid_stream_breaks_the_transfer(one_dc: Cluster) -> None:
    with begun(one_dc, ALL_PAIRS) as answer:
        assert answer.status_code == 200
        name = reading(one_dc)
        one_dc.lab.kill(name)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
            for _ in answer.iter_raw():
                pass
    log = (one_dc.lab.directory / "logs" / "dc1-m1.log").read_text().splitlines()
    assert any("event=answer_broken_off" in line and f" {name} failed" in line for line in log)
    assert ask(one_dc.masters[0], "ASK {}").json()["boolean"] is True
    one_dc.lab.start(name)
    until(lambda: all_serving(one_dc))


def test_a_worker_that_dies_before_the_first_byte_is_replaced(one_dc: Cluster) -> None:
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(ask(one_dc.masters[0], COUNTED, "text/csv")))
    asking.start()
    name = reading(one_dc)
    one_dc.lab.kill(name)
    asking.join(60)
    [answer] = answers
    assert (answer.status_code, answer.text.split()) == (200, ["n", str(SIDE * (SIDE - 1) // 2)])
    one_dc.lab.start(name)
    until(lambda: all_serving(one_dc))


def timed_ask(cluster: Cluster) -> float:
    """Seconds of a read that is answered."""
    began = time.monotonic()
    assert ask(cluster.masters[0], "ASK {}").status_code == 200
    return time.monotonic() - began


@pytest.mark.alone
def test_a_suspended_worker_delays_and_does_not_fail(one_dc: Cluster) -> None:
    idle = next(name for name, worker in workers_of(one_dc).items() if not worker["evaluating"])
    pid = next(worker["pid"] for worker in one_dc.lab.workers if worker["id"] == idle)
    took: list[float] = []
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + SINK_MS / 1000 + PATIENCE_S
    while max(took, default=0) < 0.5:
        took.append(timed_ask(one_dc))
        assert time.monotonic() < deadline
        time.sleep(0.1)
        if took[-1] < 0.5 and workers_of(one_dc)[idle]["state"] == "down":
            # It failed a read lately, so that another one was asked until its silence was noticed.
            os.kill(pid, signal.SIGCONT)
            until(lambda: all_serving(one_dc))
            os.kill(pid, signal.SIGSTOP)
    after = [timed_ask(one_dc) for _ in range(3)]
    os.kill(pid, signal.SIGCONT)
    print(f"seconds with a suspended worker: {took[-1]:.2f}, then {max(after):.2f}")
    assert took[-1] < WORKER_TIMEOUT + 1
    assert max(after) < 0.5
    until(lambda: all_serving(one_dc))


@pytest.mark.alone
def test_without_any_worker_each_is_listed(one_dc: Cluster) -> None:
    for name in one_dc.workers:
        one_dc.lab.kill(name)
    for _ in range(2):  # at once, and when their silence has been noticed
        answer = ask(one_dc.masters[0], "ASK {}")
        assert answer.status_code == 503
        print(answer.json()["message"])
        _, *lines = answer.json()["message"].split("\n")
        assert [line.split()[0] for line in lines] == ["dc1-w1", "dc1-w2"]
        time.sleep(WORKER_TIMEOUT)
    assert all("is down: last heard" in line for line in lines)
    for name in one_dc.workers:
        one_dc.lab.start(name)
