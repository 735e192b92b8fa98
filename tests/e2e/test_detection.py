"""Trouble with workers is told within seconds, without any update, and mended; reads go on all the while."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from quadlog.quadstore.applied import Applied
from tests.support.clusters.cluster import HTTP, Cluster, objects, recount, until
from tests.support.clusters.trouble import alarms, logged, reads_served, told
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One data centre that scrubs each second, and writes a few entries."""
    with BROKERS.lab(
        tmp_path_factory.mktemp("detection") / "lab",
        dcs=1,
        workers=2,
        environment={"QUADLOG_SCRUB_PERIOD": "1", "QUADLOG_SCRUB_SHARE": "1"},
    ) as running:
        cluster = Cluster(running)
        for number in range(20):
            answer = cluster.update(f"INSERT DATA {{ <urn:s{number}> <urn:p> {number} }}")
            assert answer.status_code == 204, answer.text
        cluster.wait_until_equal()
        yield cluster


def test_killed(lab: Cluster) -> None:
    told(lab)
    before = lab.status()["settled_index"]
    with reads_served(lab):
        lab.lab.kill("dc1-w2")
        [alarm] = told(lab, "worker-dead dc1-w2")
        assert alarm["index"] == before
        assert "start it again" in alarm["what_to_do"]
        lab.lab.start("dc1-w2")
        told(lab)


def test_suspended(lab: Cluster) -> None:
    told(lab)
    with reads_served(lab):
        lab.lab.kill("dc1-w2", "STOP")
        [alarm] = told(lab, "worker-hung dc1-w2")
        time.sleep(1)
        assert told(lab, "worker-hung dc1-w2")[0]["since"] == alarm["since"]
        lab.lab.kill("dc1-w2", "CONT")
        told(lab)


def test_stopped(lab: Cluster) -> None:
    told(lab)
    before = lab.status()["settled_index"]
    with reads_served(lab):
        lab.lab.kill("dc1-w2", "TERM")
        [alarm] = told(lab, "worker-stopped dc1-w2")
        assert alarm["index"] == before
        assert alarm["reason"] == "it said that it stops"
        lab.lab.start("dc1-w2")
        told(lab)


def store_of(lab: Cluster, worker: str) -> Path:
    return lab.lab.directory / "nodes" / worker / "data" / "quads" / "quads"


def damages(lab: Cluster) -> list[int]:
    """How often it was told, and how often it was over."""
    return [logged(lab, event, alarm="worker-damaged") for event in ("alarm_raised", "alarm_ended")]


@pytest.mark.parametrize("victim", ["dc1-w2", "dc1-w1"])
def test_one_quad_changed_in_a_stopped_workers_store(lab: Cluster, victim: str) -> None:
    """One of the two evaluates: so both."""
    told(lab)
    index = lab.wait_until_equal()
    before, count = HTTP.get(f"{lab.workers[victim]}/status").json(), damages(lab)
    with reads_served(lab):
        lab.lab.kill(victim, "TERM")
        files = Store(store_of(lab, victim))
        files.remove(Quad(NamedNode("urn:s7"), NamedNode("urn:p"), Literal(7)))
        files.add(Quad(NamedNode("urn:s7"), NamedNode("urn:p"), Literal(8)))
        files.flush()
        del files
        lab.lab.start(victim)
        assert HTTP.get(f"{lab.workers[victim]}/status").json()["signature"] == before["signature"]
        [alarm] = told(lab, f"worker-damaged {victim}", seconds=10)
        assert alarm["index"] >= index
        assert alarm["transaction"] is not None
        assert "rebuilt" in alarm["what_to_do"]
        told(lab, seconds=20)
    after = HTTP.get(f"{lab.workers[victim]}/status").json()
    assert after["store"] != before["store"]
    lab.wait_until_equal()
    assert recount(lab.workers[victim])[0] == before["signature"]
    assert damages(lab) == [number + 1 for number in count]


def check_that_the_commands_name_it(lab: Cluster, victim: str) -> None:
    """From outside, and which entry touched it last."""
    master, kafka = lab.masters[0], lab.lab.dcs[0]["kafka"]
    lab.wait_until_equal()  # what the workers say of themselves is equal all the time
    wrong, right = (
        quadlog("verify", worker, "--master", master) for worker in (victim, lab.workers["dc1-w1"])
    )
    assert (wrong.returncode, right.returncode) == (1, 0), wrong.stdout + wrong.stderr + right.stderr
    assert f"{victim} DIFFERENT" in wrong.stdout
    assert "dc1-w1 DIFFERENT" in wrong.stdout
    assert "the same of itself" in right.stdout
    effects = ["--kafka", kafka, "--topic", lab.lab.topic("dc1", "effects")]
    named = quadlog("diff", "dc1-w1", victim, "--master", master, *effects)
    assert named.returncode == 1, named.stderr
    lines = named.stdout.splitlines()
    assert lines[0].startswith(f'only at {victim}: <urn:s7> <urn:p> "9"')
    assert "no effect among the last" in lines[1]
    assert lines[-1].endswith(": 1 quads differ")


def test_the_commands_while_writes_go_on(lab: Cluster) -> None:
    """Equal workers are equal at any index; dumps of two different ones are not taken for a difference."""
    told(lab)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.wait(0.03):
            number += 1
            assert lab.update(f"INSERT DATA {{ <urn:w{number}> <urn:p> {number} }}").status_code == 204
            # What is evaluated ahead stands in the store for a moment: neither dump nor scrub may see it.
            swap = (
                "DELETE { ?s <urn:n> ?n } INSERT { <urn:c> <urn:n> ?next } WHERE { OPTIONAL { ?s <urn:n> ?n }"
            )
            swap += f" BIND({number} AS ?next) }}"
            assert lab.update(f"{swap} ; {swap}").status_code == 204

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(2):
            compared = quadlog("diff", "dc1-w1", "dc1-w2", "--master", lab.masters[0])
            assert compared.returncode == 0, compared.stdout + compared.stderr
            verified = quadlog("verify", lab.workers["dc1-w2"])
            assert verified.returncode == 0, verified.stdout + verified.stderr
    finally:
        stop.set()
        thread.join()
    lab.wait_until_equal()
    told(lab)
    scrubs = logged(lab, "scrub_passed", "dc1-w1")
    assert scrubs > 5
    assert logged(lab, "scrub_mismatch_found", "dc1-w1") <= 1  # the one that a test here made


def test_one_whose_applied_state_is_not_the_logs(lab: Cluster) -> None:
    """It contradicts the effect with its first heartbeat, without any update."""
    told(lab)
    victim, index = "dc1-w2", lab.wait_until_equal()
    lab.lab.kill(victim, "TERM")
    files = Store(store_of(lab, victim))
    [old] = files.quads_for_pattern(None, NamedNode("urn:quadlog:applied"), None)
    assert isinstance(old.object, Literal)
    lie = replace(Applied.decode(old.object.value), signature=7)
    files.remove(old)
    files.add(Quad(old.subject, old.predicate, Literal(lie.encode()), old.graph_name))
    files.flush()
    del files
    with reads_served(lab):
        lab.lab.start(victim, QUADLOG_REBUILD_PAUSE="0")
        [alarm] = told(lab, f"worker-diverged {victim}")
        assert alarm["index"] == index
        told(lab, seconds=20)
    assert lab.wait_until_equal() == index


def test_a_second_time_within_the_hour_it_is_only_told(lab: Cluster) -> None:
    told(lab)
    victim = "dc1-w2"
    lab.lab.kill(victim, "TERM")
    files = Store(store_of(lab, victim))
    files.add(Quad(NamedNode("urn:s7"), NamedNode("urn:p"), Literal(9)))
    files.flush()
    del files
    lab.lab.start(victim)
    with reads_served(lab):
        told(lab, f"worker-damaged {victim}", seconds=10)
        deadline = time.monotonic() + 5
        while "once in 3600 s" not in alarms(lab)[0]["what_to_do"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        # It follows the log all the while, and shows nobody what it holds; of two the other one takes no writes.
        before = lab.status()["agreed_index"]
        answer = lab.update("INSERT DATA { <urn:s20> <urn:p> 20 }")
        assert (answer.status_code, answer.json()["error"]) == (503, "WriteProtected")
        assert answer.json()["definite"]
        assert int(answer.headers["Retry-After"]) > 0
        assert (lab.status()["write_protected"], lab.status()["agreed_index"]) == (victim, before)
        strict = {"Quadlog-Consistency": "strict"}
        asked = HTTP.get(f"{lab.masters[0]}/sparql", params={"query": "ASK { }"}, headers=strict)
        assert asked.status_code == 200
        until(lambda: {worker["applied_index"] for worker in lab.status()["workers"]} == {before + 1})
        states = {worker["id"]: worker["state"] for worker in lab.status()["workers"]}
        assert states == {"dc1-w1": "serving", victim: "quarantined"}
        assert [objects(lab.masters[0], "<urn:s7>") for _ in range(10)] == [["7"]] * 10
        check_that_the_commands_name_it(lab, victim)
    lab.lab.kill(victim, "TERM")
    lab.lab.start(victim, QUADLOG_REBUILD_PAUSE="0")
    told(lab, seconds=30)
    assert lab.status()["write_protected"] is None
    assert lab.update("INSERT DATA { <urn:s20> <urn:p> 20 }").status_code == 204
    lab.wait_until_equal()
