"""The watch: are the workers of this data centre there, in time, and right?

The effect of an entry says what the state after it is.  Each heartbeat is held against the effect of the
index that it tells; a worker that contradicts it is quarantined until it serves a store made anew.  So is one
whose recount (``worker/repair/scrub.py``) found other quads stored than were applied.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.core.records import WorkerState
from quadlog.master.workers.alarms import AlarmName, Alarms, Trouble
from quadlog.master.workers.crew import Door, Wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from consumers.effects_ledger import EffectsLedger
    from quadlog.core.messages import Now
    from quadlog.core.records import Heartbeat
    from quadlog.master.workers.crew import Crew, Worker

log = structlog.get_logger()

LOOK_MS: Final = 250.0
"""How often it is looked who is silent or behind."""

KNOCK_MS: Final = 1_000.0
"""Between two knocks at the door of a worker that is silent."""

SOW_MS: Final = 10_000.0
"""Between two tries to bring the seed to a worker that lacks it."""

MEND_MS: Final = 10_000.0
"""Between two requests to a quarantined worker that it be rebuilt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What the watch does beyond looking; all return at once."""

    knock: Callable[[Worker], None]
    """Asks at a worker's door whether it lives, and notes it in `Worker.door`."""
    mend: Callable[[Worker, Wrong], None]
    """Asks a worker to be rebuilt."""
    sow: Callable[[Worker], None]
    """Has the seed brought to a worker that lacks it."""


REBUILD_MS: Final = 10_000.0
"""How long a quarantined worker may be away, while it becomes a new one, before that is told too."""


class Watch:
    """Owned by the node's thread."""

    def __init__(self, crew: Crew, ledger: EffectsLedger, hands: Hands, *, max_lag_ms: float) -> None:
        """Begin without a suspicion.

        Args:
            crew: the workers.
            ledger: what effects say.
            hands: what to do about it.
            max_lag_ms: how long what is decided may be missing at a worker before that is told.

        """
        self.alarms: Final = Alarms()
        self._crew, self._ledger, self._hands = crew, ledger, hands
        self._max_lag = max_lag_ms
        self._looked_at = float("-inf")
        self._past: deque[tuple[float, int, int]] = deque()
        """When it was looked, and what was agreed and decided then; the first one is `max_lag_ms` ago."""
        self._compared: dict[str, Heartbeat] = {}
        """Of each worker the last heartbeat that an effect was found for."""
        self._knocked: dict[str, float] = {}
        self._sown: dict[str, float] = {}
        self._asked: dict[str, tuple[str, float]] = {}
        """Of each worker which store it was asked to empty, and when."""

    # --- is it right? ---------------------------------------------------------------------------------

    def compare(self) -> None:
        """Hold the newest heartbeats against the effects: before anything is answered because of them."""
        for worker in self._crew.all():
            beat = worker.beat
            if self._compared.get(beat.worker) is beat or self._crew.goes_back(beat):
                continue
            worker.wrong = self._wrong(worker)
            if self._ledger.state_after(beat.applied.index) is not None:  # else its effect is yet to come
                self._compared[beat.worker] = beat

    def _wrong(self, worker: Worker) -> Wrong | None:
        beat, known = worker.beat, worker.wrong
        found = self._contradiction(beat) or self._damage(beat)
        if known is None:
            return found
        if beat.store == known.store or not beat.store:
            return known  # it may look right again: what it holds is still not what the log made
        if found is not None:
            return found
        return known if beat.applied.index < known.until else None

    def _contradiction(self, beat: Heartbeat) -> Wrong | None:
        index, chain = beat.applied.index, beat.applied.chain
        after = self._ledger.state_after(index)
        if index == 0 and (self._crew.lacks_seed(beat) or self._ledger.index == 0):
            return None  # it begins with the seed soon, or heard of it before this master did
        if after is None or (chain, beat.signature) == (after.entry_chain, after.signature):
            return None
        what, mine, right = (
            ("chain", chain, after.entry_chain)
            if chain != after.entry_chain
            else ("signature", beat.signature, after.signature)
        )
        return Wrong(
            name=AlarmName.DIVERGED,
            index=index,
            transaction=after.id or None,
            reason=f"its {what} at index {index} is {mine.hex()[:16]}…, that of the effect {right.hex()[:16]}…",
            store=beat.store,
            until=self._ledger.index,
        )

    def _damage(self, beat: Heartbeat) -> Wrong | None:
        scrub = beat.scrub
        if scrub is None:
            return None
        after = self._ledger.state_after(scrub.index)
        # What was counted before the seed came was empty, and right.
        expected = after.signature if after and scrub.index else scrub.expected
        if scrub.found == expected:
            return None
        return Wrong(
            name=AlarmName.DAMAGED,
            index=scrub.index,
            transaction=after.id or None if after else None,
            reason=(
                f"the {scrub.quads} quads stored at index {scrub.index} have the signature"
                f" {scrub.found.hex()[:16]}…, {expected.hex()[:16]}… was applied"
            ),
            store=beat.store,
            until=self._ledger.index,
        )

    # --- is it there, and in time? --------------------------------------------------------------------

    def look(self, moment: Now, *, agreed: int, leads: bool, more: Iterable[Trouble] = ()) -> None:
        """See now and then who is silent or behind; have the alarms say so.

        Args:
            moment: now.
            agreed: the last agreed index.
            leads: whether this master has wrong workers rebuilt.
            more: what else is wrong.

        """
        if moment.steady - self._looked_at < LOOK_MS:
            return
        self._looked_at = moment.steady
        self._past.append((moment.steady, agreed, self._ledger.index))
        while len(self._past) > 1 and self._past[1][0] <= moment.steady - self._max_lag:
            self._past.popleft()
        troubles = [
            trouble for worker in self._crew.all() for trouble in self._troubles(worker, moment.steady)
        ]
        self.alarms.set([*troubles, *more, *self._undecided(moment.steady)], moment.wall)
        if leads:
            self._have_mended(moment.steady)
            self._have_sown(moment.steady)

    def _have_sown(self, now: float) -> None:
        """The seed is brought to whoever says that it waits for it."""
        for worker in self._crew.all():
            beat, at = worker.beat, self._sown.get(worker.beat.worker, float("-inf"))
            if self._waits_for_seed(worker, now) and now - at >= SOW_MS:
                self._sown[beat.worker] = now
                self._hands.sow(worker)

    def _waits_for_seed(self, worker: Worker, now: float) -> bool:
        return self._crew.is_starting(worker, now) and bool(worker.beat.mend)

    def _have_mended(self, now: float) -> None:
        for worker in self._crew.all():
            beat, wrong = worker.beat, worker.wrong
            if wrong is None or beat.store != wrong.store or not self._crew.is_live(worker, now):
                continue
            store, at = self._asked.get(beat.worker, ("", float("-inf")))
            if store != beat.store or now - at >= MEND_MS:
                self._asked[beat.worker] = beat.store, now
                log.info("worker_asked_to_rebuild", worker=beat.worker, reason=wrong.reason)
                self._hands.mend(worker, wrong)

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
        if self._waits_for_seed(worker, now):
            yield Trouble(name=AlarmName.UNSEEDED, worker=beat.worker, index=0, reason=beat.mend)
        elif self._crew.is_catching_up(worker, now):
            yield from self._lag(beat, now)
        elif not self._crew.is_live(worker, now) and not self._crew.is_going_back(worker, now):
            yield from self._absence(worker, now)
        else:
            yield from self._lag(beat, now)
            if beat.unsaid:
                yield Trouble(
                    name=AlarmName.FULL, worker=beat.worker, index=beat.applied.index, reason=beat.unsaid
                )
        if beat.set_aside:
            yield Trouble(
                name=AlarmName.SET_ASIDE,
                worker=beat.worker,
                index=beat.applied.index,
                reason=beat.set_aside,
            )
        if beat.scrub_failure:
            yield Trouble(
                name=AlarmName.UNSCRUBBED,
                worker=beat.worker,
                index=beat.scrub.index if beat.scrub else 0,
                reason=beat.scrub_failure,
            )

    def _lag(self, beat: Heartbeat, now: float) -> Iterator[Trouble]:
        if beat.applied.index < self._past_at(now)[1]:
            way = beat.catching_up
            yield Trouble(
                name=AlarmName.LAGGING,
                worker=beat.worker,
                index=beat.applied.index,
                reason=f"{self._ledger.index} is decided; it lacks what was {self._max_lag / 1000:g} s ago"
                + (f"; it catches up: {way}" if way is not None else ""),
            )

    def _absence(self, worker: Worker, now: float) -> Iterator[Trouble]:
        beat = worker.beat
        if beat.state is WorkerState.STOPPING:
            name, reason = AlarmName.STOPPED, "it said that it stops"
        else:
            if now - self._knocked.get(beat.worker, float("-inf")) >= KNOCK_MS:
                self._knocked[beat.worker] = now
                self._hands.knock(worker)
            if worker.door is Door.UNKNOWN:
                return
            name, reason = _SILENT[worker.door]
        yield Trouble(name=name, worker=beat.worker, index=beat.applied.index, reason=reason)

    def _undecided(self, now: float) -> Iterator[Trouble]:
        agreed, decided = self._past_at(now)[0], self._ledger.index
        if decided < agreed:
            yield Trouble(
                name=AlarmName.UNDECIDED,
                worker=None,
                index=decided + 1,
                reason=f"{agreed} was agreed {self._max_lag / 1000:g} s ago; effects are here up to {decided}",
            )

    def _past_at(self, now: float) -> tuple[int, int]:
        """What was agreed and decided `max_lag_ms` ago; nothing, if nobody looked then."""
        at, agreed, decided = self._past[0]
        return (agreed, decided) if at <= now - self._max_lag else (0, 0)


_SILENT: Final = {
    Door.REFUSED: (AlarmName.DEAD, "no heartbeat comes, and its door is closed"),
    Door.HANGS: (AlarmName.HUNG, "no heartbeat comes, and its door takes connections without an answer"),
    Door.ANSWERS: (AlarmName.UNHEARD, "no heartbeat comes, but its door answers"),
}
