"""While a commit is under way a worker hears on, and makes the next batch ready: it comes to the same."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from quadlog.codec.envelope import EPOCH
from quadlog.core.records import Fence
from quadlog.worker.replica import backlog
from tests.support.clusters.cluster import until
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.sides import COMMON, OURS, THEIRS, Split, whole_of, write_handover
from tests.support.workers.updates import Generator

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.quadstore.quadstore import QuadStore

ENTRIES = 40


class Commit:
    """The store's, held up."""

    def __init__(self, store: QuadStore, hold: Callable[[], None]) -> None:
        self.threads: set[str] = set()
        self._commit, self._hold = store.apply_updates, hold

    def __call__(self, *args: object, **named: object) -> None:
        self.threads.add(threading.current_thread().name)
        self._hold()
        self._commit(*args, **named)  # type: ignore[arg-type]


def held_up(monkeypatch: pytest.MonkeyPatch, worker: Worker, hold: Callable[[], None]) -> Commit:
    """Every commit of this worker is, from now on."""
    commit = Commit(worker.store, hold)
    monkeypatch.setattr(worker.store, "apply_updates", commit)
    return commit


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Of some entries that a worker evaluated, and batches of five."""
    log = Log()
    first = Worker(tmp_path, log, "w1")
    first.take_over()
    for number in range(ENTRIES):
        log.agree(
            f"DELETE WHERE {{ <urn:s> <urn:p> ?o }} ; INSERT DATA {{ <urn:s> <urn:p> {number} . <urn:{number}> a 1 }}"
        )
    first.catch_up()
    first.close()
    monkeypatch.setattr(backlog, "BATCH", 5)
    return log


def records_of(log: Log) -> list[object]:
    return [*log.records[TOPICS.agreed], *log.records[TOPICS.effects]]


def test_the_next_batch_is_made_ready_meanwhile(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody is told of one that is under way."""
    worker, may_end = Worker(tmp_path, log, "w2", heartbeat=60.0), threading.Event()
    commit = held_up(monkeypatch, worker, lambda: (may_end.wait(20), None)[1])
    checked: list[int] = []
    check = worker.replica._following._check_signatures

    def checking(effects: list[object]) -> None:
        checked.append(len(effects))
        check(effects)  # type: ignore[arg-type]

    monkeypatch.setattr(worker.replica._following, "_check_signatures", checking)
    worker.replica.on_records(records_of(log))  # type: ignore[arg-type]
    worker.replica.start()
    until(lambda: checked == [5, 5], 10)
    time.sleep(0.1)
    assert checked == [5, 5], "one is under way, and the next one waits for it"
    assert worker.store.applied.index == worker.replica.beat().applied.index == 0
    may_end.set()
    until(lambda: worker.store.applied.index == ENTRIES, 10)
    worker.replica.stop()
    assert any(name.startswith("commits") for name in commit.threads)
    assert worker.failures == []
    assert worker.store.recount()[0] == worker.store.applied.signature
    worker.close()


@pytest.mark.parametrize("kind", [OSError, BaseException])
def test_one_that_fails_ends_the_process(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """A full disk, say; and nothing behind it is applied."""
    worker, begun = Worker(tmp_path, log, "w2", heartbeat=60.0), list[int]()

    def fail() -> None:
        begun.append(1)
        if len(begun) == 3:
            raise kind("no space left")

    held_up(monkeypatch, worker, fail)
    worker.replica.on_records(records_of(log))  # type: ignore[arg-type]
    worker.replica.start()
    until(lambda: worker.failures == ["no space left"], 10)
    worker.replica.stop()
    assert (worker.store.applied.index, len(begun)) == (10, 3)
    worker.close()


def test_who_stops_ends_what_is_under_way(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the store is closed."""
    worker = Worker(tmp_path, log, "w2", heartbeat=60.0)
    begun = threading.Event()

    def slow() -> None:
        begun.set()
        time.sleep(0.2)

    held_up(monkeypatch, worker, slow)
    worker.replica.on_records(records_of(log))  # type: ignore[arg-type]
    worker.replica.start()
    begun.wait(10)
    worker.replica.stop()
    applied = worker.store.applied
    assert applied.index > 0
    worker.close()
    again = Worker(tmp_path, log, "w2")
    assert again.store.applied == applied
    assert again.store.recount()[0] == applied.signature
    again.close()


@pytest.mark.parametrize("what", ["cut", "rewind", "handover", "fence"])
def test_what_is_no_effect_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It may be about what is in the store."""
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    monkeypatch.setattr(backlog, "BATCH", 1)
    lags, may_end = Worker(tmp_path, split.ours, "lags"), threading.Event()
    held_up(monkeypatch, lags, lambda: (may_end.wait(20), None)[1])
    following = lags.replica._following
    following.commits.begin()
    for topic in (TOPICS.agreed, TOPICS.effects):
        lags.hear(topic)
    following.apply()
    match what:
        case "handover":
            write_handover(split.ours)
        case "fence":
            fence = Fence(term=TERM, attempt=9, worker="else")
            split.ours.produce(
                TOPICS.effects, key=b"fence", values=[codec.encode(fence)], headers=[(EPOCH, b"1")]
            )
        case _:
            split.give_way()
    topic = TOPICS.agreed if what == "cut" else TOPICS.effects
    hearing = threading.Thread(target=lags.hear, args=(topic, 1))
    hearing.start()
    hearing.join(0.2)
    assert hearing.is_alive()
    assert lags.store.applied.index == 0
    may_end.set()
    hearing.join(10)
    assert not hearing.is_alive()
    assert lags.store.applied.index >= (0 if what == "rewind" else 1)
    following.commits.close()
    lags.close()
    split.close()


@pytest.mark.parametrize("why", ["it evaluates", "entries may have to wait again"])
def test_who_may_do_something_else_with_the_store_waits_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    log = Log()
    first, worker = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    for number in range(3):
        log.agree(f"DELETE DATA {{ <urn:absent> <urn:p> {number} }}")
    for topic in (TOPICS.agreed, TOPICS.effects):
        first.hear(topic)
        first.turn()
    if why == "it evaluates":
        worker = first
        for number in range(3):
            log.agree(f"DELETE DATA {{ <urn:absent> <urn:p> {number} }}")
        worker.hear(TOPICS.agreed)
        worker.turn()
    else:
        worker.replica._returning.owes = True
        monkeypatch.setattr(worker.replica._returning, "take_up", lambda: None)
        worker.hear(TOPICS.agreed)
    monkeypatch.setattr(backlog, "BATCH", 1)
    before, may_end = worker.store.applied.index, threading.Event()
    commit = held_up(monkeypatch, worker, lambda: (may_end.wait(20), None)[1])
    following = worker.replica._following
    following.commits.begin()
    worker.hear(TOPICS.effects)
    applying = threading.Thread(target=following.apply, name="applies")
    applying.start()
    applying.join(0.2)
    assert applying.is_alive()
    may_end.set()
    applying.join(10)
    assert (worker.store.applied.index, commit.threads) == (before + 1, {"applies"})
    following.commits.close()
    first.close()
    if worker is not first:
        worker.close()


@pytest.mark.parametrize("run", range(6))
def test_whatever_is_heard_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int) -> None:
    """Cuts, rewinds, handovers and fences too: they find the store as it would be if nothing were done meanwhile."""
    generator = Generator(100 + run)
    chance = generator.chance
    counts = [chance.randint(*bounds) for bounds in ((5, 25), (5, 40), (5, 25))]
    split = Split(tmp_path, *([generator.update() for _ in range(count)] for count in counts))
    lags = Worker(tmp_path, split.ours, "lags", heartbeat=60.0)
    split.give_way(chance.choice((split.fork, chance.randint(0, split.fork))))
    monkeypatch.setattr(backlog, "BATCH", chance.randint(1, 3))
    random_s = random.Random(run)
    commit = held_up(monkeypatch, lags, lambda: time.sleep(random_s.choice((0, 0.002, 0.01))))
    lags.replica.start()
    read = dict.fromkeys((TOPICS.agreed, TOPICS.effects), 0)
    while left := [topic for topic, at in read.items() if at < len(split.ours.records[topic])]:
        topic, count = chance.choice(left), chance.randint(1, 20)
        lags.replica.on_records(split.ours.records[topic][read[topic] : read[topic] + count])
        read[topic] += count
        time.sleep(chance.choice((0, 0, 0.005)))
    until(lambda: lags.failures or lags.store.applied.point == split.b.store.applied.point, 20)
    lags.replica.stop()
    assert lags.failures == []
    assert whole_of(lags) == whole_of(split.b)
    assert any(name.startswith("commits") for name in commit.threads)
    lags.close()
    split.close()
