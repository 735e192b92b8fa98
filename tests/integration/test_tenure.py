"""When a worker's time as the one that evaluates begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from producers.effects import EffectsMirror
from quadlog import codec
from quadlog.core.model import Fence, Handover
from quadlog.worker.tenure import Asked
from tests.integration.rehearsal import TERM, TOPICS, Log, Worker

if TYPE_CHECKING:
    from pathlib import Path

NEXT = b"n" * 32
"""The term that a handover gives."""


def fences(log: Log) -> list[Fence]:
    """All that were written."""
    said = (codec.decode(record.value) for record in log.records[TOPICS.effects])
    return [fence for fence in said if isinstance(fence, Fence)]


def evaluates(worker: Worker) -> bool:
    """Has its tenure begun?"""
    return worker.replica.tenure.evaluator is not None


def hand_over(log: Log, index: int) -> None:
    """What a master says, once the entry at `index` moved the duty."""
    moved = Handover(index=index, term=NEXT, dc="dc1")
    EffectsMirror(log, TOPICS.effects, "m1").hand_over(moved, at=0)


def test_a_handover_ends_a_duty_that_waits_for_effects_before_it_begins(tmp_path: Path) -> None:
    """Its fence is read back, effects stand before it whose entries are not heard: no evaluator yet."""
    log = Log()
    first, second = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    first.catch_up()
    second.hear(TOPICS.effects)
    second.replica.tenure.take_over(Asked(TERM))
    second.hear(TOPICS.effects)
    second.turn()
    assert not evaluates(second)
    hand_over(log, index=1)
    second.hear(TOPICS.effects)
    second.replica.tenure.take_over(Asked(NEXT, handover=1))
    assert fences(log)[-1] == Fence(term=NEXT, attempt=3, worker="w2")
    second.catch_up()
    assert evaluates(second)
    assert second.store.applied.index == 1
    log.agree("INSERT DATA { <urn:a> <urn:p> 2 }")
    second.catch_up()
    first.catch_up()
    assert first.store.applied == second.store.applied
    assert first.store.applied.index == 2
    first.close()
    second.close()


def test_asked_before_the_handover_is_heard_it_waits_for_it(tmp_path: Path) -> None:
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    worker.replica.tenure.hand_over(Handover(index=3, term=b"x" * 32, dc="dc2"))
    worker.replica.tenure.take_over(Asked(NEXT, handover=7))
    assert len(fences(log)) == 1
    hand_over(log, index=7)
    worker.hear(TOPICS.effects)
    assert fences(log)[-1] == Fence(term=NEXT, attempt=2, worker="w1")
    worker.close()
