"""The replica's thread: however it ends, its process is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.codec.envelope import EPOCH
from quadlog.worker.replica import backlog
from quadlog.worker.replica.following import Following
from tests.support.clusters.cluster import until
from tests.support.workers.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from pathlib import Path


class Panic(BaseException):
    """As Rust's come out of pyoxigraph: no `Exception`."""


@pytest.mark.parametrize("kind", [Panic, OSError])
def test_a_replica_that_cannot_go_on_ends_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """Else it would serve for ever what it had applied by then, without a heartbeat."""
    log = Log()
    first, worker = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    log.agree("INSERT DATA { <urn:s> <urn:p> 1 }")
    first.catch_up()

    def due(_: object) -> None:
        raise kind("it cannot go on")

    monkeypatch.setattr(worker.replica.evaluator_term, "due", due)
    worker.replica.on_records([*log.records[TOPICS.agreed], *log.records[TOPICS.effects]])
    worker.replica._run()
    assert worker.failures == ["it cannot go on"]


def test_what_was_heard_at_once_is_applied_batch_by_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is far behind has heard all there is long before it has applied it, and nothing wakes it."""
    log = Log()
    first, worker = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2", heartbeat=60.0)
    first.take_over()
    for number in range(30):
        log.agree(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
    first.catch_up()
    monkeypatch.setattr(backlog, "BATCH", 5)
    worker.replica.on_records([*log.records[TOPICS.agreed], *log.records[TOPICS.effects]])
    worker.replica.start()
    until(lambda: worker.store.applied.index == 30, 10)
    worker.replica.stop()
    assert worker.store.applied == first.store.applied
    assert worker.failures == []
    worker.close()


def test_effects_that_can_be_applied_are_not_heard_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But those that cannot wait for something behind them, which has to be heard."""
    monkeypatch.setattr(backlog, "EFFECTS", 12)
    monkeypatch.setattr(backlog, "BATCH", 5)
    log = Log()
    first, worker = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    for number in range(20):
        log.agree(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
    first.catch_up()
    following = worker.replica._following
    worker.hear(TOPICS.effects)
    following.apply()
    full = [worker.replica.full()]
    worker.hear(TOPICS.agreed)
    for _ in range(3):
        following.apply()
        full.append(worker.replica.full())
    assert full == [set(), {TOPICS.effects}, set(), set()]
    worker.turn()
    assert worker.store.applied.index == 20
    worker.close()


def test_effects_wait_for_entries_that_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none come any more, a rewind may have to be heard; and where those that came are of other effects."""
    monkeypatch.setattr(backlog, "EFFECTS", 12)
    log = Log()
    first, worker = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    for number in range(20):
        log.agree(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
    first.catch_up()
    following = worker.replica._following
    worker.hear(TOPICS.effects)
    worker.hear(TOPICS.agreed, 1)
    following.apply()
    assert worker.store.applied.index == 1
    assert worker.replica.full() == {TOPICS.effects}
    monkeypatch.setattr("quadlog.worker.replica.following.FED_MS", 0.0)
    following.apply()
    assert worker.replica.full() == set()
    monkeypatch.setattr("quadlog.worker.replica.following.FED_MS", 1_000.0)
    worker.hear(TOPICS.agreed, 1)
    for owner, name, value in ((backlog.Backlog, "stranger", 2), (Following, "goes_on", False)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, value)
            following._look_whether_full()
            assert worker.replica.full() == set(), name
    following._look_whether_full()
    assert worker.replica.full() == {TOPICS.effects}
    worker.close()


def test_what_another_program_wrote_does_not_stop_a_worker(tmp_path: Path) -> None:
    """It would hear it again at each start."""
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    for number in range(2):
        for topic in (TOPICS.agreed, TOPICS.effects):
            log.produce(topic, key=b"order-7", values=[b"of another program"], headers=[(EPOCH, b"x")])
        log.agree(f"INSERT DATA {{ <urn:s> <urn:p> {number} }}")
        worker.catch_up()
    assert (worker.store.applied.index, worker.failures) == (2, [])
    worker.close()
