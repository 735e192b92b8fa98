"""A damaged file in a worker's store: the store is set aside, the worker has another one, and nobody else notices."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters.cluster import HTTP, Cluster, applied_at, index_of, name, recount, until
from tests.support.clusters.trouble import logged, printed
from tests.support.workers.damaged import harm_blocks, tables, zero

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 2_000
"""Quads that are in tables of their own when the worker has stopped."""


def data_of(cluster: Cluster, worker: str) -> Path:
    return cluster.lab.directory / "nodes" / worker / "data"


def aside(cluster: Cluster, worker: str) -> list[Path]:
    return sorted(data_of(cluster, worker).glob("quads.damaged-*"))


def raised(cluster: Cluster, worker: str) -> dict[str, Any] | None:
    found = [
        alarm
        for alarm in cluster.status(1)["alarms"]
        if (alarm["name"], alarm["worker"]) == ("store-set-aside", worker)
    ]
    return found[0] if found else None


def removed(cluster: Cluster, worker: str) -> None:
    """As an operator does it; the alarm ends."""
    for directory in aside(cluster, worker):
        shutil.rmtree(directory)
    until(lambda: raised(cluster, worker) is None)


def check_that_it_has_another_one(cluster: Cluster, worker: str, before: dict[str, Any]) -> None:
    [directory] = until(lambda: aside(cluster, worker))
    until(lambda: raised(cluster, worker) is not None)
    alarm = raised(cluster, worker) or {}
    assert str(directory) in alarm["reason"]
    assert cluster.lab.states()[worker] == "running"
    assert cluster.update(f"INSERT DATA {{ {name()} <urn:p> 1 }}", master=1).status_code == 204
    cluster.wait_until_equal()
    after = HTTP.get(f"{cluster.workers[worker]}/status").json()
    assert after["store"] != before["store"]
    assert recount(cluster.workers[worker])[0] == after["signature"]
    assert logged(cluster, "store_set_aside", worker, directory=str(directory)) == 1
    assert not printed(cluster, "Traceback", worker)
    removed(cluster, worker)


def write(cluster: Cluster) -> None:
    subject = name()[:-1]
    data = " ".join(f"{subject}-{n}> <urn:p> 'value {n:0100}' ." for n in range(SIZE))
    answer = cluster.update(f"INSERT DATA {{ {data} }}", master=1)
    assert answer.status_code == 204, answer.text
    applied_at(cluster, index_of(answer))


@pytest.fixture
def victim(cluster: Cluster) -> str:
    """It has its quads in tables."""
    write(cluster)
    cluster.wait_until_equal()
    victim = "dc2-w2"
    cluster.lab.kill(victim, "TERM")
    cluster.lab.start(victim)
    return victim


@pytest.mark.soak
def test_found_at_a_start(cluster: Cluster, victim: str) -> None:
    before = HTTP.get(f"{cluster.workers[victim]}/status").json()
    cluster.lab.kill(victim, "TERM")
    largest = tables(data_of(cluster, victim) / "quads" / "quads")[0]
    zero(largest, -1500, 64)  # the table's index, which is read to open it
    cluster.lab.start(victim)
    check_that_it_has_another_one(cluster, victim, before)


def test_found_by_a_read_while_it_runs(cluster: Cluster, victim: str) -> None:
    before = HTTP.get(f"{cluster.workers[victim]}/status").json()
    harm_blocks(data_of(cluster, victim) / "quads" / "quads")
    answer = HTTP.get(f"{cluster.workers[victim]}/statements")
    assert answer.status_code == 503, answer.status_code
    assert answer.json()["error"] == "Unavailable"
    check_that_it_has_another_one(cluster, victim, before)
