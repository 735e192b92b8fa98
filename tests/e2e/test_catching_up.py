"""A worker that was away takes what it lacks as one change, and goes on with the others."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from tests.support.clusters.away import delete_records, one_goes_away, told_of
from tests.support.clusters.cluster import HTTP, Cluster, ask, counted, evaluating, recount, until
from tests.support.clusters.controls import delete, listed, put
from tests.support.clusters.many import update_all
from tests.support.clusters.trouble import logged
from tests.support.labs import QUICK_JAVA
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.labs import RunningLab

AWAY = 200
"""Updates while it is away."""


TAKEN = {"incremental": "worker_started", "compacted": "bundle_taken", "full": "copy_taken"}
HUNG_S = 3.0
"""After which a worker that says nothing and does not answer is told to hang: `worker-timeout`, and a knock."""
UPDATES_S, READS_S = 20, 10
"""That go on meanwhile."""
MUCH = 2.5
"""Times as many, in the long versions."""
SERVED_S = 2.0
"""And for so long after the worker is back."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """One data centre; Java is Spark's here."""
    directory = tmp_path_factory.mktemp("catching-up") / "lab"
    with BROKERS.lab(directory, dcs=1, workers=3, environment=QUICK_JAVA) as running:
        yield running


@pytest.fixture
def trio(running: RunningLab) -> Cluster:
    """Three workers that are there, right, and equal."""
    cluster = Cluster(running)
    assert set(running.states().values()) == {"running"}
    until(lambda: no_worker_alarms(cluster))
    cluster.wait_until_equal()
    assert cluster.update("DROP ALL").status_code == 204
    if "one" in listed(cluster):
        assert delete(cluster, "one").status_code == 204
    cluster.wait_until_equal()
    cluster.log_ends = {log.stem: log.stat().st_size for log in (running.directory / "logs").glob("*.log")}
    return cluster


def no_worker_alarms(cluster: Cluster) -> bool:
    return not any(alarm["worker"] for alarm in cluster.status()["alarms"])


def set_one(number: int) -> str:
    """An update that leaves as many quads as there were."""
    return f"DELETE WHERE {{ <urn:s> <urn:p> ?o }} ; INSERT DATA {{ <urn:s> <urn:p> {number} }}"


@contextmanager
def served(cluster: Cluster, *, times: float = 1) -> Iterator[list[float]]:
    """So many updates and reads a second, without one that fails; how long each took."""
    took: list[float] = []
    ended = threading.Event()
    numbers = itertools.count()

    def update() -> None:
        answer = cluster.update(f"INSERT DATA {{ <urn:beside> <urn:p> {next(numbers)} }}")
        assert answer.is_success, answer.text

    def read() -> None:
        answer = ask(cluster.masters[0], "ASK { ?s ?p ?o }")
        assert answer.is_success, answer.text

    def paced(act: Callable[[], None], per_s: float) -> None:
        due = time.monotonic()
        while not ended.wait(max(0.0, due - time.monotonic())):
            began, due = time.monotonic(), due + 1 / per_s
            act()
            took.append(time.monotonic() - began)

    acts = [(update, times * UPDATES_S / 5)] * 5 + [(read, times * READS_S / 2)] * 2
    began = time.monotonic()
    with ThreadPoolExecutor(len(acts)) as pool:
        futures = [pool.submit(paced, act, per_s) for act, per_s in acts]
        try:
            yield took
        finally:
            ended.set()
    for future in futures:
        future.result()
    rate = len(took) / (time.monotonic() - began)
    print(f"{len(took)} updates and reads beside, {rate:.0f} a second, the longest {max(took):.2f} s")
    assert rate > times * (UPDATES_S + READS_S) / 2, "there was no such load"


# Those that need the log from its beginning come first.


def test_the_faster_way_is_a_copy(trio: Cluster) -> None:
    """To a worker that took ten seconds for an effect the last time; and once more when it has lost its store."""
    away = one_goes_away(trio)
    data = trio.lab.directory / "nodes" / away / "data"
    for cause in ("catch_up", "empty"):
        trio.update(f'INSERT DATA {{ <urn:s> <urn:p> "{cause}" }}')
        (data / "rates.json").write_text('{"incremental": 0.1}')
        trio.lab.start(away, QUADLOG_MIN_TIME_TO_CONSIDER_FULL_REPLICATION="5")
        assert logged(trio, "full_replication_started", away, cause=cause) == 1
        trio.wait_until_equal()
        trio.lab.kill(away)
        shutil.rmtree(data / "quads")
    trio.lab.start(away)


@pytest.mark.parametrize(
    ("way", "times"),
    [("incremental", 1), *(pytest.param(way, MUCH, marks=pytest.mark.soak) for way in TAKEN)],
)
def test_clients_notice_nothing(trio: Cluster, way: str, times: float) -> None:
    away = one_goes_away(trio)
    update_all(trio, (set_one(number) for number in range(AWAY)))
    with served(trio, times=times):
        trio.lab.start(away, QUADLOG_CATCH_UP=way)
        time.sleep(SERVED_S)
    assert logged(trio, "catch_up_started", away, way=way) == 1
    assert logged(trio, TAKEN[way], away)
    trio.wait_until_equal()
    assert len({recount(url)[0] for url in trio.workers.values()}) == 1


def test_where_none_can_be_made_the_log_is_heard(trio: Cluster) -> None:
    """No Spark at that address: the worker says so, and catches up effect by effect."""
    away = one_goes_away(trio)
    trio.update("INSERT DATA { <urn:s> <urn:p> 1 }")
    trio.lab.start(away, QUADLOG_CATCH_UP="compacted", QUADLOG_SPARK_MASTER="nonsense")
    assert logged(trio, "catch_up_failed", away) == 1
    trio.wait_until_equal()


@pytest.mark.long("a run of Spark")
def test_a_worker_that_was_away_takes_a_bundle(trio: Cluster) -> None:
    """Quads, graphs, a control and a rejected entry; it can evaluate afterwards, and holds the control then."""
    away = one_goes_away(trio)
    assert put(trio, "one", "ASK { FILTER NOT EXISTS { <urn:no> ?p ?o } }").status_code < 300
    update_all(trio, (set_one(number) for number in range(AWAY)))
    assert trio.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409
    trio.update("DROP GRAPH <urn:g> ; CREATE GRAPH <urn:empty>")
    with served(trio):
        trio.lab.start(away, QUADLOG_CATCH_UP="compacted")
    assert logged(trio, "bundle_taken", away) == 1
    trio.wait_until_equal()
    signatures = {recount(url)[0] for url in trio.workers.values()}
    assert len(signatures) == 1
    others = [worker for worker in trio.workers if worker != away]
    for worker in others:
        trio.lab.kill(worker)
    until(lambda: evaluating(trio) == away)
    assert trio.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409
    assert trio.update("INSERT DATA { <urn:yes> <urn:p> 1 }").status_code == 204
    start_all(trio, others)


def start_all(cluster: Cluster, workers: Sequence[str]) -> None:
    """At once."""
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(cluster.lab.start, workers))


def test_a_worker_that_the_log_does_not_go_back_to_is_copied(trio: Cluster) -> None:
    """And one without a store, too; both go on, with the control that was set."""
    lab = trio.lab
    assert put(trio, "one", "ASK { FILTER NOT EXISTS { <urn:no> ?p ?o } }").status_code < 300
    trio.wait_until_equal()
    evaluator = evaluating(trio)
    away, lost = (name for name in trio.workers if name != evaluator)
    lab.kill(away)
    lab.kill(lost)
    update_all(trio, (f"INSERT DATA {{ <urn:s> <urn:p> {number} }}" for number in range(50)))
    url = trio.workers[evaluator]
    until(lambda: counted(url, "<urn:s> ?p ?o") == 50)
    delete_records(lab.dcs[0]["kafka"], lab.topic("dc1", "agreed"), lab.topic("dc1", "effects"))
    shutil.rmtree(lab.directory / "nodes" / lost / "data" / "quads")
    with served(trio):
        for worker in (away, lost):
            lab.start(worker)
            assert logged(trio, "full_replication_started", worker, cause="out_of_sync") == 1
            assert logged(trio, "copy_taken", worker) == 1
    trio.wait_until_equal()
    assert len({recount(url)[0] for url in trio.workers.values()}) == 1
    for worker in (away, lost):
        found = HTTP.get(f"{trio.workers[worker]}/controls").json()["controls"]
        assert [control["name"] for control in found] == ["one"]


def test_a_worker_that_is_wrong_is_rebuilt_by_a_copy(trio: Cluster) -> None:
    """Where the log has no beginning any more: a quad was changed behind its back, and its scrub finds that."""
    lab, wrong = trio.lab, one_goes_away(trio)
    lab.start(wrong)
    update_all(trio, (f"INSERT DATA {{ <urn:s> <urn:q> {number} }}" for number in range(20)))
    trio.wait_until_equal()
    lab.kill(wrong, "TERM")
    delete_records(lab.dcs[0]["kafka"], lab.topic("dc1", "agreed"), lab.topic("dc1", "effects"))
    files = Store(lab.directory / "nodes" / wrong / "data" / "quads" / "quads")
    files.add(Quad(NamedNode("urn:s"), NamedNode("urn:q"), Literal("not agreed")))
    files.flush()
    del files
    lab.start(wrong, QUADLOG_SCRUB_PERIOD="1", QUADLOG_SCRUB_SHARE="1")
    until(lambda: logged(trio, "copy_taken", wrong), 30)
    until(lambda: no_worker_alarms(trio), 30)
    assert trio.update("INSERT DATA { <urn:s> <urn:q> 20 }").status_code == 204
    trio.wait_until_equal()
    assert len({recount(url)[0] for url in trio.workers.values()}) == 1
    for event in ("alarm_raised", "alarm_ended"):
        assert logged(trio, event, alarm="worker-damaged") == 1


@pytest.mark.long("a worker waits between its questions")
def test_where_nobody_can_give_a_copy_it_waits(trio: Cluster) -> None:
    """No worker that has the log is there: the other one says so, waits for them, and has it afterwards."""
    lab = trio.lab
    away = one_goes_away(trio)
    others = [worker for worker in trio.workers if worker != away]
    trio.update("INSERT DATA { <urn:s> <urn:p> 1 }")
    for worker in others:
        until(partial(lambda url: counted(url, "<urn:s> ?p ?o") == 2, trio.workers[worker]))
    delete_records(lab.dcs[0]["kafka"], lab.topic("dc1", "agreed"), lab.topic("dc1", "effects"))
    evaluator = evaluating(trio)
    for worker in others:
        lab.kill(worker, "KILL" if worker == evaluator else "TERM")
    starting = threading.Thread(target=lab.start, args=(away,))
    starting.start()
    until(lambda: logged(trio, "full_replication_failed", away))
    until(lambda: "none is there" in (told_of(trio, away)["catching_up"] or {}).get("obstacle", ""))
    assert told_of(trio, away)["state"] == "catching up"
    answer = HTTP.get(f"{trio.workers[away]}/status")
    assert (answer.status_code, answer.json()["state"]) == (503, "catching up")
    time.sleep(2 * HUNG_S)
    assert {alarm["worker"] for alarm in trio.status()["alarms"] if alarm["name"] == "worker-hung"} == set()
    start_all(trio, others)
    starting.join()
    assert logged(trio, "copy_taken", away) == 1
    assert trio.update("INSERT DATA { <urn:s> <urn:p> 2 }").status_code == 204
    trio.wait_until_equal()
