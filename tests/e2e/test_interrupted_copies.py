"""A worker is copied over a slow link, and everything on the way is lost once: it goes on where it was."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.leash import leashed
from quadlog.quadstore.quaddir import bytes_of
from quadlog.worker.catchup.partial_copy import COMING, CopyDescription
from tests.support.clusters.away import delete_records, one_goes_away
from tests.support.clusters.cluster import Cluster, counted, evaluating, recount, until
from tests.support.clusters.trouble import logged
from tests.support.shared_brokers import BROKERS
from tests.support.workers.relay import running_relay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.labs import RunningLab

QUADS = 40_000
RATE_MBIT = 10.0
"""Of the link: a copy takes some twenty seconds."""
CUT_S = 12.0
"""Longer than a reader of a silent connection should wait, and than a taker tries in a row."""


def filled(cluster: Cluster, quads: int) -> None:
    """Of some 300 bytes each."""
    for first in range(0, quads, 5_000):
        lines = " . ".join(
            f'<urn:s{number}> <urn:p> "{number:0250}"' for number in range(first, first + 5_000)
        )
        assert cluster.update(f"INSERT DATA {{ {lines} }}").status_code == 204


def begin(lab: RunningLab, node_id: str) -> threading.Thread:
    """Have it started; it may die meanwhile.  Until that is noticed the lab starts it no second time."""

    def start() -> None:
        with suppress(Exception):
            lab.start(node_id, QUADLOG_COPY_COMPRESSION="none")

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    return starting


@contextmanager
def behind(door: int, settings: Path, directory: Path) -> Iterator[None]:
    """The worker of these settings, killed in the end; the others reach it by another port."""
    text = settings.read_text()
    port = int(re.findall(r"(?m)^port = (\d+)$", text)[0])
    text = re.sub(r"(?m)^worker-url = .*$", f'worker-url = "http://127.0.0.1:{door}"', text)
    file = directory / "worker.toml"
    file.write_text(text)
    command = leashed([sys.executable, "-m", "quadlog", "worker", "--config", str(file)])
    with (directory / "log").open("a") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until(lambda: is_up(f"http://127.0.0.1:{port}/status"))
            yield
        finally:
            process.kill()


def is_up(url: str) -> bool:
    """Whether a worker serves there."""
    with suppress(httpx.TransportError):
        return httpx.get(url).is_success
    return False


@pytest.mark.long("a copy that is slow enough to be interrupted")
def test_a_copy_goes_on_after_each_loss(tmp_path: Path) -> None:
    """The donor is killed, then the receiver, then the link is cut."""
    with BROKERS.lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        away, donor = one_goes_away(cluster), evaluating(cluster)
        filled(cluster, QUADS)
        until(lambda: counted(cluster.workers[donor], "?s <urn:p> ?o") >= QUADS, 60)
        coming = lab.directory / "nodes" / away / "data" / COMING
        shutil.rmtree(coming.parent / "quads")
        delete_records(lab.dcs[0]["kafka"], lab.topic("dc1", "agreed"), lab.topic("dc1", "effects"))
        port = int(cluster.workers[donor].rpartition(":")[2])
        settings = lab.directory / "nodes" / donor / "worker.toml"
        lab.kill(donor)

        def percent() -> float:
            with suppress(FileNotFoundError):
                if said := CopyDescription.load(coming):
                    return 100 * bytes_of(coming / "store") / said.label.size
            return 0.0

        with running_relay(port, port) as relay:
            relay.slow(rate_mbit=RATE_MBIT)
            door = relay.doors["dc1"].port
            began = time.monotonic()
            with behind(door, settings, tmp_path):
                starting = begin(lab, away)
                until(lambda: percent() > 15, 60)
            with behind(door, settings, tmp_path):
                until(lambda: percent() > 40, 60)
                lab.kill(away)
                until(lambda: not starting.is_alive(), 60)
                at = percent()
                again = begin(lab, away)
                until(lambda: percent() > at + 5, 60)
                relay.set(lambda state: state.cut("dc1", "dc2"))
                at = percent()
                time.sleep(CUT_S)
                assert percent() < at + 5, "nothing comes through"
                assert cluster.update("INSERT DATA { <urn:s> <urn:q> 1 }").status_code == 204
                relay.set(lambda state: state.heal("dc1", "dc2"))
                until(lambda: logged(cluster, "copy_taken", away), 90)
                until(lambda: not again.is_alive(), 60)  # another server takes the door over
                print(f"in service {time.monotonic() - began:.1f} s after it was begun")
                cluster.wait_until_equal()
                assert len({recount(url)[0] for url in cluster.workers.values()}) == 1
        said = re.sub(r"\x1b\[[0-9;]*m", "", (tmp_path / "log").read_text())
        starts = [int(found) for found in re.findall(r"copy_requested.* start=(\d+)", said)]
        print(f"asked for from {starts}")
        assert starts[0] == 0
        assert len(starts) >= 3
        assert starts == sorted(set(starts)), "nothing came twice"
