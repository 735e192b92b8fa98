"""Evaluation of a branch's updates behind the log of the winner, on a store of its own, in a process of its own.

The process is that in which workers evaluate suspects (`worker/evaluate/trial.py`): it may hang, crash or take too much
memory, and is ended then, as a worker would end it.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from quadlog.core.model import hash_of
from quadlog.core.records import Effect, Fence, LoggedEntry, Outcome
from quadlog.quadstore.applied import Applied
from quadlog.worker.evaluate.fetch import LoadLimits
from quadlog.worker.evaluate.suspects import Trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.evaluate.limits import EvaluationLimits

HANDED: Final = 200
"""Entries that the process has at once."""
LOOK_S: Final = 0.002
"""Seconds between two looks for the next effect."""
KEPT: Final = 2_000
"""Effects after which they are applied to the store itself, so that another process can continue from there."""
_NOTHING: Final = LoadLimits(beginnings=(), endpoints=(), seconds=1.0, size=1)
"""Updates that need another server are not evaluated: they are unforeseen."""


class Foresight:
    """Evaluates updates one after the other, each on the state that those before have left."""

    def __init__(self, store: QuadStore, directory: Path, limits: EvaluationLimits) -> None:
        """Keep a store that shows the winner's last entry, and is changed.

        Copies of it are made in `directory`, on its own file system; `limits` are those of one update at workers.
        """
        self._store, self._directory, self._limits = store, directory, limits
        self._fence: Final = Fence(term=hash_of(b"foresight"), attempt=1, worker="foresight")
        self._index = store.applied.index
        self._trial: Trial | None = None
        self._kept = list[Effect]()
        """Effects that the store does not show yet."""

    def effects(self, entries: Iterable[LoggedEntry]) -> Iterator[Effect]:
        """Yield the effect of each entry, in order; entry and effect have their places in the winner's log.

        Raises:
            StateError: no process can be run.

        """
        source, waiting = iter(entries), deque[LoggedEntry]()
        while True:
            new = list[LoggedEntry]()
            if len(waiting) <= HANDED // 2:
                for entry in islice(source, HANDED - len(waiting)):
                    self._index += 1
                    new.append(replace(entry, index=self._index, chain=hash_of(b"foreseen", entry.chain)))
                waiting += new
            if not waiting:
                return
            if self._trial is None:
                self._trial, new = (
                    Trial(self._store, self._fence, _NOTHING, self._directory),
                    [*waiting],
                )
            self._trial.hand_over(new)
            match self._trial.outcome(self._limits):
                case None:
                    time.sleep(LOOK_S)
                    continue
                case Effect() as effect:
                    waiting.popleft()
                case reason:
                    effect = self._rejected(waiting.popleft(), reason)
            self._kept.append(effect)
            if len(self._kept) >= KEPT:
                self._apply()
            yield effect

    def _rejected(self, entry: LoggedEntry, reason: str) -> Effect:
        """Return the effect of an update whose evaluation was ended, and continue in another process."""
        self._end()
        self._apply()
        applied = self._store.applied
        signature = applied.signature.to_bytes(32, "big")
        return Effect(
            index=entry.index,
            id=entry.id,
            entry_chain=entry.chain,
            term=self._fence.term,
            attempt=self._fence.attempt,
            outcome=Outcome.REJECTED,
            reason=reason,
            quads=applied.quads,
            signature_before=signature,
            signature_after=signature,
            chain=hash_of(applied.effects_chain, entry.chain),
        )

    def _apply(self) -> None:
        if self._kept:
            self._store.apply(self._kept, Applied.after(self._kept[-1]))
            self._kept = []

    def _end(self) -> None:
        if self._trial is not None:
            self._trial.close()
            self._trial = None

    def close(self) -> None:
        """End the process and close the store."""
        self._end()
        self._store.close()
