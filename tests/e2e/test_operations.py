"""What operators do to a whole cluster under load: restart all of it; add and remove a data centre many times."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import ending, one_view
from tests.support.clusters.trouble import logged
from tests.support.labs import quadlog, running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters.appends import Appends

pytestmark = pytest.mark.soak

DCS = ("dc1", "dc2", "dc3")
RESTART_S = 60.0
"""Within which each master acknowledges updates again after one process was restarted."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_lab(tmp_path / "lab", dcs=3, workers=2) as lab:
        yield Cluster(lab)


def works(appends: Appends) -> None:
    """Wait until each master acknowledges appends that were sent from now on."""
    began = time.monotonic()
    until(lambda: all(appends.told(number, began) >= 3 for number in range(len(DCS))), RESTART_S)


def test_everything_is_restarted_under_load_and_workers_are_fed_from_the_beginning(cluster: Cluster) -> None:
    lab = cluster.lab
    with appending(cluster) as appends:
        for dc in DCS:
            for node in (f"{dc}-w1", f"{dc}-w2", f"{dc}-m1", f"broker-{dc}"):
                lab.kill(node, "TERM")
                lab.start(node)
                works(appends)
        for node in ("dc1-w1", "dc2-w2", "dc3-w1"):
            lab.kill(node, "TERM")
            shutil.rmtree(lab.directory / "nodes" / node / "data")
            lab.start(node)
            works(appends)
        end = ending(cluster, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.amiss == Amiss()
    assert set(lab.states().values()) == {"running"}
    for node in lab.states():
        assert not logged(cluster, "process_failed", node), node


@pytest.mark.parametrize("times", [30])
def test_a_data_centre_is_removed_and_added_again_and_again(cluster: Cluster, times: int) -> None:
    lab, at = cluster.lab, cluster.masters[0]
    with appending(cluster) as appends:
        for _ in range(times):
            removed = quadlog("peer", "remove", "dc3-m1", "--at", at)
            assert removed.returncode == 0, removed.stderr
            until(lambda: cluster.status(0)["view"]["members"] == ["dc1-m1", "dc2-m1"])
            added = quadlog("peer", "add", "dc3-m1", "dc3", "--at", at)
            assert added.returncode == 0, added.stderr
            until(lambda: one_view(cluster, members=3))
        works(appends)
        end = ending(cluster, appends, time.monotonic())
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.amiss == Amiss()
    assert set(lab.states().values()) == {"running"}
