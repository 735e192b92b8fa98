"""What a store keeps in memory is written out while it goes on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from quadlog.core.effects.lines import ChangeLines
from quadlog.quadstore import flushing
from quadlog.quadstore.applied import Applied
from quadlog.quadstore.flushing import Flushing
from quadlog.quadstore.quaddir import FILES
from quadlog.quadstore.quadstore import QuadStore
from tests.support.workers.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from pathlib import Path


def insert(store: QuadStore, count: int, *, quads: int = 0) -> None:
    """So many new lines, in one commit; `quads`: what the effect says that there are."""
    index = store.applied.index + 1
    lines = tuple(f'<urn:s{index}-{number}> <urn:p> "{number}" .' for number in range(count))
    store.apply([ChangeLines(inserted=lines)], Applied(index=index, quads=quads))


def written(path: Path) -> int:
    """Tables on disk."""
    return len(list((path / FILES).glob("*.sst")))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "LEAST", 1000)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("quads", "enough"), [(0, 1000), (9_000, 1000), (30_000, 3000)])
def test_it_is_written_out_after_a_tenth_of_what_there_is(tmp_path: Path, quads: int, enough: int) -> None:
    store, flushes = QuadStore.open(tmp_path), list[int]()

    def flush() -> None:
        store._store.flush()
        flushes.append(written(tmp_path))

    store._flushing._flush = flush
    for count in range(2):
        insert(store, enough - 100, quads=quads)
        store._flushing.close()
        assert len(flushes) == count
        insert(store, 100, quads=quads)
        store._flushing.close()
        assert len(flushes) == count + 1
        assert flushes[count] > 0
    store.close()
    again = QuadStore.open(tmp_path)
    assert again.recount()[1] == 2 * enough
    again.close()


@pytest.mark.usefixtures("few")
def test_what_is_decided_before_it_is_shown_counts(tmp_path: Path) -> None:
    """By a worker that evaluates, what it hears back changes nothing any more."""
    log = Log()
    worker, flushes = Worker(tmp_path, log, "w1"), list[int]()
    worker.take_over()
    worker.store._flushing._flush = lambda: flushes.append(1)
    quads = " ".join(f"<urn:s{number}> <urn:p> {number} ." for number in range(300))
    log.agree(f"INSERT DATA {{ {quads} }}")
    worker.catch_up()
    for update in range(4):
        log.agree(
            f"DELETE {{ ?s <urn:p> ?o }} INSERT {{ ?s <urn:p> <urn:{update}> }} WHERE {{ ?s <urn:p> ?o }}"
        )
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert worker.store.is_ahead
    worker.store._flushing.close()
    assert flushes
    worker.close()


@pytest.mark.usefixtures("few")
def test_commits_go_on_meanwhile_and_the_end_waits(tmp_path: Path) -> None:
    """Another one does not begin before the first has ended."""
    store = QuadStore.open(tmp_path)
    flushes, may_end = list[int](), threading.Event()

    def slow() -> None:
        flushes.append(1)
        may_end.wait(20)
        store._store.flush()

    store._flushing._flush = slow
    for _ in range(3):
        insert(store, 1000)
    assert (store.applied.index, flushes) == (3, [1])
    closing = threading.Thread(target=store.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    may_end.set()
    closing.join(10)
    assert not closing.is_alive()
    again = QuadStore.open(tmp_path)
    assert (again.applied.index, again.recount()[1]) == (3, 3000)
    again.close()


@pytest.mark.usefixtures("few")
def test_what_keeps_it_from_that_is_no_end() -> None:
    """Of a full disk the next commit is told."""
    flushes: list[int] = []

    def full() -> None:
        flushes.append(1)
        raise OSError("no space left on device")

    here = Flushing(full)
    for count in (1, 2):
        here.changed(1000, 0)
        here.close()
        assert len(flushes) == count
