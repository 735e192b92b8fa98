"""A data centre is added and removed while clients write, and counts as long as it is a peer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters.appends import Amiss, Appends
from tests.support.clusters.cluster import HTTP, UPDATE, Cluster, counted, name, until
from tests.support.clusters.ending import nothing_waits, one_view, views
from tests.support.labs import quadlog, running_lab
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx

LAG_S = 3.0
"""`max-peer-lag` here."""
FIRST = ("dc1-m1", "dc2-m1", "dc3-m1")
FOUR = (*FIRST, "dc4-m1")


class Three(Cluster):
    """The data centres that the log begins with; the fourth comes and goes."""

    @property
    def masters(self) -> list[str]:
        return [master["url"] for master in self.lab.masters if master["id"] in FIRST]

    @property
    def workers(self) -> dict[str, str]:
        return {name: url for name, url in super().workers.items() if not name.startswith("dc4")}


@pytest.fixture
def all_four(tmp_path: Path) -> Iterator[Cluster]:
    """Four data centres, of which one is not a peer, that give each other up soon."""
    lag = {"QUADLOG_MAX_PEER_LAG": str(LAG_S)}
    with running_lab(tmp_path / "lab", dcs=4, workers=1, outside=1, environment=lag) as lab:
        yield Cluster(lab)


def peers(cluster: Cluster, master: int) -> dict[str, dict[str, Any]]:
    """As a master has them."""
    found = HTTP.get(f"{cluster.masters[master]}/cluster/peers").json()["peers"]
    return {peer["id"]: peer for peer in found}


def is_as(cluster: Cluster, master: int, names: tuple[str, ...]) -> bool:
    """Whether just these are peers, decided."""
    found = peers(cluster, master).values()
    return all(peer["decided"] for peer in found) and names == tuple(p["id"] for p in found if p["peer"])


def write(cluster: Cluster, master: int) -> httpx.Response:
    """An update at one master."""
    content = f"INSERT DATA {{ {name()} <urn:is> 'written' }}"
    return HTTP.post(f"{cluster.masters[master]}/update", content=content, headers=UPDATE)


def add(cluster: Cluster, master: int, peer: str, **headers: str) -> httpx.Response:
    """Ask a master to add one."""
    said = {header.replace("_", "-"): value for header, value in headers.items()}
    body = {"id": peer, "dc": peer.partition("-")[0]}
    return HTTP.post(f"{cluster.masters[master]}/cluster/peers", json=body, headers=said)


def remove(cluster: Cluster, master: int, peer: str) -> httpx.Response:
    """Ask a master to remove one."""
    return HTTP.delete(f"{cluster.masters[master]}/cluster/peers/{peer}")


def taken(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """As a client asks that tries again as long as nothing was logged: the only worker may be on its way back."""

    def tried() -> httpx.Response | None:
        answer = ask()
        if not answer.is_success:
            assert answer.json().get("definite"), f"{answer.status_code}: {answer.text}"
        return answer if answer.is_success else None

    answer = until(tried, 20)
    assert answer is not None
    return answer


def refuses_writes(cluster: Cluster, master: int) -> None:
    """It says why, and its reads go on."""
    answer = write(cluster, master)
    assert (answer.status_code, answer.json()["error"]) == (503, "NotAPeer")
    assert cluster.status(master)["role"] == "outside"


def all_are(cluster: Cluster, names: tuple[str, ...]) -> None:
    """Wait until these are in one view, and all masters say that just they are peers."""
    of = [number for number, master in enumerate(FOUR) if master in names]
    until(lambda: {views(cluster)[number][1] for number in of} == {names}, 30)
    until(lambda: all(is_as(cluster, number, names) for number in range(4)), 20)


@pytest.mark.alone
@pytest.mark.long("four data centres with brokers of their own")
def test_a_data_centre_comes_and_goes_and_comes(all_four: Cluster) -> None:
    """Whoever is asked; it counts while it is a peer, also after a restart, and takes no writes while it is none."""
    three, lab, began = Three(all_four.lab), all_four.lab, time.monotonic()
    appends = Appends(three)
    try:
        appends.begin()
        refuses_writes(all_four, 3)
        added = taken(lambda: add(all_four, 1, FOUR[3], Idempotency_Key="add dc4"))
        again = taken(lambda: add(all_four, 0, FOUR[3], Idempotency_Key="add dc4"))
        assert (again.status_code, again.headers["Quadlog-Tx"]) == (200, added.headers["Quadlog-Tx"])
        all_are(all_four, FOUR)
        lab.kill(FOUR[3])
        lab.start(FOUR[3])
        all_are(all_four, FOUR)
        taken(lambda: write(all_four, 3))
        print(f"four peers, one of them started again, after {time.monotonic() - began:.1f} s")

        for one, other in (("dc1", "dc3"), ("dc1", "dc4"), ("dc2", "dc3"), ("dc2", "dc4")):
            all_four.cut(one, other)
        until(lambda: {members for _, members in views(all_four)} == {FOUR[:2], FOUR[2:]}, 2 * LAG_S + 5)
        waits = [write(all_four, number) for number in range(4)]
        assert {(answer.status_code, answer.json()["error"]) for answer in waits} == {(503, "NoMajority")}
        halves = [remove(all_four, 0, "dc3-m1"), remove(all_four, 3, "dc1-m1")]
        said = [(answer.status_code, "is no majority" in answer.text) for answer in halves]
        assert said == [(503, True)] * 2, "two of four, and two of three would be one"
        all_four.heal()
        all_are(all_four, FOUR)
        print(f"cut off and healed after {time.monotonic() - began:.1f} s")

        taken(lambda: remove(all_four, 0, FOUR[3]))
        all_are(all_four, FIRST)
        gone = time.monotonic()
        refuses_writes(all_four, 3)
        assert counted(all_four.masters[3], "?s ?p ?o") > 0
        until(lambda: all(appends.told(number, gone) >= 3 for number in range(3)), 20)
        lab.kill(FOUR[3])
        lab.start(FOUR[3])
        refuses_writes(all_four, 3)
        print(f"three peers, and one that was started outside, after {time.monotonic() - began:.1f} s")

        taken(lambda: add(all_four, 2, FOUR[3]))
        all_are(all_four, FOUR)
        back = time.monotonic()
        until(lambda: all(appends.told(number, back) >= 3 for number in range(3)), 20)
    finally:
        appends.stop()
    until(lambda: nothing_waits(all_four))
    all_four.wait_until_equal()
    states = [HTTP.get(f"{url}/status").json() for url in all_four.workers.values()]
    assert len({state["signature"] for state in states}) == 1
    assert len(all_four.chains()) == 1
    assert appends.amiss() == Amiss()
    print(f"ended after {time.monotonic() - began:.1f} s")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two data centres, of which one is no peer at the beginning."""
    lag = {"QUADLOG_MAX_PEER_LAG": str(LAG_S)}
    directory = tmp_path_factory.mktemp("pair") / "lab"
    with BROKERS.lab(directory, dcs=2, workers=1, outside=1, environment=lag) as lab:
        yield Cluster(lab)


def test_one_that_is_named_and_not_there_yet(pair: Cluster) -> None:
    """Nobody waits for it, and it is not added before it can be asked."""
    lab = pair.lab
    for one in ("dc2-m1", "broker-dc2", "dc1-m1"):
        lab.kill(one)
    lab.start("dc1-m1")
    until(lambda: write(pair, 0).status_code == 204)
    answer = add(pair, 0, "dc2-m1")
    assert (answer.status_code, answer.json()["error"]) == (503, "Unavailable")
    for one in ("broker-dc2", "dc2-m1"):
        lab.start(one)
    until(lambda: add(pair, 0, "dc2-m1").status_code == 200)
    until(lambda: {members for _, members in views(pair)} == {("dc1-m1", "dc2-m1")}, 20)
    taken(lambda: write(pair, 1))
    pair.wait_until_equal()


@pytest.mark.long("a data centre is stopped and started, and max-peer-lag twice")
def test_one_of_two_is_gone_for_good(pair: Cluster) -> None:
    """An operator says so; what is left decides alone, and whoever comes back all the same has to be added."""
    lab, lost = pair.lab, ("dc2-m1", "dc2-w1", "broker-dc2")
    until(lambda: one_view(pair, members=2))
    assert write(pair, 1).status_code == 204
    force = ["peer", "remove", "dc2-m1", "--force", "--survivor", "dc1-m1", "--at", pair.masters[0]]
    assert "is a majority" in quadlog(*force).stderr
    for one in lost:
        lab.kill(one)
    until(lambda: pair.status(0)["view"]["members"] == ["dc1-m1"], 2 * LAG_S + 5)
    waits = write(pair, 0)
    assert (waits.status_code, waits.json()["error"]) == (503, "NoMajority"), waits.text
    refused = remove(pair, 0, "dc2-m1")
    assert (refused.status_code, "is no majority" in refused.text) == (503, True)
    alone = pair.status(0)["settled_index"]

    done = quadlog(*force)
    assert (done.returncode, "dc2-m1 is no peer any more" in done.stdout) == (0, True), done
    until(lambda: set(peers(pair, 0)) == {"dc1-m1", "dc2-m1"} and is_as(pair, 0, ("dc1-m1",)), 20)
    taken(lambda: write(pair, 0))
    until(lambda: pair.status(0)["settled_index"] > alone)

    for one in reversed(lost):
        lab.start(one)
    until(lambda: pair.status(1)["role"] == "outside", 20)
    refuses_writes(pair, 1)
    taken(lambda: add(pair, 0, "dc2-m1"))
    until(lambda: {members for _, members in views(pair)} == {("dc1-m1", "dc2-m1")}, 20)
    taken(lambda: write(pair, 1))
    pair.wait_until_equal()
