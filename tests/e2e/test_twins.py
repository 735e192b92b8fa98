"""One master twice: with a disk from a backup, and as two processes.  What it promised is not forgotten unseen."""

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
from tests.e2e.appends import Amiss, appending
from tests.e2e.cluster import Cluster, until
from tests.e2e.ending import AGAIN_S, ending, one_view, views
from tests.e2e.trouble import logged
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.appends import Appends

pytestmark = pytest.mark.alone

MASTER = "dc3-m1"


def together_again(cluster: Cluster, appends: Appends) -> None:
    began = time.monotonic()
    until(lambda: views(cluster)[0][0] > 1 and one_view(cluster, members=3), AGAIN_S)
    end = ending(cluster, appends, began)
    assert (len(end.views), len(end.chains), len(end.signatures)) == (1, 1, 1)
    assert end.seconds < AGAIN_S
    assert end.amiss == Amiss()


def test_a_disk_from_a_backup(tmp_path: Path) -> None:
    """It has forgotten what it voted for and promised, so it comes back as one that lost its disk."""
    with running_lab(tmp_path / "lab", dcs=3, workers=1) as lab:
        cluster, data = Cluster(lab), lab.directory / "nodes" / MASTER / "data"
        with appending(cluster) as appends:
            lab.kill(MASTER)
            shutil.copytree(data / "rocksdb", tmp_path / "backup")
            lab.start(MASTER)
            started = time.monotonic()
            until(lambda: all(appends.told(number, started) >= 10 for number in range(3)))
            assert views(cluster)[0][0] == 1, "a restart alone is no loss"
            lab.kill(MASTER)
            shutil.rmtree(data / "rocksdb")
            shutil.copytree(tmp_path / "backup", data / "rocksdb")
            lab.start(MASTER)
            assert logged(cluster, "has said more than its disk remembers", MASTER) == 1
            together_again(cluster, appends)


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


def test_two_processes_with_one_id(tmp_path: Path) -> None:
    """One without a disk is refused.  With a copy of the disk the older process ends, and comes back later."""
    with running_lab(tmp_path / "lab", dcs=3, workers=1) as lab:
        cluster, settings = Cluster(lab), lab.directory / "nodes" / MASTER / "master.toml"
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
                told = (f"DuplicateNode: {MASTER} runs twice", f"does not count what {MASTER} said")
                assert sum(logged(cluster, text, MASTER) for text in told) >= 1
            lab.start(MASTER)
            together_again(cluster, appends)
