"""Suspects: entries that may have ended the evaluating worker before this one.

Entries that were agreed when this worker took over, and have no effect, are evaluated in a separate process
(`trial.py`), on a copy of the store, within limits of time and memory.  An entry that ends that process as well
is rejected.  So an entry ends one worker at most, and no attempts have to be counted: a worker that takes over
finds the suspects in the log.
"""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import threading
from itertools import dropwhile, islice
from typing import IO, TYPE_CHECKING, Any, Final

import structlog

from quadlog import codec
from quadlog.clock import now
from quadlog.core.records import Effect, Outcome
from quadlog.errors import StateError, StoreDamaged
from quadlog.leash import leashed
from quadlog.quadstore.quaddir import FILES
from quadlog.worker.evaluate.limits import reason_at
from quadlog.worker.evaluate.trial import DAMAGED, READY, UNDER_WAY, VERDICT, receive, request, send
from quadlog.worker.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from quadlog.core.records import Fence, LoggedEntry
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.evaluate.evaluator import Evaluator
    from quadlog.worker.evaluate.fetch import LoadLimits
    from quadlog.worker.evaluate.limits import EvaluationLimits

log = structlog.get_logger()

HANDED: Final = 64
"""Suspects that are handed over to a trial at once, at most."""

START_S: Final = 20.0
"""Seconds without progress, and seconds of CPU time, that a trial may take until its store is open.

On a machine that is too busy this takes longer, and the trial continues.
"""


class Suspects:
    """Suspects of one term as evaluator, and their trial.  Used only by the replica's thread."""

    def __init__(
        self,
        store: QuadStore,
        fence: Fence,
        *,
        until: int,
        limits: EvaluationLimits,
        load_limits: LoadLimits,
        directory: Path,
    ) -> None:
        """Suspect all entries up to an index; the store shows the effects of all entries before them.

        The limits are those of one suspect; `directory`, for a copy, is on the store's own file system.
        """
        self._store, self._fence, self._until = store, fence, until
        self._limits, self._load_limits, self._directory = limits, load_limits, directory
        self._trial: Trial | None = None
        self._held: Effect | None = None
        """Effect of the next suspect, which must wait for a decision."""

    def turn(self, evaluator: Evaluator, entries: Iterable[LoggedEntry]) -> bool:
        """Continue the trial; return True if any suspect is left: then nothing else may be evaluated."""
        if evaluator.index >= self._until:
            self.close()
            return False
        if self._trial is None:
            if self._store.applied.index == evaluator.index and not self._store.is_ahead:
                self._trial = Trial(self._store, self._fence, self._load_limits, self._directory)
            return True
        new = dropwhile(lambda entry: entry.index <= evaluator.index, entries)
        suspects = [entry for entry in islice(new, HANDED) if entry.index <= self._until]
        self._trial.hand_over(suspects)
        for entry in suspects:
            if evaluator.is_full or not self._try(self._trial, evaluator, entry):
                break
        return True

    def _try(self, trial: Trial, evaluator: Evaluator, entry: LoggedEntry) -> bool:
        """Process the outcome of the next suspect; return False if there is none yet, or if the trial has ended."""
        match self._held or trial.outcome(self._limits):
            case None:
                return False
            case Effect() as effect:
                return self._conclude(evaluator, effect, entry)
            case reason:
                self._store.examine()  # a damaged store is not the update's fault
                log.error("update_rejected", index=entry.index, reason=reason)
                evaluator.reject(entry, reason)
                self.close()
                return False

    def _conclude(self, evaluator: Evaluator, effect: Effect, entry: LoggedEntry) -> bool:
        """Process the effect of the next suspect; return False if it must wait, or if the trial has ended."""
        outcome = evaluator.outcome_with(effect, entry)
        self._held = effect if outcome is None else None
        if outcome is Outcome.APPLIED:
            evaluator.adopt(effect, entry)
        elif outcome is not None:
            evaluator.set_aside(entry, outcome)
            self.close()  # its store has the effect
        return outcome is Outcome.APPLIED

    def close(self) -> None:
        """End the trial, if there is one."""
        self._held = None
        if self._trial is not None:
            self._trial.close()
            self._trial = None


class Trial:
    """One process of a trial, as its worker uses it."""

    def __init__(
        self,
        store: QuadStore,
        fence: Fence,
        load: LoadLimits,
        directory: Path,
        *,
        foretells: bool = False,
    ) -> None:
        """Start the process, which ends with this thread, on a copy of the store; `foretells`: see `request`."""
        self._directory, self._store = directory, store
        shutil.rmtree(directory, ignore_errors=True)
        self.applied: Final = store.copy(directory)
        """State that the copy has applied."""
        self._request = request(directory, fence, load, foretells=foretells)
        self.verdicts: Final[list[dict[str, Any]]] = []
        """Verdicts on controls, as JSON; only with `foretells`."""
        self._process = subprocess.Popen(  # noqa: S603  our own command
            leashed([sys.executable, "-m", "quadlog.worker.evaluate.trial"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._vitals = Vitals(self._process.pid)
        self._handed = 0
        self._under_way: tuple[float, str] | None = now().steady, ""
        """Steady milliseconds at which the current evaluation began, and the current control."""
        self._is_ready = False
        self._went_on = 0.0, now().steady
        """CPU time used before it was ready, and the time at which an increase was last seen."""
        self._memory = 0
        self._entries: queue.SimpleQueue[LoggedEntry | None] = queue.SimpleQueue()
        self._outcomes: queue.SimpleQueue[Effect | StateError | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="trial", daemon=True)
        self._thread.start()

    def hand_over(self, entries: Iterable[LoggedEntry]) -> None:
        """Pass entries to the process, except those that it already has."""
        for entry in entries:
            if entry.index > self._handed:
                self._handed = entry.index
                self._entries.put(entry)

    def outcome(self, limits: EvaluationLimits) -> Effect | str | None:
        """Return the effect of the next entry, or why it has none; None as long as neither is known.

        Raises:
            StateError: no trial can be run; the cause is this worker, not the update.
            StoreDamaged: the worker's store is damaged.

        """
        try:
            effect = self._outcomes.get_nowait()
        except queue.Empty:
            return self._exceeded(limits)
        if isinstance(effect, StateError):
            raise effect
        if effect is None and not self._is_ready:
            message = "the process for a trial ended before it began; its own words are in this worker's log"
            raise StateError(message)
        if effect is None:
            control = self._under_way[1] if self._under_way else ""
            return self._end(
                f"{reason_at(control)}evaluator-crash: its evaluation ended the process that was at it"
            )
        return effect

    def _exceeded(self, limits: EvaluationLimits) -> str | None:
        began, control = self._under_way or (now().steady, "")
        seconds = (now().steady - began) / 1000
        if self._is_ready:
            exceeded = limits.exceeded(seconds, self._vitals, before=self._memory, control=control)
            return exceeded and self._end(exceeded)
        if seconds > START_S and self._hangs():
            message = f"no process for a trial could be begun within {START_S:g} s"
            raise StateError(message)
        return None

    def _hangs(self) -> bool:
        """Return True if the process makes no progress, or has used enough CPU time to be ready."""
        (before, since), used = self._went_on, self._vitals.cpu_ms() / 1000
        if used > before:
            self._went_on = used, now().steady
            return used > START_S
        return (now().steady - since) / 1000 > START_S

    def _end(self, reason: str) -> str:
        self._process.kill()
        return reason

    def close(self) -> None:
        """End the process, and remove its copy of the store."""
        self._process.kill()
        self._entries.put(None)
        self._thread.join()
        self._process.wait()
        self._vitals.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self) -> None:
        source, out = self._process.stdout, self._process.stdin
        assert source is not None, "a pipe"
        assert out is not None, "a pipe"
        try:
            with source, out:
                self._converse(source, out)
        except StateError as error:
            self._outcomes.put(error)
        except (OSError, EOFError):  # the process ended
            self._outcomes.put(None)

    def _converse(self, source: IO[bytes], out: IO[bytes]) -> None:
        send(out, [self._request])
        first = receive(source)
        self._refuse_damage(first)
        if first != READY:
            raise EOFError("it ended before it began")
        self._memory = self._vitals.memory()
        self._is_ready = True
        while (entry := self._next()) is not None:
            send(out, codec.encode_entry(entry))
            self._outcomes.put(self._effect_from(source))

    def _next(self) -> LoggedEntry | None:
        self._under_way = None
        entry = self._entries.get()
        self._under_way = now().steady, ""
        return entry

    def _effect_from(self, source: IO[bytes]) -> Effect:
        chunks = codec.ChunkJoiner()
        while (value := receive(source)) is not None:
            self._refuse_damage(value)
            if value.startswith(UNDER_WAY):
                self._goes_on_with(value.removeprefix(UNDER_WAY).decode())
            elif value.startswith(VERDICT):
                self.verdicts.append(json.loads(value.removeprefix(VERDICT)))
            elif isinstance(effect := chunks.join(value), Effect):
                return effect
        raise EOFError("the trial ended")

    def _refuse_damage(self, value: bytes | None) -> None:
        if value is None or not value.startswith(DAMAGED):
            return
        message = value.removeprefix(DAMAGED).decode()
        if self._store.damage.note(message, self._directory / FILES):
            raise StoreDamaged(message)
        raise StateError(f"a trial's copy of the store is damaged, and the store is not: {message}")

    def _goes_on_with(self, control: str) -> None:
        """Set the current control; the time of all controls begins with the first one."""
        assert self._under_way is not None, "controls are part of an evaluation"
        began, before = self._under_way
        self._under_way = began if before else now().steady, control
