"""A damaged store is found by whatever reads it, and set aside; what is wrong around a store sets none aside."""

from __future__ import annotations

import os
import shutil
import time
from threading import Event
from typing import TYPE_CHECKING

import pytest

from quadlog import aside
from quadlog.aside import set_aside, stores_set_aside, told_set_aside
from quadlog.backing_up import run_backup
from quadlog.damage import Damage, is_damage
from quadlog.errors import SetupError, StoreDamaged, Unavailable
from quadlog.master import own
from quadlog.quaddir import open_locked
from quadlog.quadstore import QuadStore
from quadlog.settings import MasterSettings, WorkerSettings
from quadlog.store import MasterStore
from quadlog.units import MIB
from quadlog.worker import process, scrub
from quadlog.worker.dryrun import DryRuns
from quadlog.worker.health import Health
from quadlog.worker.limits import Limits
from quadlog.worker.mend import QUADS
from quadlog.worker.scrub import Scrubber
from quadlog.worker.tenure import Asked
from tests.support.clusters.cluster import until
from tests.support.workers.copies import filled, given_by, giving, new_taker
from tests.support.workers.damaged import harm_blocks, large_store, tables, zero
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.served import served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READ = "INSERT { ?s <urn:q> ?o } WHERE { ?s <urn:p> ?o }"
ENDLESS = "INSERT { <urn:n> <urn:q> ?n } WHERE { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } }"
"""pyoxigraph counts the same error again and again."""
MANY = "INSERT DATA {" + " ".join(f"<urn:s{n}> <urn:p> 'value {n:0100}' ." for n in range(3_000)) + "}"


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


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def harm_all(files: Path, names: str, size: int = 16) -> None:
    for file in files.glob(names):
        zero(file, file.stat().st_size // 2, size)


def remove_all(files: Path, names: str) -> None:
    for file in files.glob(names):
        file.unlink()


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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that nobody has open."""
    path = tmp_path_factory.mktemp("whole") / QUADS
    large_store(path).close()
    return path


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A worker's directory with a copy of it."""
    shutil.copytree(whole, tmp_path / QUADS)
    return tmp_path


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


def settings_of(data: Path) -> WorkerSettings:
    return WorkerSettings(
        node_id="w1", dc="dc1", kafka="127.0.0.1:1", port=1, data_dir=data, worker_url="http://127.0.0.1:1"
    )


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
    with pytest.raises(SetupError, match=r"disk of .* replaced, or http://donor gave a damaged copy"):
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


# --- while it runs ------------------------------------------------------------------------------------------


def test_no_update_is_rejected_because_a_store_is_damaged(tmp_path: Path) -> None:
    """Its WHERE cannot be read here: another worker evaluates it."""
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    log.agree(MANY)
    worker.catch_up()
    worker.store._store.flush()
    worker.close()
    harm_blocks(tmp_path / "w1" / "quads")
    worker = Worker(tmp_path, log, "w1")
    before = len(log.effects())
    worker.take_over()
    log.agree(READ)
    with pytest.raises(StoreDamaged):
        worker.catch_up()
    assert len(log.effects()) == before


def test_no_update_is_rejected_because_a_damaged_store_has_no_end(tmp_path: Path) -> None:
    """As a suspect it takes too long here, too."""
    log = Log()
    first = Worker(tmp_path, log, "w1")
    first.take_over()
    log.agree(MANY)
    first.catch_up()
    log.agree(ENDLESS)
    worker = Worker(tmp_path, log, "w2")
    worker.hear(TOPICS.agreed)
    worker.hear(TOPICS.effects)
    worker.replica._following.apply()
    worker.store._store.flush()
    worker.replica.tenure._limits = Limits(seconds=0.2, memory=2048 * MIB)  # type: ignore[misc]
    harm_blocks(tmp_path / "w2" / "quads")
    before = len(log.effects())
    worker.replica.tenure.take_over(Asked(TERM))
    worker.hear(TOPICS.effects)
    deadline = time.monotonic() + 60

    def evaluate() -> None:
        while time.monotonic() < deadline:
            worker.replica._evaluate()

    with pytest.raises(StoreDamaged):
        evaluate()
    assert len(log.effects()) == before
    worker.replica.tenure.close()


def test_a_commit_that_meets_it_ends_the_process_in_order(data: Path) -> None:
    """RocksDB merges files at some commit, and meets what is wrong in them."""
    harm_blocks(data / QUADS / "quads")
    store = QuadStore.open(data / QUADS)
    left: list[bool] = []
    store.damage.leave = lambda: left.append(True)
    with pytest.raises(RuntimeError) as found:
        for _ in store.lines():
            pass
    assert store.damage.note(found.value)
    assert store.damage.note(found.value)
    assert left == [True]


def test_the_replica_tells_its_process_to_leave(data: Path) -> None:
    worker = Worker(data, Log(), "w1")

    def hurt() -> None:
        raise RuntimeError("Corruption: block checksum mismatch in 000014.sst")

    worker.replica._turn = hurt  # type: ignore[method-assign, assignment]
    worker.replica._run()
    assert worker.store.damage.reason
    assert worker.failures == []
    worker.replica._turn = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    worker.store.damage.reason = ""
    worker.replica._run()
    assert worker.failures == ["division by zero"]
    worker.close()


@pytest.mark.anyio
async def test_a_reading_process_that_meets_it_is_a_reason_to_leave(tmp_path: Path) -> None:
    """Its copy has the worker's own files; who asks is told to ask another worker."""
    async with served(tmp_path, quads=3000) as here:
        store = here.worker.store
        store._store.flush()
        harm_blocks(store._path / "quads")
        answer = await here.client.get("/statements")
        assert answer.status_code == 503, answer.text
        assert answer.json()["error"] == "Unavailable"
        assert "ask another worker" in answer.text
        assert ".sst" in store.damage.reason


@pytest.mark.anyio
async def test_a_copy_that_is_damaged_by_itself_is_thrown_away(tmp_path: Path) -> None:
    async with served(tmp_path, quads=3000, most=1) as here:
        store = here.worker.store
        store._store.flush()
        assert (await here.ask("ASK {}")).status_code == 200
        [reader] = here.readers.idle
        copy = reader._directory / "quads"
        for table in tables(copy):
            content = table.read_bytes()
            table.unlink()
            table.write_bytes(content)  # no hard link any more
        here.readers.note_damage(reader, f"Corruption: block checksum mismatch in {tables(copy)[0]}")
        assert store.damage.reason == ""
        own = tables(store._path / "quads")[0]
        (copy / own.name).unlink(missing_ok=True)  # it merged its tables
        (copy / own.name).hardlink_to(own)
        here.readers.note_damage(reader, f"Corruption: block checksum mismatch in {copy / own.name}")
        assert own.name in store.damage.reason


def test_a_scrub_that_meets_it(data: Path) -> None:
    harm_blocks(data / QUADS / "quads")
    store, health = QuadStore.open(data / QUADS), Health()
    scrubber = Scrubber(store, data / "scrub", health, period=0.1, share=1)
    with pytest.raises(StoreDamaged):
        scrubber.scrub()
    assert ".sst" in store.damage.reason
    assert health.scrub is None  # it is not one whose quads were changed


def test_a_scrub_whose_copy_meets_what_a_compaction_met(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then RocksDB makes no copy any more, and says why."""
    store = QuadStore.open(data / QUADS)
    scrubber = Scrubber(store, data / "scrub", Health(), period=0, share=1)
    said = ["Corruption: block checksum mismatch in /d/000014.sst", "the copy failed"]

    def copy(_directory: Path) -> None:
        raise RuntimeError(said[0])

    monkeypatch.setattr(store, "copy", copy)
    with pytest.raises(StoreDamaged, match="000014"):
        scrubber.scrub()
    assert "000014.sst" in store.damage.reason
    said.pop(0)
    with pytest.raises(RuntimeError, match="the copy failed"):
        scrubber.scrub()
    store.close()


def test_a_scrub_that_could_not_read_for_another_reason(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = QuadStore.open(data / QUADS)
    scrubber = Scrubber(store, data / "scrub", Health(), period=0, share=1)
    counted = {"signature": "00" * 32, "quads": 1, "unreadable": "IO error: Too many open files"}
    monkeypatch.setattr(scrubber, "_count", lambda: counted)
    with pytest.raises(ValueError, match="Too many open files"):
        scrubber.scrub()
    assert store.damage.reason == ""
    store.close()


def test_a_query_that_takes_too_long_has_what_is_stored_counted(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "FIRST_S", 1e6)
    store = QuadStore.open(data / QUADS)
    scrubber = Scrubber(store, data / "scrub", Health(), period=1e6, share=1)
    scrubber.start()
    harm_blocks(data / QUADS / "quads")
    scrubber.soon()
    until(lambda: store.damage.reason != "")
    assert ".sst" in store.damage.reason
    scrubber.stop()


def test_a_doubt_during_a_scrub_begins_no_other_one_and_its_end_is_heeded(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scrub, "FIRST_S", 0.01)
    store = QuadStore.open(data / QUADS)
    scrubber, began = Scrubber(store, data / "scrub", Health(), period=1e6, share=1), list[float]()
    ends = Event()

    def one() -> None:
        began.append(time.monotonic())
        scrubber.soon()
        if ends.is_set():
            scrubber._stopping.set()
            scrubber._woken.set()

    monkeypatch.setattr(scrubber, "scrub", one)
    scrubber.start()
    until(lambda: began)
    time.sleep(0.5)
    assert len(began) == 1
    ends.set()
    scrubber._ended = float("-inf")
    scrubber.soon()
    until(lambda: not scrubber._thread.is_alive(), 5)
    store.close()


def test_a_dry_run_that_meets_it(tmp_path: Path) -> None:
    store = large_store(tmp_path / QUADS)
    runs = DryRuns(store, settings_of(tmp_path))
    harm_blocks(tmp_path / QUADS / "quads")
    with pytest.raises(Unavailable, match=r"no dry run can be held here: .*Corruption"):
        runs.run(READ.encode(), "application/sparql-update", {}, b"1" * 16, Event())
    assert ".sst" in store.damage.reason


# --- what replaces it ---------------------------------------------------------------------------------------


def test_a_copy_that_replaces_a_damaged_store_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first donor gives one that is as damaged; the next one's is taken."""
    bad, good = large_store(tmp_path / "bad"), large_store(tmp_path / "good")
    harm_blocks(tmp_path / "bad" / "quads")
    taker = new_taker(tmp_path, monkeypatch)
    (taker.directory / "quads.damaged-1").mkdir()
    with giving(bad, tmp_path / "1") as first, giving(good, tmp_path / "2") as second:
        given_by(monkeypatch, first.url)
        with pytest.raises(Unavailable, match="Corruption"):
            taker.copying.fetch(0)
        assert taker.opened().applied.index == 3  # the old one stays
        given_by(monkeypatch, first.url, second.url)
        taker.copying.fetch(0)
        assert (taker.directory / QUADS / aside.ORIGIN).read_text() == f"{second.url}\n"
    assert taker.opened().applied == good.applied


def test_no_backup_of_a_damaged_store(tmp_path: Path) -> None:
    store = large_store(tmp_path / QUADS)
    harm_blocks(tmp_path / QUADS / "quads")
    with giving(store, tmp_path / "out") as giver, pytest.raises(StoreDamaged, match="take another worker"):
        run_backup(tmp_path / "backups", giver.url, print)
    assert not list((tmp_path / "backups").glob("*dc1*"))


# --- a master's ---------------------------------------------------------------------------------------------


def master_settings(data: Path, *, others: bool = True) -> MasterSettings:
    peer = {"id": "dc2-m1", "dc": "dc2", "url": "http://127.0.0.1:1", "kafka": "127.0.0.1:1"}
    return MasterSettings.model_validate(
        {
            "node_id": "dc1-m1",
            "dc": "dc1",
            "kafka": "127.0.0.1:1",
            "data_dir": data,
            "port": 1,
            "master_url": "http://127.0.0.1:1",
            "peer": {"1": peer} if others else {},
        }
    )


def master_store(data: Path) -> tuple[Path, bytes]:
    """In files, and its incarnation."""
    path = data / own.STORE
    store = MasterStore(path)
    incarnation = store.incarnation
    store.close()
    MasterStore(path).close()
    return path, incarnation


MASTER_HARMS: dict[str, Callable[[Path], object]] = {
    "CURRENT written over": lambda path: (path / "CURRENT").write_text("xx"),
    "the manifest": lambda path: harm_all(path, "MANIFEST-*"),
    "the manifest gone": lambda path: remove_all(path, "MANIFEST-*"),
    "tables gone": lambda path: remove_all(path, "*.sst"),
    "met while it ran": lambda path: own.note_damage(
        master_settings(path.parent), "Corruption: block checksum mismatch in 000014.sst"
    ),
}


@pytest.mark.parametrize("name", MASTER_HARMS)
def test_a_master_sets_it_aside_and_is_another_incarnation(tmp_path: Path, name: str) -> None:
    path, incarnation = master_store(tmp_path)
    MASTER_HARMS[name](path)
    again = own._opened(master_settings(tmp_path), path, lambda: incarnation)
    assert again.incarnation > incarnation
    again.close()
    [kept] = stores_set_aside(path)
    assert (kept / aside.SAID).exists()
    own._opened(master_settings(tmp_path), path, lambda: None).close()  # and is not set aside again
    assert stores_set_aside(path) == [kept]


def test_the_only_master_there_is_keeps_it(tmp_path: Path) -> None:
    path, _ = master_store(tmp_path)
    (path / "CURRENT").write_text("xx")
    before = sorted(file.name for file in path.iterdir())
    with pytest.raises(StoreDamaged, match="no other data centre knows what this master promised"):
        own._opened(master_settings(tmp_path, others=False), path, lambda: None)
    assert sorted(file.name for file in path.iterdir() if not file.name.startswith("LOG")) == [
        name for name in before if not name.startswith("LOG")
    ]


def test_what_ended_a_master_otherwise_leaves_its_store(tmp_path: Path) -> None:
    own.note_damage(master_settings(tmp_path), "no Kafka broker answers")
    own.note_damage(master_settings(tmp_path), "")
    assert not list(tmp_path.iterdir())
