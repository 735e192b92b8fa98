"""The topics of a lab are shortened to the log's limits while it is written, and whatever ends starts again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from quadlog.broker import beginning_of
from quadlog.bundle import Manifest
from quadlog.topics import Topics
from tests.e2e.cluster import Cluster, evaluating, index_of, recount, until
from tests.e2e.trouble import logged
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_helpers import RunningLab

pytestmark = pytest.mark.alone


def write(cluster: Cluster, first: int, last: int) -> None:
    """Updates by four clients: none fails."""

    def one(number: int) -> int:
        subject = f"<urn:s{number % 10}>"
        text = f"DELETE WHERE {{ {subject} <urn:p> ?o }} ; INSERT DATA {{ {subject} <urn:p> {number} }}"
        return cluster.update(text).status_code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one, range(first, last + 1))) == {204}


def beginnings(lab: RunningLab) -> list[int]:
    """Where the agreed and the effects topic of each data centre begin."""
    topics = [(dc["kafka"], Topics("main", dc["name"])) for dc in lab.dcs]
    return [beginning_of(kafka, name) for kafka, own in topics for name in (own.agreed, own.effects)]


def restart(lab: RunningLab) -> None:
    """All masters and workers end at once, and begin again."""
    nodes = [node for node in lab.states() if not node.startswith("broker")]
    for node in nodes:
        lab.kill(node)
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lab.start, nodes))


def check_one_state(cluster: Cluster) -> None:
    """After another update."""
    until(lambda: cluster.update("INSERT DATA { <urn:after> <urn:p> 1 }").status_code == 204)
    cluster.wait_until_equal()
    assert len({recount(url)[0] for url in cluster.workers.values()}) == 1


def test_a_worker_that_is_away_keeps_the_log_up_to_the_hard_limit(tmp_path: Path) -> None:
    """Then it is gone, and the worker takes a copy by itself."""
    limits = {
        "QUADLOG_LOG_MAX_SIZE": "1000",
        "QUADLOG_LOG_HARD_MAX_SIZE": "1600",
        "QUADLOG_LOG_TRIM_EVERY": "0.5",
    }
    with running_lab(tmp_path / "lab", dcs=1, workers=3, environment=limits) as lab:
        cluster = Cluster(lab)
        write(cluster, 1, 10)
        cluster.wait_until_equal()
        away = next(name for name in cluster.workers if name != evaluating(cluster))
        lab.kill(away)
        write(cluster, 11, 1400)
        assert beginnings(lab) == [0, 0], "it is waited for"
        write(cluster, 1401, 2000)
        until(lambda: min(beginnings(lab)) > 200, 30)
        assert max(beginnings(lab)) <= 2010 - 1600
        assert logged(cluster, f"kept_by={away}") >= 1
        lab.start(away)
        assert logged(cluster, "Replicating (out of sync)", away) == 1
        cluster.wait_until_equal()
        write(cluster, 2001, 2100)
        until(lambda: min(beginnings(lab)) > 900, 30)
        restart(lab)
        check_one_state(cluster)


def test_an_idle_log_that_is_too_old_goes_and_all_start_again(tmp_path: Path) -> None:
    limits = {"QUADLOG_LOG_MAX_DEPTH": "3s", "QUADLOG_LOG_TRIM_EVERY": "0.5"}
    with running_lab(tmp_path / "lab", dcs=3, workers=1, environment=limits) as lab:
        cluster = Cluster(lab)
        write(cluster, 1, 400)
        cluster.wait_until_equal()
        until(lambda: min(beginnings(lab)) > 200, 30)
        restart(lab)
        check_one_state(cluster)
        write(cluster, 401, 600)
        check_one_state(cluster)
        until(lambda: min(beginnings(lab)) > 400, 30)
        for dc in ("dc1", "dc2"):
            lab.kill(f"{dc}-m1")
            lab.start(f"{dc}-m1")
            check_one_state(cluster)


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
        "QUADLOG_LOG_MAX_SIZE": "1000",
        "QUADLOG_LOG_TRIM_EVERY": "0.5",
        "QUADLOG_MAX_PEER_LAG": "3",
    }
    with running_lab(tmp_path / "lab", dcs=3, workers=1, environment=limits) as lab:
        cluster = Cluster(lab)
        number = int(dc[2]) - 1
        text = "INSERT DATA { <urn:once> <urn:p> 1 }"
        first = cluster.update(text, master=number, **{"Idempotency-Key": "k1"})
        assert first.status_code == 204
        write(cluster, 1, 1500)
        until(lambda: min(beginnings(lab)) > 300, 60)
        lab.kill(f"{dc}-m1")
        shutil.rmtree(lab.directory / "nodes" / f"{dc}-m1" / "data" / "rocksdb")
        other = (number + 1) % 3
        until(lambda: cluster.update("INSERT DATA { <urn:away> <urn:p> 1 }", master=other).is_success, 30)
        for meanwhile in range(200):
            text_ = f"INSERT DATA {{ <urn:away> <urn:p> {meanwhile} }}"
            assert cluster.update(text_, master=other).status_code == 204
        lab.start(f"{dc}-m1")
        until(lambda: len(cluster.status(number)["view"]["members"]) == 3, 60)
        assert logged(cluster, "goes on behind a shortened log", f"{dc}-m1") == 1
        until(lambda: cluster.update("INSERT DATA { <urn:back> <urn:p> 1 }", master=number).is_success, 30)
        again = cluster.update(text, master=number, **{"Idempotency-Key": "k1"})
        assert index_of(again) == index_of(first), "what it acknowledged, it knows"
        check_one_state(cluster)
        write(cluster, 1501, 1700)
        check_one_state(cluster)
        before = min(beginnings(lab))
        write(cluster, 1701, 2700)
        until(lambda: min(beginnings(lab)) > before + 500, 60)
        restart(lab)
        check_one_state(cluster)


def test_what_goes_is_in_the_archive_before(tmp_path: Path) -> None:
    """A bundle of archive and topics is the whole log; where the archive cannot be written, nothing goes."""
    archive = tmp_path / "archive"
    archive.write_text("in the way")
    limits = {
        "QUADLOG_LOG_MAX_SIZE": "1000",
        "QUADLOG_LOG_TRIM_EVERY": "0.5",
        "QUADLOG_LOG_ARCHIVE": str(archive),
    }
    with running_lab(tmp_path / "lab", dcs=1, workers=1, environment=limits) as lab:
        cluster = Cluster(lab)
        write(cluster, 1, 1300)
        until(lambda: logged(cluster, "quadlog archive ended with") >= 1, 60)
        assert beginnings(lab) == [0, 0]
        archive.unlink()
        until(lambda: min(beginnings(lab)) > 200, 90)
        write(cluster, 1301, 1800)
        until(lambda: min(beginnings(lab)) > 700, 90)
        [dc] = lab.dcs
        command = [sys.executable, "-m", "quadlog", "compact", str(tmp_path / "bundle")]
        options = ["--kafka", dc["kafka"], "--dc", dc["name"]]
        without = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
        assert "lacks effect 1" in without.stderr
        subprocess.run([*command, *options, "--archive", str(archive)], check=True)
        manifest = Manifest.read(tmp_path / "bundle")
        cluster.wait_until_equal()
        [url] = cluster.workers.values()
        signature, lines = recount(url)
        assert (manifest.after.index, manifest.before.index) == (1800, 0)
        assert (f"{manifest.after.signature:064x}", manifest.after.quads) == (signature, len(lines))
