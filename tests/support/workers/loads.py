"""LOAD from documents, and the effects of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support.workers.rehearsal import TOPICS, Log, Worker
from tests.support.workers.updates import exact, state_of

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.core.records import Effect


class Pair:
    """A worker that evaluates, and one that follows."""

    def __init__(self, path: Path, **settings: object) -> None:
        self.log = Log()
        self.evaluating = Worker(path, self.log, "w1", **settings)
        self.following = Worker(path, self.log, "w2", **settings)
        self.evaluating.take_over()

    def run(self, text: str) -> Effect:
        """Its effect, which is checked to be the difference."""
        self.log.agree(text)
        self.evaluating.hear(TOPICS.agreed)
        wait_for_effects(self.evaluating, len(self.log.effects()) + 1)
        before = state_of(self.following)
        self.evaluating.catch_up()
        self.following.catch_up()
        effect = self.log.effects()[-1]
        exact(effect, before, state_of(self.following))
        assert state_of(self.following) == state_of(self.evaluating)
        assert self.following.store.recount()[0] == self.following.store.applied.signature
        return effect


def wait_for_effects(worker: Worker, count: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    worker.turn()
    while len(worker.log.effects()) < count:
        assert time.monotonic() < deadline, "nothing was evaluated"
        time.sleep(0.005)
        worker.turn()
