"""`quadlog dc rebuild`, as an operator calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import nothing_waits, one_view
from tests.support.labs import RunningLab, quadlog, running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator


def nodes_of(lab: RunningLab, dc: str) -> list[str]:
    """Masters first."""
    return [node for node in lab.states() if node.startswith(f"{dc}-")]


def rebuild(lab: RunningLab, dc: str, *more: str) -> tuple[int, str]:
    """`quadlog dc rebuild` by the settings of the first master there: its exit status, and what it says."""
    settings = lab.directory / "nodes" / f"{dc}-m1" / "master.toml"
    done = quadlog("dc", "rebuild", "--config", str(settings), *more)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("rebuild") / "lab", dcs=3, workers=1) as running:
        yield running


@pytest.fixture
def lab(running: RunningLab) -> RunningLab:
    """Three data centres that are one, also those that were rebuilt before."""
    cluster = Cluster(running)
    assert set(running.states().values()) == {"running"}
    until(lambda: one_view(cluster, members=3) and nothing_waits(cluster))
    cluster.wait_until_equal()
    return running
