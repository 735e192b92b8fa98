"""Two data centres and a muted one: it has all that they agree on, takes nothing, and holds nobody up."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import HTTP, UPDATE, Cluster, index_of, name, until
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.alone

SOON_S = 5.0
"""An update at a read-write master is acknowledged by then, whatever became of the muted one."""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    with running_lab(tmp_path / "lab", dcs=3, workers=1, muted=1) as running:
        yield Cluster(running)


def write(cluster: Cluster) -> int:
    """At both, soon; the last index."""
    began, indexes = time.monotonic(), list[int]()
    for master in (0, 1):
        answer = cluster.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=master)
        assert answer.status_code == 204
        indexes.append(index_of(answer))
    assert time.monotonic() - began < 2 * SOON_S
    return max(indexes)


def is_there(cluster: Cluster, index: int) -> bool:
    """Its worker has applied up to an index, and is equal to the others there."""
    workers = {w["id"]: w for number in range(3) for w in cluster.status(number)["workers"]}
    found = {(w["applied_index"], w["signature"]) for w in workers.values()}
    return len(workers) == 3 and len(found) == 1 and found.pop()[0] >= index


def test_a_muted_data_centre_follows_refuses_and_holds_nobody_up(lab: Cluster) -> None:
    running, url = lab.lab, lab.masters[2]
    index = write(lab)
    until(lambda: is_there(lab, index))
    status = lab.status(2)
    assert (status["role"], status["follows"]["dc"]) == ("muted", "dc1")
    assert lab.status(0)["view"]["members"] == ["dc1-m1", "dc2-m1"]
    for answer in (
        lab.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}", master=2),
        HTTP.post(f"{url}/repositories/main/statements", content=b"", headers=UPDATE),
        HTTP.get(f"{url}/tx/any"),
        HTTP.get(f"{url}/sparql", params={"query": "ASK { }"}, headers={"Quadlog-Consistency": "strict"}),
    ):
        assert (answer.status_code, answer.json()["error"], answer.json()["definite"]) == (
            503,
            "ReadOnly",
            True,
        )
    asked = HTTP.get(
        f"{url}/sparql", params={"query": "ASK { ?s <urn:is> 1 }"}, headers={"Quadlog-Min-Index": str(index)}
    )
    assert (asked.status_code, "true" in asked.text) == (200, True)
    for one in ("dc3-m1", "broker-dc3"):
        running.kill(one)
        index = write(lab)
        running.start(one)
        back = time.monotonic()
        until(partial(is_there, lab, index))
        print(f"{one} was killed: equal {time.monotonic() - back:.1f} s after it was started")
