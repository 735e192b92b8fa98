"""A worker that was away takes what it lacks as one change, and goes on with the others."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyoxigraph import Literal, NamedNode, Quad, Store

from quadlog.broker import end_of
from tests.e2e.cluster import HTTP, Cluster, ask, counted, evaluating, recount, until
from tests.e2e.test_controls import put
from tests.e2e.trouble import logged
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.alone

AWAY = 200
"""Updates while it is away."""


TAKEN = {"incremental": "worker serves", "compacted": "took a bundle", "full": "took a copy"}
HUNG_S = 3.0
"""After which a worker that says nothing and does not answer is told to hang: `worker-timeout`, and a knock."""
UPDATES_S, READS_S = 50, 20
"""That go on meanwhile."""


@contextmanager
def served(cluster: Cluster) -> Iterator[list[float]]:
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

    acts = [(update, UPDATES_S / 5)] * 5 + [(read, READS_S / 2)] * 2
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
    assert rate > (UPDATES_S + READS_S) / 2, "there was no such load"


@pytest.mark.parametrize(
    "way", ["incremental", *(pytest.param(way, marks=pytest.mark.soak) for way in ("compacted", "full"))]
)
def test_clients_notice_nothing(way: str, tmp_path: Path) -> None:
    with running_lab(tmp_path / "lab", dcs=1, workers=3) as lab:
        cluster = Cluster(lab)
        away = one_goes_away(cluster)
        for number in range(AWAY):
            cluster.update(
                f"DELETE WHERE {{ <urn:s> <urn:p> ?o }} ; INSERT DATA {{ <urn:s> <urn:p> {number} }}"
            )
        with served(cluster):
            lab.start(away, QUADLOG_CATCH_UP=way)
            time.sleep(3)
        assert logged(cluster, f"way={way}", away) == 1
        assert logged(
            cluster,
            {"incremental": "worker serves", "compacted": "took a bundle", "full": "took a copy"}[way],
            away,
        )
        cluster.wait_until_equal()
        assert len({recount(url)[0] for url in cluster.workers.values()}) == 1


def one_goes_away(cluster: Cluster) -> str:
    """A worker that does not evaluate, after one update that all have."""
    cluster.update("INSERT DATA { <urn:s> <urn:p> 0 . GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
    cluster.wait_until_equal()
    away = next(name for name in cluster.workers if name != evaluating(cluster))
    cluster.lab.kill(away)
    return away


def test_a_worker_that_was_away_takes_a_bundle(tmp_path: Path) -> None:
    """Quads, graphs, a control and a rejected entry; it can evaluate afterwards, and holds the control then."""
    with running_lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        away = one_goes_away(cluster)
        assert put(cluster, "one", "ASK { FILTER NOT EXISTS { <urn:no> ?p ?o } }").status_code < 300
        for number in range(AWAY):
            cluster.update(
                f"DELETE WHERE {{ <urn:s> <urn:p> ?o }} ; INSERT DATA {{ <urn:s> <urn:p> {number} }}"
            )
        assert cluster.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409
        cluster.update("DROP GRAPH <urn:g> ; CREATE GRAPH <urn:empty>")
        with served(cluster):
            lab.start(away, QUADLOG_CATCH_UP="compacted")
        assert logged(cluster, "took a bundle", away) == 1
        cluster.wait_until_equal()
        signatures = {recount(url)[0] for url in cluster.workers.values()}
        assert len(signatures) == 1
        lab.kill(evaluating(cluster))
        until(lambda: evaluating(cluster) == away)
        assert cluster.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409
        assert cluster.update("INSERT DATA { <urn:yes> <urn:p> 1 }").status_code == 204


def delete_records(kafka: str, *topics: str) -> None:
    """As an operator does who needs space: all that is there now."""
    admin = AdminClient({"bootstrap.servers": kafka})
    ends = [TopicPartition(topic, 0, end_of(kafka, topic, count=0)[0]) for topic in topics]
    for done in admin.delete_records(ends).values():
        done.result()


def test_a_worker_that_the_log_does_not_go_back_to_is_copied(tmp_path: Path) -> None:
    """And one without a store, too; both go on, with the control that was set."""
    with running_lab(tmp_path / "lab", dcs=1, workers=3) as lab:
        cluster = Cluster(lab)
        assert put(cluster, "one", "ASK { FILTER NOT EXISTS { <urn:no> ?p ?o } }").status_code < 300
        cluster.wait_until_equal()
        evaluator = evaluating(cluster)
        away, lost = (name for name in cluster.workers if name != evaluator)
        lab.kill(away)
        lab.kill(lost)
        for number in range(50):
            cluster.update(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
        url = cluster.workers[evaluator]
        until(lambda: counted(url, "<urn:s> ?p ?o") == 50)
        delete_records(lab.dcs[0]["kafka"], "main.dc1.agreed", "main.dc1.effects")
        shutil.rmtree(lab.directory / "nodes" / lost / "data" / "quads")
        with served(cluster):
            for worker in (away, lost):
                lab.start(worker)
                assert logged(cluster, "Replicating (out of sync)", worker) == 1
                assert logged(cluster, "took a copy", worker) == 1
        cluster.wait_until_equal()
        assert len({recount(url)[0] for url in cluster.workers.values()}) == 1
        for worker in (away, lost):
            found = HTTP.get(f"{cluster.workers[worker]}/controls").json()["controls"]
            assert [control["name"] for control in found] == ["one"]


def test_a_worker_that_is_wrong_is_rebuilt_by_a_copy(tmp_path: Path) -> None:
    """Where the log has no beginning any more: a quad was changed behind its back, and its scrub finds that."""
    often = {"QUADLOG_SCRUB_PERIOD": "1", "QUADLOG_SCRUB_SHARE": "1"}
    with running_lab(tmp_path / "lab", dcs=1, workers=2, environment=often) as lab:
        cluster = Cluster(lab)
        wrong = one_goes_away(cluster)
        lab.start(wrong)
        for number in range(20):
            cluster.update(f"INSERT DATA {{ <urn:s> <urn:q> {number} }}")
        cluster.wait_until_equal()
        lab.kill(wrong, "TERM")
        delete_records(lab.dcs[0]["kafka"], "main.dc1.agreed", "main.dc1.effects")
        files = Store(lab.directory / "nodes" / wrong / "data" / "quads" / "quads")
        files.add(Quad(NamedNode("urn:s"), NamedNode("urn:q"), Literal("not agreed")))
        files.flush()
        del files
        lab.start(wrong)
        until(lambda: logged(cluster, "took a copy", wrong), 30)
        until(lambda: not [one for one in cluster.status()["alarms"] if one["worker"]], 30)
        assert cluster.update("INSERT DATA { <urn:s> <urn:q> 20 }").status_code == 204
        cluster.wait_until_equal()
        assert len({recount(url)[0] for url in cluster.workers.values()}) == 1
        assert logged(cluster, "worker-damaged") == 2


def told_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """What a master knows of a worker."""
    told: dict[str, Any] = next(one for one in cluster.status()["workers"] if one["id"] == name)
    return told


def test_where_nobody_can_give_a_copy_it_waits(tmp_path: Path) -> None:
    """The only worker that has the log is not there: the other one says so, waits for it, and has it afterwards."""
    with running_lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        away, evaluator = one_goes_away(cluster), evaluating(cluster)
        cluster.update("INSERT DATA { <urn:s> <urn:p> 1 }")
        until(lambda: counted(cluster.workers[evaluator], "<urn:s> ?p ?o") == 2)
        delete_records(lab.dcs[0]["kafka"], "main.dc1.agreed", "main.dc1.effects")
        lab.kill(evaluator)
        starting = threading.Thread(target=lab.start, args=(away,))
        starting.start()
        until(lambda: logged(cluster, "no worker of this data centre gives a copy", away))
        until(lambda: "none is there" in (told_of(cluster, away)["catching_up"] or {}).get("obstacle", ""))
        assert told_of(cluster, away)["state"] == "catching up"
        answer = HTTP.get(f"{cluster.workers[away]}/status")
        assert (answer.status_code, answer.json()["state"]) == (503, "catching up")
        time.sleep(2 * HUNG_S)
        assert {
            alarm["worker"] for alarm in cluster.status()["alarms"] if alarm["name"] == "worker-hung"
        } == set()
        lab.start(evaluator)
        starting.join()
        assert logged(cluster, "took a copy", away) == 1
        assert cluster.update("INSERT DATA { <urn:s> <urn:p> 2 }").status_code == 204
        cluster.wait_until_equal()


def test_the_faster_way_is_a_copy(tmp_path: Path) -> None:
    """To a worker that took ten seconds for an effect the last time; and once more when it has lost its store."""
    with running_lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        away = one_goes_away(cluster)
        data = lab.directory / "nodes" / away / "data"
        for words in ("Replicating (catch up)", "Replicating (empty)"):
            cluster.update(f'INSERT DATA {{ <urn:s> <urn:p> "{words}" }}')
            (data / "rates.json").write_text('{"incremental": 0.1}')
            lab.start(away, QUADLOG_MIN_TIME_TO_CONSIDER_FULL_REPLICATION="5")
            assert logged(cluster, words, away) == 1
            cluster.wait_until_equal()
            lab.kill(away)
            shutil.rmtree(data / "quads")


def test_where_none_can_be_made_the_log_is_heard(tmp_path: Path) -> None:
    """No Spark at that address: the worker says so, and catches up effect by effect."""
    with running_lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        away = one_goes_away(cluster)
        cluster.update("INSERT DATA { <urn:s> <urn:p> 1 }")
        lab.start(away, QUADLOG_CATCH_UP="compacted", QUADLOG_SPARK_MASTER="nonsense")
        assert logged(cluster, "the log is heard from where the store is", away) == 1
        cluster.wait_until_equal()
