"""What changes a store behind its back is found; what is in order is left in peace."""

from __future__ import annotations

import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from pyoxigraph import Literal, NamedNode, Quad, Store

from quadlog.errors import Forbidden, StateError, StoreDamaged, Unavailable
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings import WorkerSettings
from quadlog.worker.repair import mender
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.mender import Mender, empty, last_rebuild, tidy
from quadlog.worker.repair.recount import ScrubPace
from quadlog.worker.repair.scrub import Scrubber
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.stores import DATA, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.quadstore.applied import Applied

QUAD = Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal("o"))


@pytest.fixture
def store(tmp_path: Path) -> QuadStore:
    store = QuadStore.open(tmp_path / "quads")
    run(store, DATA)
    return store


def scrubber(
    store: QuadStore, tmp_path: Path, health: Health | None = None, *, period: float = 0
) -> Scrubber:
    return Scrubber(store, tmp_path / "scrub", health or Health(), period=period, share=1)


def behind_its_back(tmp_path: Path, change: Callable[[Store], None]) -> QuadStore:
    """The store opened again, after another program changed it."""
    files = Store(tmp_path / "quads" / "quads")
    change(files)
    files.flush()
    del files
    return QuadStore.open(tmp_path / "quads")


def test_what_is_as_it_was_applied(store: QuadStore, tmp_path: Path) -> None:
    found = scrubber(store, tmp_path).scrub()
    assert (found.index, found.quads) == (store.applied.index, store.applied.quads)
    assert found.found == found.expected == store.applied.signature.to_bytes(32, "big")
    assert not (tmp_path / "scrub").exists()


@pytest.mark.parametrize("change", [
    lambda files: files.add(QUAD),
    lambda files: files.remove(next(q for q in files if "quadlog" not in str(q.graph_name))),
    lambda files: files.add_graph(NamedNode("urn:new")),
    lambda files: files.add(Quad(NamedNode("urn:s"), NamedNode("urn:p"), Literal("o"), reserved(files))),
])  # fmt: skip
def test_one_quad_or_graph_too_many_or_too_few(
    store: QuadStore, tmp_path: Path, change: Callable[[Store], None]
) -> None:
    applied = store.applied
    store.close()
    again = behind_its_back(tmp_path, change)
    assert again.applied == applied  # nothing shows in what it says of itself
    found = scrubber(again, tmp_path).scrub()
    assert found.index == applied.index
    assert found.found != found.expected == applied.signature.to_bytes(32, "big")


def reserved(files: Store) -> NamedNode:
    [graph] = [g for g in files.named_graphs() if isinstance(g, NamedNode) and "quadlog" in g.value]
    return graph


def turn_a_bit(place: Path, near: bytes) -> None:
    """In the file of the store that holds this; again: it is as before."""
    [table] = [file for file in place.glob("*.sst") if near in file.read_bytes()]
    content = bytearray(table.read_bytes())
    content[content.index(near) + len(near) + 500] ^= 1
    table.write_bytes(content)


def test_a_disk_that_turned_a_bit(store: QuadStore, tmp_path: Path) -> None:
    """Somewhere among the quads: then the store opens.  Where the applied state stands, it does not."""
    chance = random.Random(5)
    texts = (f"mark-{n}-{chance.randbytes(3000).hex()}" for n in range(5))
    run(store, *(f"INSERT DATA {{ <urn:s{n}> <urn:p> '{text}' }}" for n, text in enumerate(texts)))
    store.close()
    for n in range(5):
        turn_a_bit(tmp_path / "quads" / "quads", f"mark-{n}-".encode())
        try:
            again = QuadStore.open(tmp_path / "quads")
        except StoreDamaged:  # which of them it is, is chance
            turn_a_bit(tmp_path / "quads" / "quads", f"mark-{n}-".encode())
            continue
        with pytest.raises(StoreDamaged):
            scrubber(again, tmp_path).scrub()
        return
    pytest.fail("every one of five blocks held the applied state")


def test_only_between_what_is_anticipated(tmp_path: Path) -> None:
    """The copy of a worker that evaluates holds what was applied, and nothing ahead of it."""
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    log.agree("DELETE { ?s ?p ?o } INSERT { ?s ?p 2 } WHERE { ?s ?p ?o }")
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert worker.store.is_ahead
    worker.store.gate.patience_s = 0.1
    with pytest.raises(Unavailable, match="not yet back"):
        scrubber(worker.store, tmp_path).scrub()
    assert not (tmp_path / "scrub").exists()
    worker.catch_up()
    found = scrubber(worker.store, tmp_path).scrub()
    assert (found.index, found.found) == (2, found.expected)


def test_it_comes_again_and_tells(store: QuadStore, tmp_path: Path) -> None:
    health = Health()
    left = tmp_path / "scrub" / "quads"
    left.mkdir(parents=True)
    one = scrubber(store, tmp_path, health, period=0.2)
    one.start()
    assert not left.exists()
    until(lambda: health.scrub is not None)
    first = health.scrub
    run(store, "INSERT DATA { <urn:more> <urn:p> 1 }")
    until(lambda: health.scrub is not None and health.scrub.index == store.applied.index)
    one.stop()
    assert first
    assert first.index < store.applied.index
    assert health.scrub
    assert health.scrub.found == health.scrub.expected
    assert health.scrub_failure == ""
    assert not (tmp_path / "scrub").exists()


def test_no_copy_is_no_disaster(store: QuadStore, tmp_path: Path) -> None:
    health = Health()
    one = Scrubber(store, tmp_path / "no" / "where", health, period=0.1, share=1)
    one.start()
    until(lambda: health.scrub_failure != "")
    assert "No such file" in health.scrub_failure
    assert health.scrub is None
    (tmp_path / "no").mkdir()
    until(lambda: health.scrub is not None)
    assert health.scrub_failure == ""
    one.stop()
    run(store, "INSERT DATA { <urn:more> <urn:p> 1 }")


def test_what_cannot_be_copied_is_told_and_tried_again(
    store: QuadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pyoxigraph says a `RuntimeError` where a block on disk is wrong: just then a scrub is wanted."""
    health, copy, failing = Health(), store.copy, [True]

    def copy_or_fail(path: Path) -> Applied:
        if failing[0]:
            raise RuntimeError("a block is wrong")
        return copy(path)

    monkeypatch.setattr(store, "copy", copy_or_fail)
    one = scrubber(store, tmp_path, health, period=0.1)
    one.start()
    until(lambda: "a block is wrong" in health.scrub_failure)
    failing[0] = False
    until(lambda: health.scrub is not None)
    one.stop()
    assert health.scrub_failure == ""


def test_a_counting_process_that_dies(store: QuadStore, tmp_path: Path) -> None:
    one = scrubber(store, tmp_path)
    copied = store.copy

    def broken(path: Path) -> object:
        applied = copied(path)
        shutil.rmtree(path / "quads")
        return applied

    store.copy = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(StateError, match="recount ended with 1"):
        one.scrub()
    assert not (tmp_path / "scrub").exists()


def test_the_pace_is_kept(tmp_path: Path) -> None:
    store = QuadStore.open(tmp_path / "quads")
    count = 50_000
    store._store.bulk_extend(
        Quad(NamedNode(f"urn:s{n}"), NamedNode("urn:p"), Literal(n)) for n in range(count)
    )
    cpu, wall = time.process_time(), time.monotonic()
    assert store.recount(ScrubPace(0.2).pause)[1] == count
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    assert share < 0.3, share


# --- the rebuild ------------------------------------------------------------------------------------------


class Asked:
    """A mender, and whether it had the process leave."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginning: int = 0) -> None:
        monkeypatch.setattr(mender, "beginning_of", lambda *_: beginning)
        self.left = 0
        settings = WorkerSettings(
            node_id="w1", dc="dc1", kafka="-", port=1, data_dir=tmp_path, worker_url="http://w1"
        )
        self.health = Health()
        self.is_copied = False
        self.mender = Mender(
            settings,
            TOPICS,
            self.health,
            store="mine",
            leave=self.leave,
            is_copied=lambda: self.is_copied,
        )

    def leave(self) -> None:
        self.left += 1


def test_a_rebuild_empties_the_store(
    store: QuadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(tmp_path, monkeypatch)
    asked.mender.ask("mine", "damaged")
    asked.mender.ask("mine", "damaged")
    assert (asked.left, asked.mender.wanted, asked.health.mend) == (1, True, "")
    name = store.name
    store.close()
    empty(tmp_path)
    assert last_rebuild(tmp_path) > 0
    again = QuadStore.open(tmp_path / "quads")
    assert again.applied.index == again.applied.quads == 0
    assert again.name != name
    assert (tmp_path / "quads.wrong").exists()
    tidy(tmp_path)
    assert not (tmp_path / "quads.wrong").exists()


def test_another_store_than_the_one_that_was_wrong_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(tmp_path, monkeypatch)
    with pytest.raises(Forbidden):
        asked.mender.ask("other", "damaged")
    assert not asked.left


def test_only_now_and_then(store: QuadStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.close()
    empty(tmp_path)
    asked = Asked(tmp_path, monkeypatch)
    with pytest.raises(Unavailable, match="once in 3600 s"):
        asked.mender.ask("mine", "damaged")
    assert "once in 3600 s" in asked.health.mend
    assert not asked.left


def test_without_the_beginning_of_the_log_by_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(tmp_path, monkeypatch, beginning=7)
    with pytest.raises(Unavailable, match=r"main\.dc1\.agreed begins at offset 7: .* no other worker"):
        asked.mender.ask("mine", "damaged")
    assert not asked.left
    asked.is_copied = True
    asked.mender.ask("mine", "damaged")
    assert (asked.left, asked.health.mend) == (1, "")


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
