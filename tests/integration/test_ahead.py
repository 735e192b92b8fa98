"""The evaluating worker's store ahead of what is shown: never seen, undone by every kind of end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from producers.effects import EffectsProducer
from quadlog.core.records import Fence, Outcome
from quadlog.errors import Unavailable
from quadlog.quadstore.quadstore import QuadStore
from quadlog.worker.evaluate.evaluator import QUICK, TOGETHER
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.stores import body
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from pathlib import Path

COUNT = "DELETE { ?s <urn:n> ?n } INSERT { ?s <urn:n> ?m } WHERE { ?s <urn:n> ?n BIND(?n + 1 AS ?m) }"
STEPS = f"""CREATE GRAPH <urn:e> ; {COUNT} ; DROP GRAPH <urn:g> ;
INSERT {{ GRAPH <urn:h> {{ ?s <urn:was> ?n }} }} WHERE {{ ?s <urn:n> ?n }} ;
DELETE WHERE {{ GRAPH <urn:f> {{ ?s ?p ?o }} }} ; INSERT DATA {{ GRAPH <urn:e> {{ <urn:a> a 1 }} }} ; {COUNT}"""
START = "INSERT DATA { <urn:s> <urn:n> 1 GRAPH <urn:g> { <urn:a> a 1, 2 } GRAPH <urn:f> { <urn:a> a 3 } }"


@pytest.fixture
def worker(tmp_path: Path, log: Log) -> Worker:
    """It evaluates, and shows START."""
    worker = Worker(tmp_path, log, "w1")
    worker.take_over()
    log.agree(START)
    worker.catch_up()
    return worker


def run_ahead(worker: Worker, *texts: str) -> None:
    """Evaluate, and hear nothing back."""
    for text in texts:
        worker.log.agree(text)
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert worker.store.is_ahead


def numbers(worker: Worker) -> str:
    answer = worker.store.query("SELECT ?n { <urn:s> <urn:n> ?n }", accept="text/csv")
    return body(answer).decode().split()[1]


def test_a_where_sees_what_is_decided_and_not_yet_heard_back(worker: Worker, log: Log) -> None:
    run_ahead(worker, *[COUNT] * 10)
    worker.catch_up()
    assert not worker.store.is_ahead
    assert numbers(worker) == "11"
    assert [effect.outcome for effect in log.effects()] == [Outcome.APPLIED] * 11


def test_heard_back_one_by_one(worker: Worker) -> None:
    """The applied index moves on while the store is ahead; the journal shrinks with it."""
    run_ahead(worker, STEPS.replace("DROP GRAPH <urn:g>", "CLEAR GRAPH <urn:g>"), COUNT, COUNT)
    records = len(worker.store._ahead)
    for index in (2, 3):
        worker.hear(TOPICS.effects, 1)
        worker.replica._following.apply()
        assert worker.store.applied.index == index
        assert len(worker.store._ahead) < records
        records = len(worker.store._ahead)
    assert not worker.store.is_ahead, "the last entry lies in memory: no WHERE came after it"
    assert numbers(worker) == "4"
    worker.catch_up()
    applied = worker.store.applied
    assert worker.store.recount() == (applied.signature, applied.quads)
    assert numbers(worker) == "5"


def test_a_failing_step_undoes_those_before_it_and_nothing_else(worker: Worker, log: Log) -> None:
    run_ahead(worker, COUNT, COUNT, f"{STEPS} ; CLEAR GRAPH <urn:none>", COUNT)
    worker.catch_up()
    outcomes = [effect.outcome for effect in log.effects()]
    assert outcomes == [Outcome.APPLIED] * 3 + [Outcome.REJECTED, Outcome.APPLIED]
    assert log.effects()[3].reason == "CLEAR: the graph <urn:none> does not exist"
    assert numbers(worker) == "4"
    applied = worker.store.applied
    assert worker.store.recount() == (applied.signature, applied.quads)


def test_another_workers_fence_undoes_what_was_not_heard_back(
    worker: Worker, tmp_path: Path, log: Log
) -> None:
    shown = state_of(worker)
    run_ahead(worker, STEPS, COUNT, COUNT)
    # Of the three effects one stands before the fence: it counts.  The others are void.
    void = log.records[TOPICS.effects][-2:]
    del log.records[TOPICS.effects][-2:]
    EffectsProducer(log, TOPICS.effects, "w2", "dc1").publish_fence(
        Fence(term=TERM, attempt=2, worker="w2"), at=0
    )
    for record in void:
        log.produce(TOPICS.effects, key=record.key, values=[record.value], headers=record.headers)
    worker.hear(TOPICS.effects)
    assert not worker.store.is_ahead
    assert state_of(worker) == shown
    assert worker.replica.evaluator_term.evaluator is None
    worker.turn()
    assert worker.store.applied.index == 2
    assert worker.store.recount()[0] == worker.store.applied.signature
    successor = Worker(tmp_path, log, "w2")
    successor.catch_up()
    successor.take_over()
    worker.catch_up()
    assert state_of(successor) == state_of(worker)
    assert (numbers(worker), worker.store.applied.index) == ("5", 4)


def test_what_came_back_different_is_not_taken_for_the_own(worker: Worker, log: Log) -> None:
    run_ahead(worker, COUNT, COUNT)
    decided = worker.replica.evaluator_term.evaluator._ahead._decided  # type: ignore[union-attr]
    decided[2] = replace(decided[2], chain=b"other")
    worker.hear(TOPICS.effects)
    worker.replica._following.apply()
    assert not worker.store.is_ahead
    assert (worker.replica.evaluator_term.evaluator, worker.replica.evaluator_term._confirmed_fence) == (
        None,
        None,
    )
    assert worker.store.applied.index == 3
    assert numbers(worker) == "3"
    assert len(log.effects()) == 3


def test_no_read_sees_what_is_ahead(worker: Worker) -> None:
    shown = state_of(worker)[0]
    run_ahead(worker, STEPS, COUNT)
    answers: list[object] = []
    reads = (lambda: numbers(worker), lambda: set(worker.store.lines()), worker.store.recount)
    threads = [threading.Thread(target=lambda read=read: answers.append(read())) for read in reads]
    for thread in threads:
        thread.start()
    while len(worker.store.gate._waiting) < 3:
        pass
    assert answers == []
    # While they wait, nothing that needs the store is evaluated.
    worker.log.agree(COUNT)
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert worker.replica.evaluator_term.evaluator is not None
    assert worker.replica.evaluator_term.evaluator.index == 3
    assert worker.replica._more
    worker.hear(TOPICS.effects)
    worker.replica._following.apply()
    for thread in threads:
        thread.join(10)
    assert "4" in answers
    assert (worker.store.applied.signature, worker.store.applied.quads) in answers
    assert shown not in answers
    worker.turn()
    assert worker.replica.evaluator_term.evaluator.index == 4


def test_a_read_that_takes_long_to_start_slows_evaluation_and_does_not_stop_it(worker: Worker) -> None:
    with worker.store.gate.reading():
        worker.log.agree(COUNT)
        worker.log.agree(COUNT)
        worker.hear(TOPICS.agreed)
        worker.turn()
        evaluator = worker.replica.evaluator_term.evaluator
        assert evaluator is not None
        assert (evaluator.index, worker.replica._more) == (2, True), "the second needs the first in the store"
        worker.catch_up()
        assert (evaluator.index, worker.replica._more) == (3, False), "now it is there, and shown"
    assert numbers(worker) == "3"


def test_an_evaluator_that_waits_keeps_its_place_while_effects_are_applied(worker: Worker) -> None:
    """Else reads that overlap would keep a sequence out for ever."""
    with worker.store.gate.reading():
        worker.log.agree("INSERT DATA { <urn:x> <urn:y> 1 }")
        worker.log.agree(f"{COUNT} ; {COUNT}")
        worker.hear(TOPICS.agreed)
        worker.turn()
        worker.hear(TOPICS.effects)
        worker.replica._following.apply()
        assert worker.store.applied.index == 2
        assert not worker.store.gate.is_open
    worker.catch_up()
    worker.turn()
    worker.catch_up()
    assert (numbers(worker), worker.store.applied.index) == ("3", 3)


def test_what_fails_before_it_goes_ahead_leaves_the_gate_open(worker: Worker) -> None:
    worker.log.agree(f"CLEAR GRAPH <urn:none> ; {COUNT}")
    worker.hear(TOPICS.agreed)
    worker.turn()
    assert numbers(worker) == "1"


def test_reads_of_a_worker_that_hears_nothing_back_are_told_to_go_elsewhere(
    worker: Worker,
) -> None:
    run_ahead(worker, COUNT, COUNT)
    worker.store.gate.patience_s = 0.01
    with pytest.raises(Unavailable):
        numbers(worker)


def test_a_dump_is_of_one_moment(worker: Worker) -> None:
    lines = worker.store.lines()
    first = next(lines)
    worker.log.agree("CLEAR ALL")
    worker.catch_up()
    assert len({first, *lines}) == 4
    assert set(worker.store.lines()) == {"# empty graph <urn:g>", "# empty graph <urn:f>"}


VICTIM = """
import os, signal, sys
from pathlib import Path
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.integration.test_ahead import COUNT, START, STEPS
log = Log()
worker = Worker(Path(sys.argv[1]), log, "w1")
worker.take_over()
log.agree(START)
worker.catch_up()
print(sorted(worker.store.lines()), flush=True)
print(sorted(str(graph) for graph in worker.store.graphs()), flush=True)
left = int(sys.argv[2])
anticipate = worker.store.anticipate
def dying(changes, lines):
    global left
    found = anticipate(changes, lines)
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
worker.store.anticipate = dying
for text in (COUNT, STEPS, COUNT, COUNT):
    log.agree(text)
worker.hear(TOPICS.agreed)
worker.turn()
"""


@pytest.mark.parametrize("steps", range(1, 7))
def test_after_kill_9_between_steps_the_store_is_what_was_shown(tmp_path: Path, steps: int) -> None:
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(tmp_path), str(steps)], capture_output=True, text=True, check=False
    )
    assert victim.returncode == -signal.SIGKILL, victim.stderr
    store = QuadStore.open(tmp_path / "w1")
    lines, graphs = victim.stdout.splitlines()[-2:]
    assert str(sorted(store.lines())) == lines
    assert str(sorted(str(graph) for graph in store.graphs())) == graphs
    assert store.applied.index == 1
    assert store.recount() == (store.applied.signature, store.applied.quads)
    assert not store.is_ahead
    assert len(store._store) == store.applied.quads + 1, "the journal is empty"
    store.close()


def test_effects_of_data_leave_together_and_nobody_waits_long_for_another(worker: Worker) -> None:
    data = "INSERT DATA {{ <urn:t> <urn:n> {} }}"
    worker.log.groups.clear()
    run_ahead(worker, *map(data.format, range(3)), COUNT, *map(data.format, range(3, 5)), COUNT)
    first = worker.log.groups[0][0]
    assert [[offset - first for offset in group] for group in worker.log.groups] == [
        [0, 1, 2],
        [3, 4, 5],
        [6],
    ]
    worker.catch_up()
    worker.log.groups.clear()
    for number in range(5, 105):
        worker.log.agree(data.format(number))
    worker.log.agree(data.format(f"'{QUICK * 'x'}'"))
    worker.catch_up()
    sizes = [len(group) for group in worker.log.groups]
    assert sizes == [TOGETHER - 1, 101 - TOGETHER, 1], "what is large is let go of before"
