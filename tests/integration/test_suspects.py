"""What may have ended an evaluator is tried in a process of its own, and rejected if it ends that too."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from quadlog.core.records import Fence, Outcome
from quadlog.errors import StateError
from quadlog.leash import leashed
from quadlog.settings.units import MIB
from quadlog.worker.evaluate import suspects
from quadlog.worker.evaluate.fetch import LoadLimits
from quadlog.worker.evaluate.limits import EvaluationLimits, LimitWatch
from quadlog.worker.evaluate.trial import READY, receive, request, send
from quadlog.worker.replica import evaluator_term
from quadlog.worker.vitals import Vitals
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker
from tests.support.workers.suspects import CROSS, START, agree, successor, until
from tests.support.workers.updates import Generator, state_of

if TYPE_CHECKING:
    from quadlog.worker.evaluate.suspects import Trial

ONE = "INSERT { ?s <urn:q> 1 } WHERE { ?s <urn:p> 7 }"
ENDLESS = f"INSERT {{ <urn:x> <urn:n> ?n }} WHERE {{ SELECT (COUNT(*) AS ?n) {{ {CROSS} }} }}"
HUNGRY = f"INSERT {{ ?a0 <urn:n> ?b0 }} WHERE {{ SELECT ?a0 ?b0 {{ {CROSS} }} ORDER BY ?b1 ?b2 ?b3 }}"


def decided(worker: Worker, log: Log, count: int) -> list[tuple[Outcome, str]]:
    until(worker, lambda: worker.store.applied.index == count)
    return [(effect.outcome, (effect.reason or "").split(":")[0]) for effect in log.effects()]


FINE = (Outcome.APPLIED, "")


def rejected(why: str) -> tuple[Outcome, str]:
    return Outcome.REJECTED, why


def test_suspects_that_do_nothing_wrong_have_their_effects(tmp_path: Path, log: Log) -> None:
    generator = Generator(1)
    texts = [generator.update() for _ in range(200)]
    worker = successor(tmp_path, log, *texts)
    decided(worker, log, 201)
    twin_log = Log()
    twin = Worker(tmp_path, twin_log, "twin")
    twin.take_over()
    agree(twin_log, START)
    for said in texts:
        agree(twin_log, said)
    twin.catch_up()
    assert [replace(effect, attempt=0, term=b"") for effect in log.effects()] == [
        replace(effect, attempt=0, term=b"") for effect in twin_log.effects()
    ]
    assert state_of(worker) == state_of(twin)
    assert worker.store.recount()[0] == worker.store.applied.signature
    assert not (tmp_path / "trial").exists()


def test_what_takes_too_long_is_rejected_and_the_others_are_not(tmp_path: Path, log: Log) -> None:
    # On a busy machine a tiny one may wait a second for a core.
    limits = EvaluationLimits(seconds=5.0, memory=2048 * MIB)
    worker = successor(tmp_path, log, ONE, ENDLESS, ONE.replace("7", "8"), limits=limits)
    began = time.monotonic()
    assert decided(worker, log, 4) == [FINE, FINE, rejected("evaluator-timeout"), FINE]
    assert time.monotonic() - began > 5.0
    assert worker.store.applied.quads == 62


def test_what_takes_too_much_memory_is_rejected(tmp_path: Path, log: Log) -> None:
    worker = successor(tmp_path, log, HUNGRY, ONE, limits=EvaluationLimits(seconds=50, memory=256 * MIB))
    assert decided(worker, log, 3) == [FINE, rejected("evaluator-memory"), FINE]


def test_what_kills_the_trial_is_rejected(tmp_path: Path, log: Log) -> None:
    worker = successor(tmp_path, log, ENDLESS, ONE)
    until(
        worker,
        lambda: (
            worker.replica.evaluator_term.suspects is not None and _trial_of(worker)._under_way is not None
        ),
    )
    until(worker, lambda: _trial_of(worker)._is_ready)
    os.kill(_trial_of(worker)._process.pid, signal.SIGKILL)
    assert decided(worker, log, 3) == [FINE, rejected("evaluator-crash"), FINE]


def _trial_of(worker: Worker) -> Trial:
    until(
        worker,
        lambda: (
            worker.replica.evaluator_term.suspects is not None
            and worker.replica.evaluator_term.suspects._trial is not None
        ),
    )
    assert worker.replica.evaluator_term.suspects is not None
    assert worker.replica.evaluator_term.suspects._trial is not None
    return worker.replica.evaluator_term.suspects._trial


def test_what_was_agreed_is_suspected_also_if_it_is_heard_late(tmp_path: Path, log: Log) -> None:
    """A large entry takes longer to come than a fence: it would end each worker that is started again."""
    first = Worker(tmp_path, log, "w1")
    first.take_over()
    log.agree(START)
    first.catch_up()
    log.agree(ENDLESS)
    worker = Worker(tmp_path, log, "w2")
    worker.hear(TOPICS.effects)
    worker.replica.evaluator_term.take_over(evaluator_term.EvaluateRequest(TERM))
    worker.hear(TOPICS.agreed, 1)
    worker.hear(TOPICS.effects)
    worker.turn()
    begun = worker.replica.evaluator_term.evaluator is not None
    worker.hear(TOPICS.agreed)
    assert not begun
    assert _trial_of(worker) is not None
    worker.replica.evaluator_term.retire()


@pytest.mark.waits
def test_heartbeats_and_the_end_of_a_duty_do_not_wait_for_a_trial(tmp_path: Path, log: Log) -> None:
    worker = successor(tmp_path, log, ENDLESS)
    pid = _trial_of(worker)._process.pid
    began = time.monotonic()
    assert worker.replica.beat().evaluating
    worker.replica.evaluator_term.retire()
    assert time.monotonic() - began < 1
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "trial").exists()


def test_a_trial_that_cannot_be_held_is_the_workers_fault(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    worker = successor(tmp_path, log, ONE)
    with pytest.raises(StateError, match="ended before it began"):
        decided(worker, log, 2)
    assert len(log.effects()) == 1, "nothing is rejected for it"
    worker.replica.evaluator_term.retire()


BEGINS_NEVER = {"it waits": "exec sleep 60", "it has no end": "while :; do :; done"}


@pytest.mark.parametrize("does", BEGINS_NEVER.values(), ids=BEGINS_NEVER)
def test_a_trial_that_does_not_begin_is_the_workers_fault(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(suspects, "START_S", 0.5)
    worker = successor(tmp_path, log, ONE)
    with pytest.raises(StateError, match="could be begun within"):
        decided(worker, log, 2)
    worker.replica.evaluator_term.retire()


def test_a_trial_that_goes_on_may_begin_late(
    tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = count(1)
    monkeypatch.setattr(suspects, "START_S", 0.01)  # no Python starts within that
    monkeypatch.setattr(Vitals, "cpu_ms", lambda _: next(seen) / 1e6)
    worker = successor(tmp_path, log, ONE)
    assert decided(worker, log, 2) == [FINE, FINE]
    assert next(seen) > 2, "it was looked at"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (EvaluationLimits(seconds=0.2, memory=2048 * MIB), "evaluator-timeout"),
        (EvaluationLimits(seconds=60.0, memory=100 * MIB), "evaluator-memory"),
    ],
)
def test_the_watch_ends_what_is_above_its_limits(
    limits: EvaluationLimits, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[float] = []
    watch = LimitWatch(limits, lambda: ended.append(time.monotonic()))
    watch.start()
    for index in range(1, 5):  # each within the limits
        watch.begin(index)
        time.sleep(0.1)
        watch.end()
    time.sleep(0.3)
    assert not ended, "nothing was under way for long"
    watch.begin(5)
    time.sleep(0.12)
    held = bytearray(200 * MIB)
    deadline = time.monotonic() + 10
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.end()
    watch.close()
    assert ended
    assert len(held) == 200 * MIB
    said = capsys.readouterr().out
    assert ("evaluation_aborted" in said, reason in said) == (True, True)


def test_a_trial_ends_with_its_worker(tmp_path: Path, log: Log) -> None:
    """Also in the middle of an evaluation that has no end."""
    entries = log.agree(START), log.agree(ENDLESS)
    fence, load = (
        Fence(term=TERM, attempt=1, worker="w1"),
        LoadLimits(beginnings=(), endpoints=(), seconds=1, size=1),
    )
    work = tmp_path / "entries"
    with work.open("wb") as out:
        send(out, [request(tmp_path / "store", fence, load)])
        for entry in entries:
            send(out, codec.encode_entry(entry))
    trial = shlex.join(leashed([sys.executable, "-m", "quadlog.worker.evaluate.trial"]))
    script = f"{trial.replace(str(os.getpid()), '$$')} <{work} & echo $!; wait"
    command = ["sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        process = Path(f"/proc/{int(shell.stdout.readline())}")
        ready, effect = receive(shell.stdout), receive(shell.stdout)
        time.sleep(0.5)
        assert (ready, effect is not None, process.exists()) == (READY, True, True)
        shell.kill()
    deadline = time.monotonic() + 5
    while process.exists() and process.joinpath("stat").read_text().split()[2] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)
