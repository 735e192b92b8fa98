"""Two masters over the same workers in each data centre: clients use either, either may die."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import HTTP, Cluster, name, objects, records, recount, until
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx import Response

HEALTH = ("agreed_index", "agreed_chain", "settled_index", "incoming", "view")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_lab(tmp_path_factory.mktemp("masters") / "lab", dcs=2, masters=2, workers=1) as lab:
        yield Cluster(lab)


def at(cluster: Cluster, master: str) -> int:
    return [found["id"] for found in cluster.lab.masters].index(master)


def leaders(cluster: Cluster) -> list[str]:
    """Who says that it leads, of those that answer."""
    states = cluster.lab.states()
    found = [master for master in cluster.lab.masters if "exited" not in states[master["id"]]]
    return [master["id"] for master in found if HTTP.get(f"{master['url']}/cluster/status").json()["leads"]]


def test_clients_use_either_master_and_see_the_same_health(cluster: Cluster) -> None:
    subject = name()
    for number in range(8):
        answer = cluster.update(f"INSERT DATA {{ {subject} <urn:p> {number} }}", master=number % 4)
        assert answer.status_code == 204, answer.text
        assert len(objects(cluster.masters[number % 4], subject)) == number + 1, "its own write is read there"
    cluster.wait_until_equal()
    until(lambda: len({str([cluster.status(m)[key] for key in HEALTH]) for m in range(4)}) == 1)
    for first, second in ((0, 1), (2, 3)):
        seen = [
            {(w["id"], w["state"], w["applied_index"], w["evaluating"]) for w in cluster.status(m)["workers"]}
            for m in (first, second)
        ]
        assert seen[0] == seen[1]
        assert [HTTP.get(f"{cluster.masters[m]}/healthz/ready").status_code for m in (first, second)] == [
            200,
            200,
        ]
    assert leaders(cluster) == ["dc1-m1", "dc2-m1"], "the lowest id of each data centre"


@pytest.mark.parametrize("victim", ["dc1-m1", "dc2-m1", "dc1-m2"])
def test_either_may_die(cluster: Cluster, victim: str) -> None:
    """Until views change, writes wait for it; then each is there once, whoever led meanwhile."""
    other = victim[:-1] + ("2" if victim.endswith("1") else "1")
    before = cluster.wait_until_equal()
    cluster.lab.kill(victim)
    until(lambda: other in leaders(cluster))
    subject = name()
    alive = [m for m in range(4) if m != at(cluster, victim)]

    def write(master: int) -> Response:
        return cluster.update(f"INSERT DATA {{ {subject} <urn:p> {master} }}", master=master)

    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(write, master) for master in alive]
        time.sleep(1)
        assert objects(cluster.masters[at(cluster, other)], subject) == [], "reads go on"
        cluster.lab.start(victim)
        assert [answer.result().status_code for answer in answers] == [204, 204, 204]
    assert cluster.wait_until_equal() == before + len(alive)
    for worker in cluster.workers.values():
        assert objects(worker, subject) == sorted(map(str, alive))
    until(lambda: leaders(cluster) == ["dc1-m1", "dc2-m1"])


def test_a_suspended_leader_that_wakes_up_does_no_harm(cluster: Cluster) -> None:
    """It was passed over; both write for a moment, and consumers take the first of each."""
    cluster.wait_until_equal()
    subject = name()
    with ThreadPoolExecutor(32) as pool:
        answers = [
            pool.submit(cluster.update, f"INSERT DATA {{ {subject} <urn:p> {n} }}", master=1 + n % 3)
            for n in range(60)
        ]
        time.sleep(0.1)
        cluster.lab.kill("dc1-m1", "STOP")
        time.sleep(4)
        cluster.lab.kill("dc1-m1", "CONT")
        assert {answer.result().status_code for answer in answers} == {204}
    cluster.wait_until_equal()
    for worker in cluster.workers.values():
        signature, _ = recount(worker)
        assert HTTP.get(f"{worker}/status").json()["signature"] == signature
        assert len(objects(worker, subject)) == 60


def test_one_of_them_copies_what_the_peers_say(cluster: Cluster) -> None:
    """Not each of them: a payload and an effect stand once in every data centre's topics, but for take-overs."""
    for number in range(40):
        cluster.update(f"INSERT DATA {{ {name()} <urn:p> {number} }}", master=number % 4)
    cluster.wait_until_equal()
    for dc in cluster.lab.dcs:
        for topic in ("payloads", "agreed", "effects"):
            keys = [record.key() for record in records(dc["kafka"], f"main.{dc['name']}.{topic}")][-30:]
            assert Counter(keys).most_common(1)[0][1] == 1, f"{topic} of {dc['name']}: {keys}"
