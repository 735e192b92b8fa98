"""A data centre is added and removed while clients write, and counts as long as it is a peer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.appends import Amiss, Appends
from tests.e2e.cluster import HTTP, UPDATE, Cluster, counted, name, until
from tests.e2e.ending import nothing_waits, views
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

pytestmark = pytest.mark.alone

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


def test_a_data_centre_comes_and_goes(all_four: Cluster) -> None:
    """The log has it, and each master does, whoever is asked."""
    three, lab, began = Three(all_four.lab), all_four.lab, time.monotonic()
    appends = Appends(three)
    try:
        appends.begin()
        answer = write(all_four, 3)
        assert (answer.status_code, answer.json()["error"]) == (503, "NotAPeer")
        assert [all_four.status(n)["role"] for n in (0, 3)] == ["read-write", "outside"]

        key = {"Idempotency-Key": "add dc4"}
        added = HTTP.post(
            f"{all_four.masters[1]}/cluster/peers", json={"id": FOUR[3], "dc": "dc4"}, headers=key
        )
        assert added.status_code == 200, added.text
        again = HTTP.post(
            f"{all_four.masters[0]}/cluster/peers", json={"id": FOUR[3], "dc": "dc4"}, headers=key
        )
        assert (again.status_code, again.headers["Quadlog-Tx"]) == (200, added.headers["Quadlog-Tx"])
        until(lambda: {members for _, members in views(all_four)} == {FOUR}, 20)
        until(lambda: all(is_as(all_four, n, FOUR) for n in range(4)), 10)
        print(f"four peers after {time.monotonic() - began:.1f} s")
        assert write(all_four, 3).status_code == 204

        for other in ("dc1", "dc2", "dc4"):
            lab.links("cut", "dc3", other)
        until(lambda: views(all_four)[0][1] == ("dc1-m1", "dc2-m1", "dc4-m1"), 2 * LAG_S + 5)
        cut = time.monotonic()
        until(lambda: all(appends.told(n, cut) >= 3 for n in (0, 1)), 20)
        alone = HTTP.delete(f"{all_four.masters[2]}/cluster/peers/dc1-m1")
        assert (alone.status_code, alone.json()["error"]) == (503, "Unavailable"), (
            "one of four is no majority"
        )
        lab.links("heal")
        until(lambda: {members for _, members in views(all_four)} == {FOUR}, 30)
        print(f"healed after {time.monotonic() - began:.1f} s")

        removed = HTTP.delete(f"{all_four.masters[0]}/cluster/peers/{FOUR[3]}")
        assert removed.status_code == 200, removed.text
        until(lambda: {members for _, members in views(three)} == {FIRST}, 20)
        until(lambda: all(is_as(all_four, n, FIRST) for n in range(4)), 20)
        gone = time.monotonic()
        refused = write(all_four, 3)
        assert (refused.status_code, refused.json()["error"]) == (503, "NotAPeer")
        assert counted(all_four.masters[3], "?s ?p ?o") > 0
        until(lambda: all(appends.told(n, gone) >= 3 for n in range(3)), 20)
    finally:
        appends.stop()
    until(lambda: nothing_waits(three))
    three.wait_until_equal()
    states = [HTTP.get(f"{url}/status").json() for url in three.workers.values()]
    assert len({state["signature"] for state in states}) == 1
    assert len({three.status(n)["agreed_chain"] for n in range(3)}) == 1
    assert appends.amiss() == Amiss()
    print(f"ended after {time.monotonic() - began:.1f} s")
