"""A worker whose store is not what the log begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from producers.effects import EffectsMirror
from quadlog.errors import Unavailable
from quadlog.worker.repair.mender import QUADS
from quadlog.worker.seeds.seedbed import Seedbed
from tests.support.workers.ground import Ground, built, seed_of
from tests.support.workers.rehearsal import TOPICS, Log, Worker

if TYPE_CHECKING:
    from pathlib import Path


def test_a_worker_without_the_seed_neither_evaluates_nor_serves(tmp_path: Path) -> None:
    label, _ = built(tmp_path)
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.bed = Seedbed(tmp_path, worker.store, worker.replica.health, lambda: None)
    worker.take_over()
    EffectsMirror(log, TOPICS.effects, "m1").publish_seed(seed_of(label))
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    worker.catch_up()
    assert worker.store.applied.index == 0
    assert log.effects() == []
    beat = worker.replica.beat()
    assert (beat.state.value, beat.evaluating) == ("STARTING", False)
    assert worker.replica.full() == {TOPICS.agreed, TOPICS.effects}
    with pytest.raises(Unavailable, match="lacks the seed"):
        worker.replica.refuse_unless_seeded()


def test_what_was_evaluated_before_the_seed_came_leaves_the_store(tmp_path: Path) -> None:
    """And is evaluated again, on the seed, by whoever has it."""
    label, files = built(tmp_path)
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.bed = Seedbed(tmp_path, worker.store, worker.replica.health, lambda: None)
    worker.take_over()
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    EffectsMirror(log, TOPICS.effects, "m1").publish_seed(seed_of(label))
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert len(log.effects()) == 1
    worker.catch_up()
    assert (worker.store.applied.index, list(worker.store.lines())) == (0, [])
    worker.close()
    ground = Ground(tmp_path / "next")
    ground.take(label, files)
    ground.bed.on_seed(seed_of(label))
    ground = ground.end()
    ground.store.close()
    (tmp_path / "next" / QUADS).rename(tmp_path / "w2")
    successor = Worker(tmp_path, log, "w2")
    successor.catch_up()
    successor.take_over()
    applied = successor.store.applied
    assert (applied.index, applied.quads) == (1, label.quads + 1)
    assert successor.store.recount() == (applied.signature, applied.quads)
