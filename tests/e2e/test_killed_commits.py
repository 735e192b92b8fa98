"""kill -9 while a commit is under way: told by name, reads go on, and the store has all of it or nothing."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.errors import SetupError
from tests.support.clusters.cluster import HTTP, PATIENCE_S, Cluster, recount, until
from tests.support.clusters.trouble import logged, reads_served, told
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

VICTIM = "dc1-w2"
QUADS = 10_000


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with BROKERS.lab(tmp_path_factory.mktemp("killed") / "lab", dcs=1, workers=2) as running:
        yield Cluster(running)


def large(number: int) -> str:
    """An update whose commit takes some 40 ms."""
    lines = " ".join(f"<urn:s{number}> <urn:p> {number * QUADS + at} ." for at in range(QUADS))
    return f"INSERT DATA {{ {lines} }}"


def until_dead(lab: Cluster) -> None:
    deadline = time.monotonic() + PATIENCE_S
    with suppress(httpx.TransportError):
        while True:
            HTTP.get(f"{lab.workers[VICTIM]}/healthz")
            assert time.monotonic() < deadline, "it lives on"
            time.sleep(0.02)


@pytest.mark.long("four deaths and starts")
@pytest.mark.parametrize("hits", [4, pytest.param(20, marks=pytest.mark.soak)])
def test_a_follower_dies_within_its_commits(lab: Cluster, hits: int) -> None:
    kills = 0
    until(lambda: len(lab.status()["workers"]) == len(lab.workers))  # reads need the other one
    lab.lab.kill(VICTIM, "KILL")
    with reads_served(lab):
        while kills - logged(lab, "failpoint_section_completed", VICTIM) < hits:
            kills += 1
            with suppress(SetupError):  # it may die of what it has to apply before it is ready
                lab.lab.start(VICTIM, QUADLOG_FAILPOINT="within-apply")
            assert lab.update(large(kills)).status_code == 204
            until_dead(lab)
            if kills % 5 == 1:
                [alarm] = told(lab, f"worker-dead {VICTIM}")
                assert alarm["index"] <= kills  # the last one that it told
        lab.lab.start(VICTIM)
        told(lab)
    print(f"{kills} kills, {hits} of them within a commit")
    assert lab.wait_until_equal() == kills
    said = HTTP.get(f"{lab.workers[VICTIM]}/status").json()
    signature, lines = recount(lab.workers[VICTIM])
    assert (signature, len(lines)) == (said["signature"], kills * QUADS)
