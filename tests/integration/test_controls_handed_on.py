"""Controls at followers, successors, rebuilt and killed workers, and in trials."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from producers.effects import EffectsProducer
from quadlog.core.records import Fence, Outcome
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings.units import MIB
from quadlog.worker.evaluate.limits import EvaluationLimits
from tests.support.workers.controlled import (
    BOTH,
    EVE,
    NAMED,
    SHAPES,
    after_control,
    after_update,
    breaks,
    outcome,
)
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.suspects import CROSS, successor, until
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from pathlib import Path

ALL = " + ".join(f"?b{n}" for n in range(12))
ENDLESS_ASK = f"ASK {{ {{ SELECT (COUNT(*) AS ?n) {{ {CROSS} }} }} FILTER(?n > 0) }}"
ENDLESS_SHAPES = f"""
@prefix sh: <http://www.w3.org/ns/shacl#> .
<urn:S> a sh:NodeShape ; sh:targetNode <urn:s1> ; sh:sparql [ sh:select '''
SELECT $this WHERE {{ $this <urn:p> ?v . {CROSS} FILTER({ALL} < 0) }}''' ] .
"""


def test_every_copy_of_the_log_has_them(tmp_path: Path, worker: Worker, log: Log) -> None:
    """A follower, a worker that starts again, one that is rebuilt, a copy by hard links."""
    follower = Worker(tmp_path, log, "w2")
    assert after_control(worker, "names", NAMED) is None
    assert after_control(worker, "people", SHAPES) is None
    assert after_update(worker, BOTH) is None
    assert after_control(worker, "gone", "ASK {}") is None
    assert breaks(worker, EVE.replace("eve", "bob"))
    assert after_control(worker, "names", NAMED + " ") is None
    follower.catch_up()
    assert after_control(worker, "gone", None) is None
    follower.catch_up()
    held = dict(worker.store.controls)
    assert [(name, control.index) for name, control in held.items()] == [("names", 6), ("people", 2)]
    assert follower.store.controls == held
    assert (state_of(follower), follower.store.applied) == (state_of(worker), worker.store.applied)
    worker.store.copy_to(tmp_path / "copy")
    for path in (tmp_path / "copy", tmp_path / "w2"):
        if path.name == "w2":
            follower.close()
        again = QuadStore.open(path)
        assert again.controls == held
        assert again.recount() == (worker.store.applied.signature, worker.store.applied.quads)
        assert len(again._store) == again.applied.quads + 1 + len(held), (
            "one quad a control, nothing is left over"
        )
        again.close()
    shutil.rmtree(tmp_path / "w2")
    rebuilt = Worker(tmp_path, log, "w2")
    rebuilt.catch_up()
    assert rebuilt.store.controls == held
    assert state_of(rebuilt) == state_of(worker)


def test_a_successor_computes_the_same(tmp_path: Path, worker: Worker, log: Log) -> None:
    """Another worker's fence in between: what was decided and not heard back is void, also of controls."""
    assert after_update(worker, BOTH) is None
    log.control("names", NAMED)
    log.agree(EVE.replace("eve", "bob"))
    log.control("people", SHAPES)
    log.agree("INSERT DATA { <urn:eve> <urn:knows> <urn:bob> }")
    worker.hear(TOPICS.agreed)
    worker.turn()
    # Of the four effects one stands before the fence.  The others are void.
    said = log.effects()[2:]
    void = log.records[TOPICS.effects][-3:]
    del log.records[TOPICS.effects][-3:]
    EffectsProducer(log, TOPICS.effects, "w2", "dc1").publish_fence(
        Fence(term=TERM, attempt=2, worker="w2"), at=0
    )
    for record in void:
        log.produce(TOPICS.effects, key=record.key, values=[record.value], headers=record.headers)
    worker.hear(TOPICS.effects)
    worker.turn()
    assert list(worker.store.controls) == ["names"]
    next_one = Worker(tmp_path, log, "w2")
    next_one.catch_up()
    next_one.take_over()
    outcome(next_one)
    worker.catch_up()
    assert [(e.index, e.outcome, e.reason) for e in log.effects()[-3:]] == [
        (e.index, e.outcome, e.reason) for e in said
    ]
    assert [e.outcome for e in log.effects()[-3:]] == [Outcome.REJECTED, Outcome.APPLIED, Outcome.REJECTED]
    assert next_one.store.controls == worker.store.controls
    assert list(worker.store.controls) == ["names", "people"]
    assert state_of(worker) == state_of(next_one)


VICTIM = """
import os, signal, sys
from pathlib import Path
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.controlled import BOTH, EVE, NAMED
log = Log()
worker = Worker(Path(sys.argv[1]), log, "w1")
worker.take_over()
log.control("names", NAMED)
log.agree(BOTH)
worker.catch_up()
print(sorted(worker.store.lines()), flush=True)
worker.store.visible = lambda settle: os.kill(os.getpid(), signal.SIGKILL)
log.agree(EVE.replace("eve", "bob"))
worker.hear(TOPICS.agreed)
worker.turn()
"""


def test_after_kill_9_within_a_control_nothing_of_the_update_is_left(tmp_path: Path) -> None:
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert victim.returncode == -signal.SIGKILL, victim.stderr
    store = QuadStore.open(tmp_path / "w1")
    assert str(sorted(store.lines())) == victim.stdout.splitlines()[-1]
    assert list(store.controls) == ["names"]
    assert store.recount() == (store.applied.signature, store.applied.quads)
    store.close()


QUICK = EvaluationLimits(seconds=20.0, memory=2048 * MIB, control_seconds=1.0)


def agreed_at_take_over(tmp_path: Path, log: Log, text: str, limits: EvaluationLimits) -> Worker:
    """Where START is applied, this control and then an update are suspects."""
    worker = successor(tmp_path, log, limits=limits)
    log.control("bad", text)
    log.agree(BOTH)
    worker.hear(TOPICS.agreed)
    return worker


@pytest.mark.waits
@pytest.mark.parametrize("text", [ENDLESS_ASK, ENDLESS_SHAPES])
def test_what_never_ends_is_rejected_by_a_trial_and_never_set(tmp_path: Path, log: Log, text: str) -> None:
    worker = agreed_at_take_over(tmp_path, log, text, QUICK)
    began = time.monotonic()
    until(worker, lambda: worker.store.applied.index == 3)
    assert 1.0 < time.monotonic() - began < 15.0
    bad = log.effects()[1]
    assert bad.reason == (
        "control bad: control-timeout: the controls of its transaction were not evaluated within control-timeout (1 s)"
    )
    assert log.effects()[2].outcome is Outcome.APPLIED
    assert not worker.store.controls
    worker.replica.evaluator_term.retire()


def test_a_trial_that_dies_at_a_control_says_at_which(tmp_path: Path, log: Log) -> None:
    limits = EvaluationLimits(seconds=20.0, memory=2048 * MIB, control_seconds=20.0)
    worker = agreed_at_take_over(tmp_path, log, ENDLESS_ASK, limits)

    def is_at_it() -> bool:
        suspects = worker.replica.evaluator_term.suspects
        trial = None if suspects is None else suspects._trial
        if trial is None or trial._under_way is None or not trial._under_way[1]:
            return False
        os.kill(trial._process.pid, signal.SIGKILL)
        return True

    until(worker, is_at_it)
    until(worker, lambda: worker.store.applied.index == 3)
    assert (log.effects()[1].reason or "").startswith("control bad: evaluator-crash: ")
    worker.replica.evaluator_term.retire()


def test_suspects_are_tried_with_the_controls_that_hold_then(tmp_path: Path, log: Log) -> None:
    """Those that were set, changed and deleted by suspects as well."""
    worker = successor(tmp_path, log)
    log.control("names", NAMED)
    for text in (EVE, BOTH, "INSERT DATA { <urn:bob> a <urn:Person> }"):
        log.agree(text)
    log.control("names", None)
    log.agree("INSERT DATA { <urn:bob> a <urn:Person> }")
    worker.hear(TOPICS.agreed)
    until(worker, lambda: worker.store.applied.index == 7)
    assert [effect.index for effect in log.effects() if effect.outcome is Outcome.REJECTED] == [3, 5]
    assert not worker.store.controls
    log.control("names", NAMED)
    assert outcome(worker) is not None, "bob has no name"
    log.agree("INSERT DATA { <urn:bob> <urn:name> 'Bob' }")
    log.control("names", NAMED)
    assert outcome(worker) is None
    assert breaks(worker, "DELETE DATA { <urn:bob> <urn:name> 'Bob' }")
