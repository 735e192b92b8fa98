"""All stores of a data centre are lost behind a shortened log: a backup has what no worker has any more."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from quadlog.snapshots.backups import Backup, backups_in
from tests.support.clusters.away import delete_records, told_of
from tests.support.clusters.cluster import Cluster, counted, until
from tests.support.clusters.controls import put
from tests.support.clusters.log_limits import (
    LOOKS_S,
    beginnings,
    check_one_state,
    until_they_begin_behind,
    write,
)
from tests.support.clusters.trouble import logged
from tests.support.labs import quadlog
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from pathlib import Path


def back_up(directory: Path, url: str) -> Backup:
    """By the command, as an operator does."""
    before = set(backups_in(directory)) if directory.exists() else set()
    done = quadlog("backup", str(directory), "--from", url)
    assert done.returncode == 0, done.stderr
    [path] = set(backups_in(directory)) - before
    assert str(path) in done.stdout
    return Backup.load(path)


def damage(backup: Backup) -> None:
    """A bit of its largest file."""
    largest = max(backup.files.iterdir(), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)


@pytest.mark.long("a backup, and two workers that copy it")
def test_a_backup_replaces_all_stores_that_are_lost(tmp_path: Path) -> None:
    """The newest one is damaged: the one before it is taken, and the log was kept behind that."""
    shelf = tmp_path / "backups"
    shelf.mkdir()
    limits = {
        "QUADLOG_LOG_MAX_SIZE": "300",
        "QUADLOG_LOG_TRIM_EVERY": str(LOOKS_S),
        "QUADLOG_BACKUPS": str(shelf),
    }
    with BROKERS.lab(tmp_path / "lab", dcs=1, workers=2, environment=limits) as lab:
        cluster = Cluster(lab)
        one, other = cluster.workers
        assert put(cluster, "one", "ASK { FILTER NOT EXISTS { <urn:no> ?p ?o } }").status_code < 300
        write(cluster, 1, 250)
        cluster.wait_until_equal()
        older = back_up(shelf, cluster.workers[other])
        assert older.applied.index == 251
        write(cluster, 251, 560)
        until_they_begin_behind(lab, 90)
        time.sleep(3 * LOOKS_S)
        assert 0 < max(beginnings(lab)) <= older.applied.agreed_offset
        newer = back_up(shelf, cluster.workers[one])
        assert newer.applied.index == 561
        write(cluster, 561, 580)
        cluster.wait_until_equal()
        for worker in (one, other):
            lab.kill(worker)
            shutil.rmtree(lab.directory / "nodes" / worker / "data" / "quads")
        damage(newer)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lab.start, (one, other)))
        taken = [worker for worker in (one, other) if logged(cluster, "backup_restored", worker)]
        assert taken
        for worker in taken:
            assert logged(cluster, "backup_refused", worker, backup=str(newer.path)) >= 1
            assert logged(cluster, "backup_restored", worker, index=older.applied.index) == 1
        check_one_state(cluster)
        assert cluster.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409


def test_a_worker_waits_for_a_backup_of_use(tmp_path: Path) -> None:
    """The log does not go on behind the only one: it says so, and serves when a copy is to be had."""
    shelf = tmp_path / "backups"
    with BROKERS.lab(tmp_path / "lab", dcs=1, workers=2, environment={"QUADLOG_BACKUPS": str(shelf)}) as lab:
        cluster = Cluster(lab)
        one, other = cluster.workers
        write(cluster, 1, 50)
        cluster.wait_until_equal()
        backup = back_up(shelf, cluster.workers[one])
        write(cluster, 51, 100)
        cluster.wait_until_equal()
        delete_records(lab.dcs[0]["kafka"], lab.topic("dc1", "agreed"), lab.topic("dc1", "effects"))
        for worker in (one, other):
            lab.kill(worker)
        shutil.rmtree(lab.directory / "nodes" / one / "data" / "quads")
        starting = threading.Thread(target=lab.start, args=(one,))
        starting.start()
        said = (
            f"{backup.path.name}: it goes on at offset {backup.applied.effects_offset} of the effects topic"
        )
        until(lambda: said in (told_of(cluster, one)["catching_up"] or {}).get("obstacle", ""))
        lab.start(other)
        starting.join()
        assert logged(cluster, "copy_taken", one) == 1
        check_one_state(cluster)
        assert counted(cluster.workers[one], "?s <urn:p> ?o") == 11
