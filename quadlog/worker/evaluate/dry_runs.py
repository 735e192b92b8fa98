"""Dry runs: what an update would do now, without logging anything.

An update is evaluated like a suspect (`trial.py`): in a separate process on a copy of the store, within the
limits of updates, by the same code that decides agreed entries.  The copy consists of hard links, and is made
once nothing is anticipated, so it shows exactly the state after an index.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from quadlog.clock import wall
from quadlog.core.agreement.pacing import LOGICAL_BITS
from quadlog.core.model import GENESIS, TransactionKind, hash_of
from quadlog.core.records import Effect, Fence, LoggedEntry, Outcome
from quadlog.errors import StateError, Unavailable
from quadlog.worker.evaluate.limits import EvaluationLimits
from quadlog.worker.evaluate.loader import LoadLimits
from quadlog.worker.evaluate.suspects import Trial

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from threading import Event

    from quadlog.quadstore.quadstore import Applied, QuadStore
    from quadlog.settings import WorkerSettings

DIRECTORY: Final = "dry-run"
"""Directory of the copy of the current dry run, in the worker's data-dir."""

LOOK_S: Final = 0.005
"""Seconds between two checks for the outcome: most outcomes are available within some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunResult:
    """Outcome of a dry run."""

    applied: Applied
    """State against which the update was evaluated."""
    effect: Effect | str
    """The effect; or why there is none: a limit ended the evaluation, or the evaluation ended its process."""
    controls: Sequence[Mapping[str, Any]]
    """Verdict on each control that was evaluated."""

    def answer(self) -> dict[str, Any]:
        """Return the outcome as JSON: quads are N-Quads lines, graphs N-Quads terms, as in the effects topic."""
        effect = self.effect
        found: dict[str, Any] = {
            "index": self.applied.index,
            "signature": f"{self.applied.signature:064x}",
            "controls": list(self.controls),
        }
        if isinstance(effect, str):
            return found | {"outcome": Outcome.REJECTED, "reason": effect}
        return found | {
            "outcome": effect.outcome,
            "reason": effect.reason,
            "deleted": list(effect.deleted),
            "inserted": list(effect.inserted),
            "emptied": list(effect.emptied),
            "filled": list(effect.filled),
            "dropped": list(effect.dropped),
            "quads": effect.quads,
            "signature_after": effect.signature_after.hex(),
        }


class DryRuns:
    """Dry runs of one worker, one at a time: each needs a copy of the store and a process."""

    def __init__(self, store: QuadStore, settings: WorkerSettings) -> None:
        """Run on copies of `store`, with the limits for updates and in the data-dir of `settings`."""
        self._store, self._worker = store, settings.node_id
        self._directory: Path = settings.data_dir / DIRECTORY
        self._limits: Final = EvaluationLimits.of(settings)
        self._load_limits: Final = LoadLimits.of(settings)
        self._busy = threading.Lock()

    def run(
        self, body: bytes, media_type: str, options: Mapping[str, str], transaction_id: bytes, left: Event
    ) -> DryRunResult:
        """Evaluate an update against the applied state.  Blocks meanwhile: must not be called on the event loop.

        The names of its blank nodes are derived from `transaction_id`; `left` is set when nobody waits any more.

        Raises:
            Unavailable: another dry run is under way here, no copy could be made or opened, or the client has
                left.

        """
        if not self._busy.acquire(blocking=False):
            raise Unavailable("another dry run is under way at this worker", retry_after=1)
        try:
            return self._run(body, media_type, options, transaction_id, left)
        except (OSError, RuntimeError, StateError) as error:
            if isinstance(error, RuntimeError) and not self._store.damage.note(error):
                raise
            message = f"no dry run can be held here: {error}"
            raise Unavailable(message, retry_after=5) from error
        finally:
            self._busy.release()

    def _run(
        self, body: bytes, media_type: str, options: Mapping[str, str], transaction_id: bytes, left: Event
    ) -> DryRunResult:
        applied = self._store.applied
        fence = Fence(term=applied.term, attempt=applied.attempt, worker=self._worker)
        trial = Trial(self._store, fence, self._load_limits, self._directory, foretells=True)
        try:
            trial.hand_over([_entry(trial.applied, body, media_type, options, transaction_id)])
            while (effect := trial.outcome(self._limits)) is None:
                if left.wait(LOOK_S):
                    raise Unavailable("nobody waits for this dry run any more")
            return DryRunResult(applied=trial.applied, effect=effect, controls=tuple(trial.verdicts))
        finally:
            trial.close()


def _entry(
    applied: Applied, body: bytes, media_type: str, options: Mapping[str, str], transaction_id: bytes
) -> LoggedEntry:
    """Return the entry of an update as if it were agreed now, after the applied state."""
    created = wall()
    return LoggedEntry(
        index=applied.index + 1,
        kind=TransactionKind.TX,
        id=transaction_id,
        timestamp=created << LOGICAL_BITS,
        digest=hash_of(body),
        options=options,
        previous=applied.chain,
        chain=GENESIS,
        epoch=1,
        lineage=GENESIS,
        origin="dry-run",
        created=created,
        media_type=media_type,
        body=body,
    )
