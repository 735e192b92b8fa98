"""Two data centres and a witness: a majority is left when one of the two is lost, and all of it comes back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.appends import Amiss, Appends
from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, ask, name, nothing_logged, until
from tests.support.clusters.ending import AGAIN_S, ending, nothing_waits, one_view, views
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from tests.support.labs import RunningLab

LAG_S = 3.0
"""`max-peer-lag` here."""
WORKER_LAG_S = 1.0
"""`max-worker-lag` here."""
FULL = ("dc1-m1", "dc2-m1")
WITNESS = "dc3-m1"
LOST = ("broker-dc1", "dc1-w1", "dc1-m1")
"""In the order in which they are started: a master is ready when a worker serves."""


class Full(Cluster):
    """The data centres that take writes."""

    @property
    def masters(self) -> list[str]:
        return [master["url"] for master in self.lab.masters if master["id"] in FULL]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Two full data centres and a witness, that give each other up soon."""
    directory, lag = tmp_path_factory.mktemp("witness") / "lab", {"QUADLOG_MAX_PEER_LAG": str(LAG_S)}
    lag["QUADLOG_MAX_WORKER_LAG"] = str(WORKER_LAG_S)
    with BROKERS.lab(directory, dcs=3, workers=1, read_only=1, environment=lag) as lab:
        yield lab


@pytest.fixture
def lab(running: RunningLab) -> Iterator[Cluster]:
    """In one view; a test that fails leaves no link cut and no process dead."""
    cluster = Cluster(running)
    until(lambda: one_view(cluster, members=3))
    cluster.wait_until_equal()
    yield cluster
    cluster.heal()
    for node in [one for one in LOST if running.states()[one] != "running"]:
        running.start(node)


def is_refused(answer: httpx.Response, cluster: Cluster) -> bool:
    """Definitely, and with the addresses of those that take it."""
    said = answer.json()
    assert (answer.status_code, said["error"], said["definite"]) == (503, "ReadOnly", True)
    seen = {
        peer["id"]: peer["url"] for peer in HTTP.get(f"{cluster.masters[2]}/cluster/peers").json()["peers"]
    }
    return f"send it to {seen[FULL[0]]}, {seen[FULL[1]]}, with" in said["message"]


def test_the_witness_takes_part_and_serves_nobody(lab: Cluster) -> None:
    """Whatever would be logged is refused before it is; what is logged elsewhere it has."""
    url = lab.masters[2]
    assert not [worker for worker in lab.workers if worker.startswith("dc3")]
    with nothing_logged(lab):
        assert is_refused(lab.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=2), lab)
        assert is_refused(
            HTTP.post(f"{url}/repositories/{lab.lab.repository}/statements", content=b"", headers=UPDATE), lab
        )
        assert is_refused(HTTP.put(f"{url}/controls/c", content=b"ASK { }", headers=_QUERY), lab)
        assert is_refused(HTTP.delete(f"{url}/cluster/peers/dc2-m1"), lab)
        assert is_refused(HTTP.post(f"{url}/cluster/seed", content=b"{}"), lab)
        strict = HTTP.get(f"{url}/sparql", params={"query": "ASK { }"}, headers=_STRICT)
        assert is_refused(strict, lab)
    assert ask(url, "ASK { }").status_code == 503
    assert HTTP.get(f"{url}/healthz/alive").status_code == 200
    assert HTTP.get(f"{url}/healthz/ready").status_code == 503
    assert [lab.status(number)["role"] for number in range(3)] == ["read-write", "read-write", "read-only"]
    assert {peer["id"]: peer["role"] for peer in lab.status(0)["peers"]}[WITNESS] == "read-only"
    assert lab.status(2)["view"]["home"] == "dc1"
    time.sleep(2 * WORKER_LAG_S)
    assert not lab.status(2)["alarms"]


_QUERY = {"Content-Type": "application/sparql-query"}
_STRICT = {"Quadlog-Consistency": "strict"}


def test_who_is_left_goes_on_with_the_witness(lab: Cluster) -> None:
    """The data centre that evaluates is lost whole; the other one and the witness are a majority."""
    cluster, running = Full(lab.lab), lab.lab
    appends, began = Appends(cluster), time.monotonic()
    try:
        appends.begin()
        assert {lab.status(number)["view"]["home"] for number in range(3)} == {"dc1"}
        for one in LOST:
            running.kill(one)
        gone = time.monotonic()
        until(lambda: appends.told(1, gone) >= 3, LAG_S + 10)
        print(f"dc2 and the witness go on {time.monotonic() - gone:.1f} s after dc1 was lost")
        left = [lab.status(number) for number in (1, 2)]
        assert [(status["view"]["members"], status["view"]["home"]) for status in left] == [
            (["dc2-m1", WITNESS], "dc2")
        ] * 2
        unknown = HTTP.delete(f"{cluster.masters[1]}/cluster/peers/nobody")
        assert (unknown.status_code, unknown.json()["error"]) == (404, "NoSuchPeer"), (
            "without a majority: 503"
        )

        for one in LOST:
            running.start(one)
        healed = time.monotonic()
        until(lambda: len({members for _, members in views(lab)}) == 1, AGAIN_S)
        print(f"one view {time.monotonic() - healed:.1f} s after it was started again: {views(lab)[0]}")
        until(lambda: appends.told(0, healed) >= 3, AGAIN_S)
    finally:
        appends.stop()
    until(lambda: nothing_waits(lab), AGAIN_S)
    lab.wait_until_equal(seconds=AGAIN_S)
    assert len({HTTP.get(f"{url}/status").json()["signature"] for url in lab.workers.values()}) == 1
    assert len(lab.chains()) == 1
    assert appends.amiss() == Amiss()
    print(f"ended after {time.monotonic() - began:.1f} s")


def test_all_alone_and_together_again(lab: Cluster) -> None:
    """Nobody goes on alone.  The others give way to the witness, whose id is the highest; it is no home for long."""
    appends = Appends(Full(lab.lab))
    try:
        appends.begin()
        for one, other in (("dc1", "dc2"), ("dc1", "dc3"), ("dc2", "dc3")):
            lab.cut(one, other)
        until(lambda: {len(members) for _, members in views(lab)} == {1}, 2 * LAG_S + 5)
        cut = time.monotonic()
        assert lab.status(2)["view"]["home"] == "dc3", "there is nobody else"
        for number in (0, 1):
            answer = lab.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=number)
            assert (answer.status_code, answer.json()["error"]) == (503, "NoMajority"), answer.text
        assert appends.told(0, cut) + appends.told(1, cut) == 0
        lab.heal()
        healed = time.monotonic()
        until(lambda: {lab.status(number)["view"]["home"] for number in range(3)} <= {"dc1", "dc2"}, AGAIN_S)
        print(f"home is {lab.status()['view']['home']} {time.monotonic() - healed:.1f} s after the heal")
        until(lambda: one_view(lab, members=3), AGAIN_S)
        again = time.monotonic()
        until(lambda: appends.told(0, again) >= 3 and appends.told(1, again) >= 3, 20)
        found = ending(lab, appends, healed)
    finally:
        appends.stop()
    assert (len(found.chains), len(found.signatures), found.amiss) == (1, 1, Amiss())
    assert lab.status(2)["view"]["home"] != "dc3"
