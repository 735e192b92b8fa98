"""A worker that meets damage while it runs rejects nothing for it, leaves, and what replaces its store is counted."""

from __future__ import annotations

import time
from threading import Event
from typing import TYPE_CHECKING

import pytest

from quadlog import set_aside
from quadlog.cli.backing_up import run_backup
from quadlog.errors import StoreDamaged, Unavailable
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings.units import MIB
from quadlog.worker.evaluate.dry_runs import DryRuns
from quadlog.worker.evaluate.limits import EvaluationLimits
from quadlog.worker.repair import scrub
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.mender import QUADS
from quadlog.worker.repair.scrub import Scrubber
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.clusters.cluster import until
from tests.support.workers.copies import given_by, giving, new_taker
from tests.support.workers.damaged import (
    harm_blocks,
    large_store,
    settings_of,
    tables,
)
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.served import served

if TYPE_CHECKING:
    from pathlib import Path

READ = "INSERT { ?s <urn:q> ?o } WHERE { ?s <urn:p> ?o }"
ENDLESS = "INSERT { <urn:n> <urn:q> ?n } WHERE { SELECT (COUNT(*) AS ?n) { ?s ?p ?o } }"
"""pyoxigraph counts the same error again and again."""
MANY = "INSERT DATA {" + " ".join(f"<urn:s{n}> <urn:p> 'value {n:0100}' ." for n in range(3_000)) + "}"


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
    worker.replica.evaluator_term._limits = EvaluationLimits(seconds=0.2, memory=2048 * MIB)  # type: ignore[misc]
    harm_blocks(tmp_path / "w2" / "quads")
    before = len(log.effects())
    worker.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    worker.hear(TOPICS.effects)
    deadline = time.monotonic() + 60

    def evaluate() -> None:
        while time.monotonic() < deadline:
            worker.replica._evaluate()

    with pytest.raises(StoreDamaged):
        evaluate()
    assert len(log.effects()) == before
    worker.replica.evaluator_term.close()


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
        reader.note_damage(store, f"Corruption: block checksum mismatch in {tables(copy)[0]}")
        assert store.damage.reason == ""
        own = tables(store._path / "quads")[0]
        (copy / own.name).unlink(missing_ok=True)  # it merged its tables
        (copy / own.name).hardlink_to(own)
        reader.note_damage(store, f"Corruption: block checksum mismatch in {copy / own.name}")
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
        assert (taker.directory / QUADS / set_aside.ORIGIN).read_text() == f"{second.url}\n"
    assert taker.opened().applied == good.applied


def test_no_backup_of_a_damaged_store(tmp_path: Path) -> None:
    store = large_store(tmp_path / QUADS)
    harm_blocks(tmp_path / QUADS / "quads")
    with giving(store, tmp_path / "out") as giver, pytest.raises(StoreDamaged, match="take another worker"):
        run_backup(tmp_path / "backups", giver.url, print)
    assert not list((tmp_path / "backups").glob("*dc1*"))
