"""The trail is the same at all data centres, and complete, whatever happens to the links between them."""

from __future__ import annotations

import time
from contextlib import ExitStack
from hashlib import blake2b
from typing import TYPE_CHECKING

import httpx
import pytest
from audit import AuditTrail, audit_trail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.testing import QuadlogCluster

DCS = ("dc1", "dc2", "dc3")


@pytest.fixture
def trails(quadlog_cluster: QuadlogCluster) -> Iterator[dict[str, AuditTrail]]:
    with ExitStack() as stack:
        yield {dc: stack.enter_context(audit_trail(quadlog_cluster.kafka[dc], dc)) for dc in DCS}


def update(cluster: QuadlogCluster, dc: str, text: str, *, within: float = 10) -> str:
    """Send an update until it is accepted; return the id of its transaction."""
    deadline = time.monotonic() + within
    while True:
        said = httpx.post(f"{cluster.urls[f'{dc}-m1']}/update", data={"update": text}, timeout=60)
        if said.status_code == httpx.codes.NO_CONTENT:
            return said.headers["Quadlog-Tx"]
        assert said.status_code == httpx.codes.SERVICE_UNAVAILABLE, said.text  # definite: nothing was changed
        assert time.monotonic() < deadline, said.text
        time.sleep(0.2)


def signature_of(quads: set[str]) -> str:
    total = sum(int.from_bytes(blake2b(line.encode(), digest_size=32).digest(), "big") for line in quads)
    return f"{total % 2**256:064x}"


def test_a_change_says_what_was_added_and_removed(
    quadlog_cluster: QuadlogCluster, trails: dict[str, AuditTrail]
) -> None:
    update(quadlog_cluster, "dc1", 'INSERT DATA { <urn:pump> <urn:state> "off" }')
    switched = update(
        quadlog_cluster,
        "dc2",
        'DELETE { ?p <urn:state> "off" } INSERT { ?p <urn:state> "on" } WHERE { ?p <urn:state> "off" }',
    )
    index = quadlog_cluster.wait_equal()
    for trail in trails.values():
        trail.follow(index, timeout=20)
        assert trail.changes[-1].transaction == switched
        assert trail.changes[-1].removed == ('<urn:pump> <urn:state> "off" .',)
        assert trail.changes[-1].added == ('<urn:pump> <urn:state> "on" .',)


def test_the_changes_add_up_to_what_the_workers_have(
    quadlog_cluster: QuadlogCluster, trails: dict[str, AuditTrail]
) -> None:
    for number in range(10):
        update(quadlog_cluster, DCS[number % 3], f"INSERT DATA {{ <urn:n> <urn:is> {number}, {number + 1} }}")
    update(quadlog_cluster, "dc3", "DELETE DATA { <urn:n> <urn:is> 5 }")
    index = quadlog_cluster.wait_equal()
    [state] = set(quadlog_cluster.signatures().values())
    for trail in trails.values():
        trail.follow(index, timeout=20)
        assert len(trail.quads()) == 10
        assert signature_of(trail.quads()) == trail.changes[-1].signature == state.signature


def test_a_data_centre_that_is_cut_off_has_the_same_trail_later(
    quadlog_cluster: QuadlogCluster, trails: dict[str, AuditTrail]
) -> None:
    before = quadlog_cluster.wait_equal()
    trails["dc3"].follow(before, timeout=20)
    quadlog_cluster.cut("dc1", "dc3")
    quadlog_cluster.cut("dc2", "dc3")
    meanwhile = update(quadlog_cluster, "dc1", "INSERT DATA { <urn:meanwhile> a <urn:Change> }", within=60)
    with pytest.raises(TimeoutError):
        trails["dc3"].follow(before + 1, timeout=1)
    quadlog_cluster.heal()
    index = quadlog_cluster.wait_equal()
    for trail in trails.values():
        trail.follow(index, timeout=20)
    assert trails["dc1"].changes == trails["dc2"].changes == trails["dc3"].changes
    assert [change.transaction for change in trails["dc3"].changes].count(meanwhile) == 1


def test_a_broker_that_dies_interrupts_the_trail_only_for_a_while(
    quadlog_cluster: QuadlogCluster, trails: dict[str, AuditTrail]
) -> None:
    trails["dc2"].follow(quadlog_cluster.wait_equal(), timeout=20)
    quadlog_cluster.kill("broker-dc2")
    quadlog_cluster.start("broker-dc2")
    update(quadlog_cluster, "dc1", "INSERT DATA { <urn:after> a <urn:Change> }", within=60)
    trails["dc2"].follow(quadlog_cluster.wait_equal(), timeout=60)
    assert trails["dc2"].changes[-1].added
