"""When a worker's time as the one that evaluates begins and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from producers.effects import EffectsMirror
from quadlog import codec
from quadlog.codec.envelope import EPOCH
from quadlog.core.model import GENESIS
from quadlog.core.records import Cut, Fence, Handover, Heartbeat
from quadlog.errors import Unavailable
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker

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
    return worker.replica.evaluator_term.evaluator is not None


def hand_over(log: Log, index: int) -> None:
    """What a master says, once the entry at `index` moved the duty."""
    moved = Handover(index=index, term=NEXT, dc="dc1")
    EffectsMirror(log, TOPICS.effects, "m1").publish_handover(moved, at=0)


def test_a_handover_ends_a_duty_that_waits_for_effects_before_it_begins(tmp_path: Path) -> None:
    """Its fence is read back, effects stand before it whose entries are not heard: no evaluator yet."""
    log = Log()
    first, second = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    first.catch_up()
    second.hear(TOPICS.effects)
    second.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    second.hear(TOPICS.effects)
    second.turn()
    assert not evaluates(second)
    hand_over(log, index=1)
    second.hear(TOPICS.effects)
    second.replica.evaluator_term.take_over(EvaluateRequest(NEXT, handover=1))
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
    worker.replica.evaluator_term.on_handover(Handover(index=3, term=b"x" * 32, dc="dc2"))
    worker.replica.evaluator_term.take_over(EvaluateRequest(NEXT, handover=7))
    assert len(fences(log)) == 1
    hand_over(log, index=5)
    worker.hear(TOPICS.effects)
    assert len(fences(log)) == 1, "an older one is not what it waits for"
    hand_over(log, index=7)
    worker.hear(TOPICS.effects)
    assert fences(log)[-1] == Fence(term=NEXT, attempt=2, worker="w1")
    worker.close()


def test_what_it_says_is_of_the_view_that_it_was_asked_in(tmp_path: Path) -> None:
    """And it waits for that view's handover, whatever an earlier one said of the same index."""
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    hand_over(log, index=7)
    worker.catch_up()
    worker.replica.evaluator_term.take_over(EvaluateRequest(NEXT, handover=7, epoch=2))
    worker.catch_up()
    assert len(fences(log)) == 1
    moved = Handover(index=7, term=NEXT, dc="dc1", epoch=2)
    EffectsMirror(log, TOPICS.effects, "m1").publish_handover(moved, at=0)
    worker.catch_up()
    log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    worker.catch_up()
    said = [record for record in log.records[TOPICS.effects] if record.key != b"handover"]
    assert [(record.key, record.header(EPOCH)) for record in said] == [
        (b"fence", b"1"),
        (b"fence", b"2"),
        (b"1", b"2"),
    ]
    assert worker.store.applied.in_effects.order == (2, 7)
    worker.close()
    worker = Worker(tmp_path, log, "w1")
    hand_over(log, index=9)
    worker.catch_up()
    assert worker.replica._counted_records.effects.order == (2, 7), "an entry of the view before"
    worker.close()


def test_a_cut_ends_a_duty_that_waits_for_effects_before_it_begins(tmp_path: Path) -> None:
    """What follows the fork is of the next view: it does not begin when those effects are applied."""
    log = Log()
    first, second = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    first.take_over()
    entry = log.agree("INSERT DATA { <urn:a> <urn:p> 1 }")
    first.catch_up()
    second.hear(TOPICS.effects)
    second.replica.evaluator_term.take_over(EvaluateRequest(TERM))
    second.hear(TOPICS.effects)
    second.turn()
    had_duty = second.replica.evaluator_term.has_duty
    cut = Cut(epoch=2, lineage=GENESIS, index=entry.index, chain=entry.chain)
    log.produce(TOPICS.agreed, key=b"cut", values=[codec.encode(cut)], headers=[])
    second.catch_up()
    assert second.store.applied.index == 1
    assert (had_duty, second.replica.evaluator_term.has_duty, evaluates(second)) == (True, False, False)
    first.close()
    second.close()


def test_whether_it_evaluates_is_told_at_once(tmp_path: Path) -> None:
    """Its master appoints another one, or the same in a new term, when it hears that none does."""
    log = Log()
    worker = Worker(tmp_path, log, "w1", heartbeat=60)
    heartbeats, told = worker.replica._heartbeats, []

    def tend() -> list[bool]:
        heartbeats.tick()
        said = (codec.decode(record.value) for record in log.records[TOPICS.status])
        return [beat.evaluating for beat in said if isinstance(beat, Heartbeat)]

    told.append(tend())
    worker.take_over()
    told += [tend(), tend()]
    hand_over(log, index=1)
    worker.hear(TOPICS.effects)
    told += [tend(), tend()]
    assert told == [[False], [False, True], [False, True], [False, True, False], [False, True, False]]
    worker.close()


def test_as_long_as_no_broker_tells_how_much_is_agreed_it_does_not_begin(tmp_path: Path) -> None:
    """And goes on as a worker: it asks again at its next turn."""
    log = Log()
    worker = Worker(tmp_path, log, "w1")
    evaluator_term, asked = worker.replica.evaluator_term, list[int]()

    def agreed_end() -> int:
        asked.append(len(asked))
        if len(asked) < 3:
            raise Unavailable("no broker")
        return 0

    evaluator_term._host = replace(evaluator_term._host, agreed_end=agreed_end)
    evaluator_term.take_over(EvaluateRequest(TERM))
    worker.hear(TOPICS.effects)
    begun: list[bool] = []
    for _ in range(4):
        worker.replica._evaluate()
        begun.append(evaluates(worker))
    assert begun == [False, False, True, True]
    assert asked == [0, 1, 2]
    worker.close()
