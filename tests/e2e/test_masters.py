"""Two masters over the same workers in each data centre: clients use either, either may die.

And what a data centre has when it comes back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, name, objects, records, recount, until
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEALTH = ("agreed_index", "agreed_chain", "settled_index", "incoming", "view")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BROKERS.lab(tmp_path_factory.mktemp("masters") / "lab", dcs=2, masters=2, workers=1) as lab:
        yield Cluster(lab)


def at(cluster: Cluster, master: str) -> int:
    return [found["id"] for found in cluster.lab.masters].index(master)


def leaders(cluster: Cluster) -> list[str]:
    """Who says that it leads, of those that answer."""
    states = cluster.lab.states()
    found = [master for master in cluster.lab.masters if "exited" not in states[master["id"]]]
    return [master["id"] for master in found if HTTP.get(f"{master['url']}/cluster/status").json()["leads"]]


def test_clients_use_either_master_and_see_the_same_health(pairs: Cluster) -> None:
    subject = name()
    for number in range(8):
        answer = pairs.update(f"INSERT DATA {{ {subject} <urn:p> {number} }}", master=number % 4)
        assert answer.status_code == 204, answer.text
        assert len(objects(pairs.masters[number % 4], subject)) == number + 1, "its own write is read there"
    pairs.wait_until_equal()
    until(lambda: len({str([pairs.status(m)[key] for key in HEALTH]) for m in range(4)}) == 1)
    for first, second in ((0, 1), (2, 3)):
        seen = [
            {(w["id"], w["state"], w["applied_index"], w["evaluating"]) for w in pairs.status(m)["workers"]}
            for m in (first, second)
        ]
        assert seen[0] == seen[1]
        assert [HTTP.get(f"{pairs.masters[m]}/healthz/ready").status_code for m in (first, second)] == [
            200,
            200,
        ]
    assert leaders(pairs) == ["dc1-m1", "dc2-m1"], "the lowest id of each data centre"


@pytest.mark.parametrize("victim", ["dc1-m1", pytest.param("dc2-m1", marks=pytest.mark.soak), "dc1-m2"])
def test_either_may_die(pairs: Cluster, victim: str) -> None:
    """Until views change, writes wait for it; then each is there once, whoever led meanwhile.

    Who leads where the home is, and who stands by; in the soak who leads elsewhere, too.
    """
    other = victim[:-1] + ("2" if victim.endswith("1") else "1")
    before = pairs.wait_until_equal()
    pairs.lab.kill(victim)
    until(lambda: other in leaders(pairs))
    subject = name()
    alive = [m for m in range(4) if m != at(pairs, victim)]

    def write(master: int) -> httpx.Response:
        return pairs.update(f"INSERT DATA {{ {subject} <urn:p> {master} }}", master=master)

    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(write, master) for master in alive]
        time.sleep(1)
        assert objects(pairs.masters[at(pairs, other)], subject) == [], "reads go on"
        pairs.lab.start(victim)
        assert [answer.result().status_code for answer in answers] == [204, 204, 204]
    assert pairs.wait_until_equal() == before + len(alive)
    for worker in pairs.workers.values():
        assert objects(worker, subject) == sorted(map(str, alive))
    until(lambda: leaders(pairs) == ["dc1-m1", "dc2-m1"])


def test_a_suspended_leader_that_wakes_up_does_no_harm(pairs: Cluster) -> None:
    """It was passed over; both write for a moment, and consumers take the first of each."""
    pairs.wait_until_equal()
    subject = name()
    with ThreadPoolExecutor(32) as pool:
        answers = [
            pool.submit(pairs.update, f"INSERT DATA {{ {subject} <urn:p> {n} }}", master=1 + n % 3)
            for n in range(60)
        ]
        time.sleep(0.1)
        pairs.lab.kill("dc1-m1", "STOP")
        time.sleep(2)
        pairs.lab.kill("dc1-m1", "CONT")
        assert {answer.result().status_code for answer in answers} == {204}
    pairs.wait_until_equal()
    for worker in pairs.workers.values():
        signature, _ = recount(worker)
        assert HTTP.get(f"{worker}/status").json()["signature"] == signature
        assert len(objects(worker, subject)) == 60


def test_one_of_them_copies_what_the_peers_say(pairs: Cluster) -> None:
    """Not each of them: a payload and an effect stand once in every data centre's topics, but for take-overs."""
    for number in range(40):
        pairs.update(f"INSERT DATA {{ {name()} <urn:p> {number} }}", master=number % 4)
    pairs.wait_until_equal()
    for dc in pairs.lab.dcs:
        for topic in ("payloads", "agreed", "effects"):
            keys = [record.key() for record in records(dc["kafka"], pairs.lab.topic(dc["name"], topic))][-30:]
            assert Counter(keys).most_common(1)[0][1] == 1, f"{topic} of {dc['name']}: {keys}"


# --- a whole data centre comes back -------------------------------------------------------------------


async def load(masters: list[str], until_done: Callable[[], None]) -> Counter[int]:
    """Closed loops at these masters while `until_done` runs beside them; counts the answers."""
    statuses: Counter[int] = Counter()
    over = asyncio.Event()

    async def client(name: int, session: httpx.AsyncClient) -> None:
        number = 0
        while not over.is_set():
            number += 1
            pad = "x" * 600_000 * (number % 5 == 0)  # now and then one of several chunks
            text = f'INSERT DATA {{ <urn:load:{name}:{number}> <urn:is> "{pad}" }}'
            try:
                url = masters[(name + number) % len(masters)]
                answer = await session.post(f"{url}/update", content=text, headers=UPDATE)
                statuses[answer.status_code] += 1
            except httpx.HTTPError:
                await asyncio.sleep(0.1)

    async with httpx.AsyncClient(timeout=60) as session:
        clients = [asyncio.create_task(client(name, session)) for name in range(16)]
        await asyncio.get_running_loop().run_in_executor(None, until_done)
        over.set()
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
    return statuses


def test_two_masters_of_one_data_centre_take_writes_at_once(pairs: Cluster) -> None:
    """Each hears the other's copy of a payload at any moment, also in the one in which it is agreed."""
    statuses = asyncio.run(load(pairs.masters, lambda: time.sleep(2)))
    assert set(statuses) == {204}
    assert pairs.wait_until_equal() >= statuses[204]
    assert set(pairs.lab.states().values()) == {"running"}


def test_effects_that_were_heard_and_not_yet_copied_are_copied_after_a_crash(pairs: Cluster) -> None:
    """The broker dies under load, then the masters that hold the copies for it."""

    def crash() -> None:
        time.sleep(2)
        pairs.lab.kill("broker-dc2")
        time.sleep(2.5)  # longer than an idle round: what was heard is saved
        for master in ("dc2-m1", "dc2-m2"):
            pairs.lab.kill(master)
        for node in ("broker-dc2", "dc2-m1", "dc2-m2"):
            pairs.lab.start(node)

    before = pairs.wait_until_equal()
    asyncio.run(load(pairs.masters[:2], crash))
    assert pairs.wait_until_equal(seconds=30) > before
