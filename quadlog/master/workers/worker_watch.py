"""Watch: checks that the workers of this data centre are present, in time and right.

The effect of an entry contains the signature of the state after it.  Each heartbeat is compared with the
effect of the index that it reports; a worker that contradicts the effect is quarantined until it serves a new
store.  The same holds for a worker whose recount (``worker/repair/scrub.py``) found other stored quads than
were applied.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.core.records import WorkerState
from quadlog.master.workers.alarms import AlarmName, Alarms, Trouble
from quadlog.master.workers.worker_registry import Divergence, ProbeResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.messages import Now
    from quadlog.core.records import Heartbeat
    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""Milliseconds between two checks for silent and lagging workers."""

KNOCK_MS: Final = 1_000.0
"""Milliseconds between two requests to a silent worker."""

SOW_MS: Final = 10_000.0
"""Milliseconds between two attempts to bring the seed to a worker that lacks it."""

MEND_MS: Final = 10_000.0
"""Milliseconds between two requests to a quarantined worker to rebuild its store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerActions:
    """Actions of the watch; all return at once."""

    knock: Callable[[Worker], None]
    """Check whether a worker answers, and store the result in `Worker.door`."""
    mend: Callable[[Worker, Divergence], None]
    """Ask a worker to rebuild its store."""
    sow: Callable[[Worker], None]
    """Have the seed brought to a worker that lacks it."""


REBUILD_MS: Final = 10_000.0
"""Milliseconds for which a quarantined worker may be silent during its rebuild before that raises an alarm, too."""


class WorkerWatch:
    """Comparison of workers with the effects.  Owned by the node's thread."""

    def __init__(
        self,
        worker_registry: WorkerRegistry,
        ledger: EffectsLedger,
        worker_actions: WorkerActions,
        *,
        max_lag_ms: float,
    ) -> None:
        """Start without suspicion; a worker that lacks an entry `max_lag_ms` after its decision raises an alarm."""
        self.alarms: Final = Alarms()
        self._worker_registry, self._ledger, self._worker_actions = worker_registry, ledger, worker_actions
        self._max_lag = max_lag_ms
        self._looked_at = float("-inf")
        self._past: deque[tuple[float, int, int]] = deque()
        """Times of checks with the agreed and the decided index then; the first one is `max_lag_ms` ago."""
        self._compared: dict[str, Heartbeat] = {}
        """By worker: the last heartbeat for which the effect was found."""
        self._knocked: dict[str, float] = {}
        self._sown: dict[str, float] = {}
        self._asked: dict[str, tuple[str, float]] = {}
        """By worker: the store that it was asked to replace, and when."""

    # --- comparison with the effects ------------------------------------------------------------------

    def compare(self) -> None:
        """Compare the newest heartbeats with the effects; must precede any answer that relies on them."""
        for worker in self._worker_registry.all():
            beat = worker.beat
            if self._compared.get(beat.worker) is beat or self._worker_registry.goes_back(beat):
                continue
            if beat.fork is not None:
                worker.wrong = None
                continue
            worker.wrong = self._wrong(worker)
            if self._ledger.state_after(beat.applied.index) is not None:  # else its effect is yet to arrive
                self._compared[beat.worker] = beat

    def _wrong(self, worker: Worker) -> Divergence | None:
        beat, known = worker.beat, worker.wrong
        found = self._contradiction(beat) or self._damage(beat)
        if known is None:
            return found
        if beat.store == known.store or not beat.store:
            return known  # even if it looks right again, the content of this store is not what the log made
        if found is not None:
            return found
        return known if beat.applied.index < known.until else None

    def _contradiction(self, beat: Heartbeat) -> Divergence | None:
        index, chain = beat.applied.index, beat.applied.chain
        after = self._ledger.state_after(index)
        if index == 0 and (self._worker_registry.lacks_seed(beat) or self._ledger.index == 0):
            return None  # it begins with the seed soon, or received it before this master did
        if after is None or (chain, beat.signature) == (after.entry_chain, after.signature):
            return None
        what, mine, right = (
            ("chain", chain, after.entry_chain)
            if chain != after.entry_chain
            else ("signature", beat.signature, after.signature)
        )
        return Divergence(
            name=AlarmName.DIVERGED,
            index=index,
            transaction=after.id or None,
            reason=f"its {what} at index {index} is {mine.hex()[:16]}…, that of the effect {right.hex()[:16]}…",
            store=beat.store,
            until=self._ledger.index,
        )

    def _damage(self, beat: Heartbeat) -> Divergence | None:
        scrub = beat.scrub
        if scrub is None:
            return None
        after = self._ledger.state_after(scrub.index)
        # A recount before the seed arrived found an empty store, which was right.
        expected = after.signature if after and scrub.index else scrub.expected
        if scrub.found == expected:
            return None
        return Divergence(
            name=AlarmName.DAMAGED,
            index=scrub.index,
            transaction=(after.id or None) if after else None,
            reason=(
                f"the {scrub.quads} quads stored at index {scrub.index} have the signature"
                f" {scrub.found.hex()[:16]}…, {expected.hex()[:16]}… was applied"
            ),
            store=beat.store,
            until=self._ledger.index,
        )

    # --- silence and lag ------------------------------------------------------------------------------

    def check(
        self, moment: Now, *, agreed: int, leads: bool, more: Callable[[], Iterable[Trouble]] = tuple
    ) -> None:
        """Check every `LOOK_MS` for silent and lagging workers, and update the alarms.

        `agreed`: index of the last entry that may be evaluated; `leads`: this master must have wrong workers rebuilt;
        `more` returns further troubles.
        """
        if moment.steady - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment.steady
        self._past.append((moment.steady, agreed, self._ledger.index))
        while len(self._past) > 1 and self._past[1][0] <= moment.steady - self._max_lag:
            self._past.popleft()
        troubles = [
            trouble
            for worker in self._worker_registry.all()
            for trouble in self._troubles(worker, moment.steady)
        ]
        self.alarms.set([*troubles, *more(), *self._undecided(moment.steady)], moment.wall)
        if leads:
            self._have_mended(moment.steady)
            self._have_sown(moment.steady)

    def _have_sown(self, now: float) -> None:
        """Have the seed brought to workers that report that they wait for it."""
        for worker in self._worker_registry.all():
            beat, at = worker.beat, self._sown.get(worker.beat.worker, float("-inf"))
            if self._waits_for_seed(worker, now) and now - at >= SOW_MS:
                self._sown[beat.worker] = now
                self._worker_actions.sow(worker)

    def _waits_for_seed(self, worker: Worker, now: float) -> bool:
        return self._worker_registry.is_starting(worker, now) and bool(worker.beat.mend)

    def _have_mended(self, now: float) -> None:
        for worker in self._worker_registry.all():
            beat, wrong = worker.beat, worker.wrong
            if wrong is None or beat.store != wrong.store or not self._worker_registry.is_live(worker, now):
                continue
            store, at = self._asked.get(beat.worker, ("", float("-inf")))
            if store != beat.store or now - at >= MEND_MS:
                self._asked[beat.worker] = beat.store, now
                log.info("worker_asked_to_rebuild", worker=beat.worker, reason=wrong.reason)
                self._worker_actions.mend(worker, wrong)

    def _troubles(self, worker: Worker, now: float) -> Iterator[Trouble]:
        beat, wrong = worker.beat, worker.wrong
        if wrong is not None:
            rebuilding = f"; rebuilt, and at index {beat.applied.index} of {wrong.until} now"
            yield Trouble(
                name=wrong.name,
                worker=beat.worker,
                index=wrong.index,
                transaction=wrong.transaction,
                reason=wrong.reason + (rebuilding if beat.store != wrong.store else ""),
                obstacle=beat.mend,
            )
        if wrong is not None and now - worker.heard_at < REBUILD_MS:
            return
        if self._worker_registry.keeps_branch(worker, now):
            yield _kept_branch(beat)
        elif self._waits_for_seed(worker, now):
            yield Trouble(name=AlarmName.UNSEEDED, worker=beat.worker, reason=beat.mend)
        elif self._worker_registry.is_catching_up(worker, now):
            yield from self._lag(beat, now)
        elif not self._worker_registry.is_live(worker, now) and not self._worker_registry.is_going_back(
            worker, now
        ):
            yield from self._absence(worker, now)
        else:
            yield from self._lag(beat, now)
            if beat.unsaid:
                yield _trouble(AlarmName.FULL, beat, beat.unsaid)
        if beat.set_aside:
            yield _trouble(AlarmName.SET_ASIDE, beat, beat.set_aside)
        if beat.scrub_failure:
            yield Trouble(
                name=AlarmName.UNSCRUBBED,
                worker=beat.worker,
                index=beat.scrub.index if beat.scrub else 0,
                reason=beat.scrub_failure,
            )

    def _lag(self, beat: Heartbeat, now: float) -> Iterator[Trouble]:
        if beat.applied.index < self._past_at(now)[1]:
            reason = f"{self._ledger.index} is decided; it lacks what was {self._max_lag / 1000:g} s ago"
            if beat.catching_up is not None:
                reason += f"; it catches up: {beat.catching_up}"
            yield _trouble(AlarmName.LAGGING, beat, reason)

    def _absence(self, worker: Worker, now: float) -> Iterator[Trouble]:
        beat = worker.beat
        if beat.state is WorkerState.STOPPING:
            name, reason = AlarmName.STOPPED, "it said that it stops"
        else:
            if now - self._knocked.get(beat.worker, float("-inf")) >= KNOCK_MS:
                self._knocked[beat.worker] = now
                self._worker_actions.knock(worker)
            if worker.door is ProbeResult.UNKNOWN:
                return
            name, reason = _SILENT[worker.door]
        yield _trouble(name, beat, reason)

    def _undecided(self, now: float) -> Iterator[Trouble]:
        agreed, decided = self._past_at(now)[0], self._ledger.index
        if decided < agreed:
            yield Trouble(
                name=AlarmName.UNDECIDED,
                index=decided + 1,
                reason=f"{agreed} was agreed {self._max_lag / 1000:g} s ago; effects are here up to {decided}",
            )

    def _past_at(self, now: float) -> tuple[int, int]:
        """Return the agreed and the decided index `max_lag_ms` ago; zeros, if no check is that old."""
        at, agreed, decided = self._past[0]
        return (agreed, decided) if at <= now - self._max_lag else (0, 0)


def _trouble(name: AlarmName, beat: Heartbeat, reason: str) -> Trouble:
    return Trouble(name=name, worker=beat.worker, index=beat.applied.index, reason=reason)


def _kept_branch(beat: Heartbeat) -> Trouble:
    obstacle = f"; it was not rebuilt: {beat.mend}" if beat.mend else ""
    if beat.scrub is not None and beat.scrub.found != beat.scrub.expected:
        obstacle += f"; its stored quads at index {beat.scrub.index} are not those that were applied: look at its disk"
    return Trouble(
        name=AlarmName.DIVERGED,
        worker=beat.worker,
        index=beat.fork or 0,
        reason=f"it keeps the branch after entry {beat.fork}, by split-recovery None{obstacle}",
        advice=(
            f"list the quads that differ: `quadlog diff {beat.url} URL-OF-ANOTHER-WORKER`; write again what must stay;"
            f" then `quadlog worker rebuild {beat.worker} --at MASTER`"
        ),
    )


_SILENT: Final = {
    ProbeResult.REFUSED: (AlarmName.DEAD, "no heartbeat comes, and its door is closed"),
    ProbeResult.HANGS: (
        AlarmName.HUNG,
        "no heartbeat comes, and its door takes connections without an answer",
    ),
    ProbeResult.ANSWERS: (AlarmName.UNHEARD, "no heartbeat comes, but its door answers"),
}
