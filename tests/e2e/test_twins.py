"""A master whose disk is lost or from a backup, and two processes of one master: promises are not forgotten unseen."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from quadlog.kafka.ports import free_ports
from tests.support.clusters.appends import Amiss, appending
from tests.support.clusters.cluster import Cluster, until
from tests.support.clusters.ending import AGAIN_S, Ending, ending, in_turn, one_view, views
from tests.support.clusters.trouble import logged, printed
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters.appends import Appends
    from tests.support.labs import RunningLab

MASTER = "dc3-m1"
DCS = ("dc1", "dc2", "dc3")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    """Three data centres that never give each other up, however long one is silent."""
    with BROKERS.lab(tmp_path_factory.mktemp("twins") / "lab", dcs=3, workers=1) as lab:
        yield lab


@pytest.fixture
def cluster(lab: RunningLab) -> Iterator[Cluster]:
    """All of it runs, in one view."""
    with in_turn(lab) as cluster:
        yield cluster


def together_again(cluster: Cluster, appends: Appends, epoch: int) -> Ending:
    """In a view of all that is newer than `epoch`."""
    began = time.monotonic()
    until(lambda: views(cluster)[0][0] > epoch and one_view(cluster, members=len(DCS)), AGAIN_S)
    return ending(cluster, appends, began)


def incarnation(cluster: Cluster, master: str) -> str:
    """The newest that others know of it; the first one may have none yet."""
    seen = [cluster.status(number)["peers"] for number, dc in enumerate(DCS) if not master.startswith(dc)]
    return max(peer["incarnation"] or "" for peers in seen for peer in peers if peer["id"] == master)


@pytest.mark.parametrize(
    "evaluates",
    [
        pytest.param(False, id="another"),
        pytest.param(True, id="the one that evaluates", marks=pytest.mark.soak),
    ],
)
def test_a_lost_disk(cluster: Cluster, evaluates: bool) -> None:  # noqa: FBT001
    """The others give the old one up at once, whatever the lag; it comes back as a new one, and learns all again.

    That of the one that evaluates is lost in the soak, and in `test_log_limits.py`.
    """
    lab, (epoch, _) = cluster.lab, views(cluster)[0]
    home: str = cluster.status()["view"]["home"]
    victim = f"{home if evaluates else max({*DCS} - {home})}-m1"
    before = incarnation(cluster, victim)
    with appending(cluster) as appends:
        lab.kill(victim)
        shutil.rmtree(lab.directory / "nodes" / victim / "data" / "rocksdb")
        lab.start(victim)
        end = together_again(cluster, appends, epoch)
    assert incarnation(cluster, victim) > before, "it came back as a new one"
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


def test_a_disk_from_a_backup(cluster: Cluster, tmp_path: Path) -> None:
    """It has forgotten what it voted for and promised, so it comes back as one that lost its disk."""
    lab, (epoch, _), before = cluster.lab, views(cluster)[0], logged(cluster, "store_voided", MASTER)
    data = lab.directory / "nodes" / MASTER / "data"
    with appending(cluster) as appends:
        lab.kill(MASTER)
        shutil.copytree(data / "rocksdb", tmp_path / "backup")
        lab.start(MASTER)
        started = time.monotonic()
        until(lambda: all(appends.told(number, started) >= 5 for number in range(len(DCS))))
        assert views(cluster)[0][0] == epoch, "a restart alone is no loss"
        lab.kill(MASTER)
        shutil.rmtree(data / "rocksdb")
        shutil.copytree(tmp_path / "backup", data / "rocksdb")
        lab.start(MASTER)
        assert logged(cluster, "store_voided", MASTER) == before + 1
        end = together_again(cluster, appends, epoch)
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


@contextmanager
def twin(settings: Path, directory: Path, disk: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Another process with these settings, but for its directory and its port; `disk`: a copy of the store."""
    [port] = free_ports(1)
    text = re.sub(r"(?m)^data-dir = .*$", f'data-dir = "{directory}"', settings.read_text())
    text = re.sub(r"(?m)^port = .*$", f"port = {port}", text)
    assert str(directory) in text
    assert f"port = {port}" in text
    directory.mkdir()
    if disk is not None:
        shutil.copytree(disk, directory / "rocksdb")
    (directory / "master.toml").write_text(text)
    command = [sys.executable, "-m", "quadlog", "master", "--config", str(directory / "master.toml")]
    with (directory / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def test_two_processes_with_one_id(cluster: Cluster, tmp_path: Path) -> None:
    """One without a disk is refused.  With a copy of the disk the older process ends, and comes back later."""
    lab, (epoch, _) = cluster.lab, views(cluster)[0]
    settings = lab.directory / "nodes" / MASTER / "master.toml"
    told = (f"DuplicateNode: {MASTER} runs twice", f"does not count what {MASTER} said")
    before = sum(printed(cluster, text, MASTER) for text in told)
    lab.kill(MASTER)
    shutil.copytree(settings.parent / "data" / "rocksdb", tmp_path / "disk")
    lab.start(MASTER)
    with appending(cluster) as appends:
        with twin(settings, tmp_path / "refused") as process:
            assert process.wait(30) == 1
        assert "another process posts as dc3-m1" in (tmp_path / "refused" / "log").read_text()
        assert lab.states()[MASTER] == "running"
        with twin(settings, tmp_path / "twin", tmp_path / "disk"):
            began = time.monotonic()
            until(lambda: lab.states()[MASTER] == "exited(1)", 30)
            print(f"the older one ended {time.monotonic() - began:.1f} s after the other one was begun")
            assert sum(printed(cluster, text, MASTER) for text in told) > before
        lab.start(MASTER)
        end = together_again(cluster, appends, epoch)
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()
