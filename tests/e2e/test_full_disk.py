"""A worker whose disk is full: told by name, the others go on, and it comes back when there is space."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.cluster import Cluster, all_equal, until
from tests.support.clusters.trouble import printed, reads_served, told
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.alone

SIZE = "48m"
VICTIM = "dc1-w2"


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """A file system of its own, in a mount namespace that whoever is the same user may look into."""
    at.mkdir()
    mount = f"mount -t tmpfs -o size={SIZE} tmpfs {at} && echo mounted && exec sleep infinity"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "mounted\n"
            yield Path(f"/proc/{holder.pid}/root{at}")
        finally:
            holder.kill()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("small") / "disk") as at:
        yield at


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, disk: Path) -> Iterator[Cluster]:
    """One data centre; its second worker keeps what it has on the small disk."""
    with BROKERS.lab(tmp_path_factory.mktemp("full") / "lab", dcs=1, workers=2) as running:
        cluster = Cluster(running)
        running.kill(VICTIM, "TERM")
        data = running.directory / "nodes" / VICTIM / "data"
        shutil.rmtree(data)
        (disk / "data").mkdir()
        data.symlink_to(disk / "data")
        running.start(VICTIM)
        assert cluster.update("INSERT DATA { <urn:s0> <urn:p> 0 }").status_code == 204
        cluster.wait_until_equal()
        told(cluster)
        yield cluster


def fill(disk: Path) -> Path:
    """Take all the space that is left."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        while os.statvfs(disk).f_bavail:
            try:
                file.write(bytes(os.statvfs(disk).f_bsize))
                file.flush()
            except OSError:
                break
    return filler


def larger(number: int, value: int) -> str:
    """An update that needs a page of its own: a small one may find room in the last that the store has."""
    return f"INSERT DATA {{ <urn:s{number}> <urn:p> {value} ; <urn:q> '{value:08192}' }}"


def evaluating(lab: Cluster) -> list[str]:
    return [worker["id"] for worker in lab.status()["workers"] if worker.get("evaluating")]


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_workers_disk_is_full(lab: Cluster, disk: Path, *, evaluates: bool) -> None:
    if evaluates:
        lab.lab.kill("dc1-w1", "TERM")
        lab.lab.start("dc1-w1")
        told(lab)
        lab.update("INSERT DATA { <urn:s0> <urn:p> 1 }")
    index = lab.wait_until_equal()
    filler = fill(disk)
    slowest = 0.0
    with reads_served(lab):
        for number in range(20):
            began = time.monotonic()
            answer = lab.update(larger(number, index + number))
            assert answer.status_code == 204, answer.text
            slowest = max(slowest, time.monotonic() - began)
        [alarm] = told(lab, f"worker-dead {VICTIM}")
        assert index <= alarm["index"] <= index + 20
        assert "last lines of its log" in alarm["what_to_do"]
        assert printed(lab, "No space left on device", VICTIM)
        print(f"slowest update: {slowest:.2f} s")
        assert slowest < 5
        filler.unlink()
        until(lambda: lab.lab.states()[VICTIM] != "running")  # it is dead to its master before it has ended
        lab.lab.start(VICTIM)
        told(lab)
    assert lab.wait_until_equal() == index + 20
    all_equal(lab)  # also as counted, not only as they say
