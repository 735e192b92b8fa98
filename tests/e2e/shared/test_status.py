"""Status and health of every master."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.clusters.cluster import (
    HTTP,
    Cluster,
    name,
    until,
)

STATUS: dict[str, Any] = {
    "node": str,
    "dc": str,
    "role": str,
    "view": {"epoch": int, "members": list},
    "agreed_index": int,
    "agreed_chain": str,
    "incoming": int,
    "limbo": {"length": int, "oldest_s": (int, float), "quorum": (int, type(None))},
    "split": {"state": str, "phase": str, "strategy": (str, type(None)), "fork_index": (int, type(None))},
    "workers": [{"id": str, "state": str, "applied_index": int, "signature": str, "quads": int}],
    "alarms": list,
    "peers": [{"id": str, "dc": str, "state": str, "lag_ms": (int, float), "agreed_index": int}],
}
"""What DESIGN section 10 promises to tools outside the project."""


def check_shape(value: Any, shape: Any, path: str) -> None:  # noqa: ANN401 - any JSON
    match shape:
        case dict():
            for key, inner in shape.items():
                assert key in value, f"{path}.{key} is missing"
                check_shape(value[key], inner, f"{path}.{key}")
        case list():
            assert value, f"{path} is empty"
            for one in value:
                check_shape(one, shape[0], f"{path}[]")
        case _:
            assert isinstance(value, shape), f"{path} is {value!r}"


def knows_of_its_peers(cluster: Cluster, number: int, index: int) -> bool:
    """Of their logs a master knows what their last posts said."""
    peers = cluster.status(number)["peers"]
    return {(peer["state"], peer["agreed_index"]) for peer in peers} == {("connected", index)}


def knows_of_its_workers(cluster: Cluster, number: int, index: int) -> bool:
    """Of their stores a master knows what their last heartbeats said."""
    workers = cluster.status(number)["workers"]
    return {(worker["state"], worker["applied_index"]) for worker in workers} == {("serving", index)}


def test_status_has_what_tools_rely_on(cluster: Cluster) -> None:
    assert cluster.update(f"INSERT DATA {{ {name()} a 1 }}").status_code == 204  # all have heard each other
    index = cluster.wait_until_equal()
    ids = [master["id"] for master in cluster.lab.masters]
    for number, dc in enumerate(cluster.lab.dcs):
        status = cluster.status(number)
        check_shape(status, STATUS, "status")
        assert (status["node"], status["dc"], status["role"]) == (ids[number], dc["name"], "read-write")
        assert status["view"]["members"] == sorted(ids)
        assert status["agreed_index"] == index
        assert [worker["id"] for worker in status["workers"]] == [worker["id"] for worker in dc["workers"]]
        assert {peer["id"] for peer in status["peers"]} == set(ids) - {ids[number]}
        until(partial(knows_of_its_workers, cluster, number, index))
        until(partial(knows_of_its_peers, cluster, number, index))
    assert len(cluster.chains()) == 1
    evaluating = [
        worker["id"] for n in range(3) for worker in cluster.status(n)["workers"] if worker["evaluating"]
    ]
    assert len(evaluating) == 1


def test_health(cluster: Cluster) -> None:
    for master in cluster.masters:
        for what in ("started", "alive", "ready"):
            assert HTTP.get(f"{master}/healthz/{what}").status_code == 200
        assert HTTP.get(f"{master}/healthz/other").status_code == 404
