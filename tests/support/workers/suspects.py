"""Updates that end their process, and who evaluates after it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from quadlog.worker.replica import evaluator_term
from tests.support.workers.rehearsal import TERM, TOPICS, Log, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.worker.evaluate.limits import EvaluationLimits
    from tests.support.workers.updates import Update


START = "INSERT DATA { " + " ".join(f"<urn:s{n}> <urn:p> {n} ." for n in range(60)) + " }"


CROSS = " ".join(f"?a{n} <urn:p> ?b{n} ." for n in range(12))


def agree(log: Log, said: Update | str) -> None:
    """One more entry."""
    if isinstance(said, str):
        log.agree(said)
    else:
        log.agree(said.text, options=said.options)


def successor(
    path: Path,
    log: Log,
    *texts: Update | str,
    limits: EvaluationLimits | None = None,
    sync_graphs: tuple[str, ...] = (),
) -> Worker:
    """A worker that takes over where START was applied and these texts were agreed."""
    first = Worker(path, log, "w1")
    first.take_over()
    log.agree(START)
    first.catch_up()
    for text in texts:
        agree(log, text)
    worker = Worker(path, log, "w2")
    if limits is not None:
        worker.replica.evaluator_term._limits = limits  # type: ignore[misc]
    worker.hear(TOPICS.effects)
    worker.replica.evaluator_term.take_over(evaluator_term.EvaluateRequest(TERM, sync_graphs=sync_graphs))
    worker.hear(TOPICS.agreed)
    worker.hear(TOPICS.effects)
    return worker


def until(worker: Worker, done: Callable[[], bool]) -> None:
    """Turn, and hear what is said, until something is so."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        worker.replica._following.apply()
        worker.replica._evaluate()
        worker.hear(TOPICS.effects)
        time.sleep(0.002)
