"""Every form of an update, evaluated as a worker does it, against pyoxigraph's own ``update``."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING

import pyoxigraph as ox
import pytest
from pyoxigraph import Store

from quadlog import codec
from quadlog.core.records import Effect, Fence, Outcome
from quadlog.worker.evaluate.evaluator import Evaluator
from quadlog.worker.evaluate.loader import Loader, LoadLimits
from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.updates import NO_BLANKS, Generator, Update, blank_nodes, exact, same, state_of

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.records import LoggedEntry

SHORT = 1000
UPDATES = int(os.environ.get("TEST_UPDATES", "5000"))
"""Of the long version."""
RUN = 5000
"""Updates on one store: what they deleted stays in its way for a while, and reading all of it takes ever longer."""
RUNS = [(n, min(RUN, UPDATES - n * RUN)) for n in range(-(-UPDATES // RUN))]
SEED = int(os.environ.get("TEST_SEED", "0")) or random.randrange(1, 1 << 32)

MANY = 16
"""Blank nodes in a state, above which an update takes them out: with 40 that are alike a comparison takes seconds."""
BLANKS = 8
"""More of them stand in a state at some time: a run goes on until they did."""


def recounted(worker: Worker) -> None:
    """What is stored is what it says that it applied."""
    applied = worker.store.applied
    assert worker.store.recount() == (applied.signature, applied.quads)


def second_opinion(worker: Worker, entry: LoggedEntry, first: Effect) -> Effect:
    """What another evaluator says, whose store came to this state by following; it leaves nothing there."""
    said: list[Effect] = []
    fence = Fence(term=first.term, attempt=first.attempt, worker="another")
    loader = Loader(LoadLimits.of(worker.settings), lambda: None)
    evaluator = Evaluator(worker.store, fence, lambda effect, _: said.append(effect), loader)
    evaluator.evaluate([entry])
    evaluator.retire()
    [effect] = said
    return effect


def hear_late(evaluating: Worker, chance: random.Random) -> None:
    """Some effects come back late, some in batches."""
    if chance.random() < 0.3:
        evaluating.hear(TOPICS.effects, chance.randint(1, 8))
        evaluating.turn()


def fed_again(path: Path, log: Log, entries: int) -> Worker:
    """A worker that takes in so many entries as a few large batches."""
    worker = Worker(path, log, "fed-again")
    worker.hear(TOPICS.agreed, entries)
    worker.hear(TOPICS.effects, len(log.records[TOPICS.effects]) - 1)
    worker.turn()
    return worker


def twin_of(worker: Worker) -> Store:
    """A store in the same state."""
    twin = Store()
    lines, graphs = state_of(worker)
    quads = "\n".join(line for line in lines if not line.startswith("#"))
    twin.extend(ox.parse(quads, format=ox.RdfFormat.N_QUADS))
    for graph in graphs:
        twin.add_graph(ox.NamedNode(graph[1:-1]))
    return twin


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("run", "updates"), [(0, SHORT), *(pytest.param(*each, marks=pytest.mark.soak) for each in RUNS)]
)
def test_random_updates(tmp_path: Path, run: int, updates: int) -> None:
    """State as pyoxigraph's own up to blank nodes, effect the difference, signature as recounted.

    A second evaluator with another history says the same.
    """
    print("TEST_SEED =", SEED, "run", run)
    generator, log, twin = Generator(SEED + run), Log(), Store()
    evaluating, step_by_step = Worker(tmp_path, log, "w1"), Worker(tmp_path, log, "w2")
    evaluating.take_over()
    rejected = ahead = most_blanks = datasets = volatile = 0
    for number in itertools.count():
        if number >= updates and (most_blanks > BLANKS or number >= 3 * updates):
            break
        many = blank_nodes(twin) > MANY
        text, plain, options, is_volatile = Update(NO_BLANKS, NO_BLANKS, {}) if many else generator.update()
        datasets += bool(options)
        volatile += is_volatile
        entry = log.agree(text, options=options)
        evaluating.hear(TOPICS.agreed)
        evaluating.turn()
        ahead += evaluating.store.is_ahead
        hear_late(evaluating, generator.chance)
        if number == updates // 2:
            step_by_step.close()
            step_by_step = fed_again(tmp_path, log, number)
        effect = _last(log)
        before = state_of(step_by_step)
        assert second_opinion(step_by_step, entry, effect) == effect, text
        assert state_of(step_by_step) == before
        step_by_step.hear(TOPICS.agreed)
        step_by_step.hear(TOPICS.effects)
        step_by_step.turn()
        assert effect.index == number + 1 == step_by_step.store.applied.index, text
        if is_volatile:
            twin = twin_of(step_by_step)
        else:
            assert _runs(twin, plain) is (effect.outcome is Outcome.APPLIED), (text, effect.reason)
        rejected += effect.outcome is Outcome.REJECTED
        exact(effect, before, state_of(step_by_step))
        same(step_by_step, twin)
        most_blanks = max(most_blanks, blank_nodes(twin))
        recounted(step_by_step)
        if not evaluating.store.is_ahead:
            recounted(evaluating)
    evaluating.catch_up()
    assert not evaluating.store.is_ahead
    assert state_of(evaluating) == state_of(step_by_step)
    assert state_of(_late(tmp_path, log)) == state_of(evaluating)
    print(
        f"{rejected} rejected, {datasets} with a dataset, {volatile} volatile, {ahead} times ahead of what is shown,"
        f" {most_blanks} blank nodes at most"
    )
    assert datasets > number / 40
    assert volatile > number / 60
    assert rejected > number / 100
    assert ahead > number / 5
    assert most_blanks > BLANKS


def _late(path: Path, log: Log) -> Worker:
    """One that begins when all is said."""
    worker = Worker(path, log, "w3")
    worker.catch_up()
    return worker


def _last(log: Log) -> Effect:
    effect = codec.decode(log.records[TOPICS.effects][-1].value)
    assert isinstance(effect, Effect)
    return effect


def _runs(twin: Store, text: str) -> bool:
    try:
        twin.update(text)
    except RuntimeError:
        return False
    return True
