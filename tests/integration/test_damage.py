"""A damaged store is found at a start and set aside; what is wrong around a store sets none aside."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from quadlog import set_aside as aside
from quadlog.damage import Damage, is_damage
from quadlog.errors import SetupError, StoreDamaged
from quadlog.quadstore.quaddir import open_locked
from quadlog.quadstore.quadstore import QuadStore
from quadlog.set_aside import set_aside, stores_set_aside, told_set_aside
from quadlog.worker import process
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.mender import QUADS
from tests.support.workers.copies import filled
from tests.support.workers.damaged import (
    harm_all,
    large_store,
    remove_all,
    settings_of,
    tables,
    truncate,
    zero,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.settings import WorkerSettings

# --- what is damage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /d/000014.sst offset 0 size 4028",
    "Corruption: Sst file size mismatch between expected 12104892 and file system 0 sstable: /d/000014.sst",
    "Corruption: Corruption: IO error: No such file or directory: While open a file for random read: /d/000014.sst: No",
    "IO error: No such file or directory: While opening a file for sequentially reading: /d/MANIFEST-000033: No such",
    "Corruption: While creating a new Db, wal_dir contains existing log file: : 000032.log",
    "Corruption: CURRENT file does not end with newline",
    "Corruption: checksum mismatch  The file /d/MANIFEST-000033 may be corrupted.",
])  # fmt: skip
def test_what_rocksdb_says_of_damage(text: str) -> None:
    assert is_damage(text)
    assert is_damage(RuntimeError(text))


@pytest.mark.parametrize("text", [
    "IO error: No space left on device: While appending to file: /d/000008.log: No space left on device",
    "IO error: While open a file for random read: /d/000014.sst: Permission denied",
    "Corruption: IO error: While open a file for random read: /d/000014.sst: Too many open files",
    "IO error: While lock file: /d/LOCK: Resource temporarily unavailable",
    "IO error: While pread offset 4096 len 4096: /d/000014.sst: Input/output error",
    "Corruption: Corrupt or unsupported format_version: 8 in /d/000016.sst",
    "Oxigraph needs at least 96 file descriptors when reserving 48 descriptors for non-RocksDB usage",
    "IO error: No such file or directory: while opening /elsewhere/load.nt",
])  # fmt: skip
def test_what_is_wrong_around_a_store_is_no_damage(text: str) -> None:
    assert not is_damage(text)
    assert not is_damage(OSError(text))


HARMS: dict[str, Callable[[Path], object]] = {
    "a table's index": lambda files: zero(tables(files)[0], -1500, 64),
    "a table cut": lambda files: truncate(tables(files)[0]),
    "a table emptied": lambda files: os.truncate(tables(files)[0], 0),
    "a table gone": lambda files: tables(files)[0].unlink(),
    "all tables": lambda files: harm_all(files, "*.sst", 64),
    "the manifest": lambda files: harm_all(files, "MANIFEST-*"),
    "the manifest gone": lambda files: remove_all(files, "MANIFEST-*"),
    "CURRENT written over": lambda files: (files / "CURRENT").write_text("xx"),
    "the name of the reserved graph gone": lambda files: (files.parent / "reserved-graph").unlink(),
    "the name emptied": lambda files: (files.parent / "reserved-graph").write_text(""),
    "the name written over": lambda files: (files.parent / "reserved-graph").write_bytes(b"\0\xff"),
    "another name": lambda files: (files.parent / "reserved-graph").write_text("urn:other\n"),
}


@pytest.mark.parametrize("name", HARMS)
def test_found_at_a_start(data: Path, name: str) -> None:
    HARMS[name](data / QUADS / "quads")
    with pytest.raises(StoreDamaged, match=str(data / QUADS)):
        QuadStore.open(data / QUADS)


def test_a_store_that_is_held_or_cannot_be_written_is_not_damaged(data: Path) -> None:
    held = open_locked(data / QUADS)
    with pytest.raises(SetupError, match="StoreLocked"):
        QuadStore.open(data / QUADS)
    del held
    files = data / QUADS / "quads"
    shutil.rmtree(files)
    files.write_text("")
    with pytest.raises(SetupError, match="StoreUnusable"):
        QuadStore.open(data / QUADS)


def test_a_missing_file_that_no_store_has_is_none_of_its_damage(tmp_path: Path) -> None:
    damage = Damage(tmp_path)
    assert not damage.note(OSError("No such file or directory: 'schema.json'"))
    assert damage.reason == ""


# --- at a start ---------------------------------------------------------------------------------------------


class Anew(Exception):
    """The process becomes a new one."""


def run_worker(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker does of its start, up to where it has opened its store."""

    def anew() -> None:
        raise Anew

    class Opened:
        def __init__(self, settings: WorkerSettings) -> None:
            QuadStore.open(settings.data_dir / QUADS).close()

        def run(self) -> int:
            return 0

    monkeypatch.setattr(process, "begin_anew", anew)
    monkeypatch.setattr(process, "WorkerProcess", Opened)
    process.run(settings_of(data))


def test_a_worker_sets_it_aside_and_begins_without_one(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HARMS["a table cut"](data / QUADS / "quads")
    found = sorted(path.name for path in (data / QUADS / "quads").iterdir())
    with pytest.raises(Anew):
        run_worker(data, monkeypatch)
    [kept] = stores_set_aside(data / QUADS)
    assert sorted(path.name for path in data.iterdir()) == [kept.name]
    assert set(found) <= {path.name for path in (kept / "quads").iterdir()}  # nothing of it is lost
    assert f"{kept} was set aside: " in told_set_aside(data / QUADS)
    assert tables(kept / "quads")[0].name in told_set_aside(data / QUADS)
    run_worker(data, monkeypatch)  # and goes on with a new one
    assert stores_set_aside(data / QUADS) == [kept]


@pytest.mark.parametrize("error", [
    OSError("IO error: No space left on device: While appending to file: /d/000008.log"),
    RuntimeError("Invalid argument: IO error: While open a file for random read: /d/CURRENT: Permission denied"),
])  # fmt: skip
def test_what_is_no_damage_ends_the_process_and_touches_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: Path) -> QuadStore:
        raise error

    monkeypatch.setattr(QuadStore, "open", fail)
    with pytest.raises(type(error), match=r"No space|Permission denied"):
        run_worker(data, monkeypatch)
    assert [path.name for path in data.iterdir()] == [QUADS]


def test_the_one_after_it_is_not_set_aside_within_minutes(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_aside(data / QUADS, "Corruption: first")
    filled(data / QUADS, 10).close()
    (data / QUADS / aside.ORIGIN).write_text("http://donor\n")
    with pytest.raises(SetupError, match=r"Replace the disk of .*, unless http://donor gave a damaged copy"):
        set_aside(data / QUADS, "Corruption: second")
    assert (data / QUADS).exists()
    monkeypatch.setattr(aside, "AGAIN_S", 0.0)
    monkeypatch.setattr(aside, "_TIME", "later")
    set_aside(data / QUADS, "Corruption: second")
    filled(data / QUADS, 10).close()
    with pytest.raises(SetupError, match=r"Look at the disk of .*, remove them"):
        set_aside(data / QUADS, "Corruption: third")
    assert (data / QUADS).exists()
    assert len(stores_set_aside(data / QUADS)) == aside.KEPT


def test_a_worker_whose_store_stays_says_so_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    HARMS["a table cut"](data / QUADS / "quads")
    with pytest.raises(Anew):
        run_worker(data, monkeypatch)
    large_store(data / QUADS).close()
    HARMS["a table cut"](data / QUADS / "quads")
    with pytest.raises(SetupError, match="its successor is damaged, too") as refused:
        run_worker(data, monkeypatch)
    assert str(refused.value).count("is not set aside") == 1
    assert (data / QUADS).exists()


def test_an_alarm_tells_of_it_until_somebody_removes_it(data: Path) -> None:
    set_aside(data / QUADS, "Corruption: in 000014.sst")
    health = Health(data)
    assert "000014.sst" in health.set_aside
    shutil.rmtree(stores_set_aside(data / QUADS)[0])
    assert health.set_aside == ""
    assert Health(data).set_aside == Health().set_aside == ""
