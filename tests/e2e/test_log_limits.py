"""The topics of a lab are shortened to the log's limits while it is written, and whatever ends starts again."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from quadlog.replay.bundle import BundleManifest
from tests.support.clusters.cluster import Cluster, evaluating, index_of, recount, until
from tests.support.clusters.log_limits import (
    LOOKS_S,
    beginnings,
    check_one_state,
    until_they_begin_behind,
    write,
)
from tests.support.clusters.trouble import logged
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.labs import RunningLab


def restart(lab: RunningLab) -> None:
    """All masters and workers end at once, and begin again."""
    nodes = [node for node in lab.states() if not node.startswith("broker")]
    for node in nodes:
        lab.kill(node)
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lab.start, nodes))


def test_a_worker_that_is_away_keeps_the_log_up_to_the_hard_limit(tmp_path: Path) -> None:
    """Then it is gone, and the worker takes a copy by itself."""
    limits = {
        "QUADLOG_LOG_MAX_SIZE": "300",
        "QUADLOG_LOG_HARD_MAX_SIZE": "500",
        "QUADLOG_LOG_TRIM_EVERY": str(LOOKS_S),
    }
    with BROKERS.lab(tmp_path / "lab", dcs=1, workers=2, environment=limits) as lab:
        cluster = Cluster(lab)
        write(cluster, 1, 10)
        cluster.wait_until_equal()
        away = next(name for name in cluster.workers if name != evaluating(cluster))
        lab.kill(away)
        write(cluster, 11, 420)
        time.sleep(3 * LOOKS_S)
        assert beginnings(lab) == [0, 0], "it is waited for"
        write(cluster, 421, 640)
        until_they_begin_behind(lab, 90, 30)
        assert max(beginnings(lab)) <= 650 - 500
        assert logged(cluster, "log_trimmed", kept_by=away) >= 1
        lab.start(away)
        assert logged(cluster, "full_replication_started", away, cause="out_of_sync") == 1
        cluster.wait_until_equal()
        write(cluster, 641, 740)
        until_they_begin_behind(lab, 320, 30)
        restart(lab)
        check_one_state(cluster)


@pytest.mark.long("the log has to get old, and all start again")
def test_an_idle_log_that_is_too_old_goes_and_all_start_again(tmp_path: Path) -> None:
    limits = {"QUADLOG_LOG_MAX_DEPTH": "3s", "QUADLOG_LOG_TRIM_EVERY": str(LOOKS_S)}
    # Nobody needs a majority of others here: a third data centre would only start once more.
    with BROKERS.lab(tmp_path / "lab", dcs=2, workers=1, environment=limits) as lab:
        cluster = Cluster(lab)
        write(cluster, 1, 250)
        cluster.wait_until_equal()
        until_they_begin_behind(lab, 90, 30)
        restart(lab)
        check_one_state(cluster)
        write(cluster, 251, 450)
        check_one_state(cluster)
        until_they_begin_behind(lab, 250, 30)
        for dc in ("dc1", "dc2"):
            lab.kill(f"{dc}-m1")
            lab.start(f"{dc}-m1")
            check_one_state(cluster)


@pytest.mark.long("a disk that is lost, and two starts of all")
@pytest.mark.parametrize(
    "dc",
    [
        pytest.param("dc2", id="another", marks=pytest.mark.soak),
        pytest.param("dc1", id="the one that evaluates"),
    ],
)
def test_a_master_that_lost_its_disk_comes_back(tmp_path: Path, dc: str) -> None:
    """It knows all that it acknowledged, also what stood in no topic any more; the others went on meanwhile."""
    limits = {
        "QUADLOG_LOG_MAX_SIZE": "300",
        "QUADLOG_LOG_TRIM_EVERY": str(3 * LOOKS_S),  # three masters look, and each look is work
        "QUADLOG_MAX_PEER_LAG": "3",
    }
    with BROKERS.lab(tmp_path / "lab", dcs=3, workers=1, environment=limits) as lab:
        cluster = Cluster(lab)
        number = int(dc[2]) - 1
        text = "INSERT DATA { <urn:once> <urn:p> 1 }"
        first = cluster.update(text, master=number, **{"Idempotency-Key": "k1"})
        assert first.status_code == 204
        write(cluster, 1, 420)
        until_they_begin_behind(lab, 90, 60)
        lab.kill(f"{dc}-m1")
        shutil.rmtree(lab.directory / "nodes" / f"{dc}-m1" / "data" / "rocksdb")
        other = (number + 1) % 3
        until(lambda: cluster.update("INSERT DATA { <urn:away> <urn:p> 1 }", master=other).is_success, 30)
        write(cluster, 421, 480, master=other)
        lab.start(f"{dc}-m1")
        until(lambda: len(cluster.status(number)["view"]["members"]) == 3, 60)
        assert logged(cluster, "checkpoint_restored", f"{dc}-m1") == 1
        until(lambda: cluster.update("INSERT DATA { <urn:back> <urn:p> 1 }", master=number).is_success, 30)
        again = cluster.update(text, master=number, **{"Idempotency-Key": "k1"})
        assert index_of(again) == index_of(first), "what it acknowledged, it knows"
        check_one_state(cluster)
        write(cluster, 481, 540)
        check_one_state(cluster)
        before = min(beginnings(lab))
        write(cluster, 541, 800)
        until_they_begin_behind(lab, before + 100, 60)
        restart(lab)
        check_one_state(cluster)


@pytest.mark.soak
@pytest.mark.parametrize("further", [0, 500])
def test_what_goes_is_in_the_archive_before(tmp_path: Path, further: int) -> None:
    """A bundle of archive and topics is the whole log; where the archive cannot be written, nothing goes.

    Further entries go to the archive behind those of before.  That a bundle without it is refused is
    `tests/integration/test_archive.py`'s, too.
    """
    archive = tmp_path / "archive"
    archive.write_text("in the way")
    limits = {
        "QUADLOG_LOG_MAX_SIZE": "300",
        "QUADLOG_LOG_TRIM_EVERY": str(4 * LOOKS_S),  # few archives, each of much
        "QUADLOG_LOG_ARCHIVE": str(archive),
    }
    with BROKERS.lab(tmp_path / "lab", dcs=1, workers=1, environment=limits) as lab:
        cluster = Cluster(lab)
        write(cluster, 1, 420)
        until(lambda: logged(cluster, "log_trim_failed") >= 1, 60)
        assert beginnings(lab) == [0, 0]
        archive.unlink()
        until_they_begin_behind(lab, 90, 90)
        if further:
            write(cluster, 421, 420 + further)
            until_they_begin_behind(lab, 90 + further // 2, 90)
        [dc] = lab.dcs
        command = [sys.executable, "-m", "quadlog", "compact", str(tmp_path / "bundle")]
        options = ["--kafka", dc["kafka"], "--dc", dc["name"], "--repository", lab.repository]
        if further:
            without = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
            assert "lacks effect 1" in without.stderr
        subprocess.run([*command, *options, "--archive", str(archive)], check=True)
        manifest = BundleManifest.read(tmp_path / "bundle")
        cluster.wait_until_equal()
        [url] = cluster.workers.values()
        signature, lines = recount(url)
        assert (manifest.after.index, manifest.before.index) == (420 + further, 0)
        assert (f"{manifest.after.signature:064x}", manifest.after.quads) == (signature, len(lines))
