"""Who evaluates in a view evaluates what was agreed up to that view; what comes later waits for the next handover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.workers.rehearsal import Log, Worker
from tests.support.workers.sides import EPOCH_2, write_handover

if TYPE_CHECKING:
    from pathlib import Path


def test_an_entry_of_a_later_view_waits_for_its_handover(tmp_path: Path) -> None:
    """Whoever copies these effects may not have installed that view, and never will."""
    worker = Worker(tmp_path, Log(), "w1")
    worker.take_over()
    worker.log.agree("INSERT DATA { <urn:s> <urn:p> 1 }")
    worker.log.epoch = EPOCH_2
    worker.log.agree("INSERT DATA { <urn:s> <urn:p> 2 }")
    worker.catch_up()
    assert [effect.index for effect in worker.log.effects()] == [1]
    asked = write_handover(worker.log)
    worker.catch_up()
    worker.replica.evaluator_term.take_over(asked)
    worker.catch_up()
    assert [(effect.index, effect.term) for effect in worker.log.effects()][1:] == [(2, asked.term)]
    assert worker.store.applied.index == 2
    worker.close()
