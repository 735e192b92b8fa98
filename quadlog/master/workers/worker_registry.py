"""Registry of workers: the workers of this data centre, as their heartbeats describe them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quadlog.core.records import WorkerState

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat
    from quadlog.master.workers.alarms import AlarmName

ASK_AGAIN_MS: Final = 1000.0
"""Milliseconds within which the fence of a worker that was asked to evaluate must arrive."""

SINK_MS: Final = 5000.0
"""Milliseconds for which a worker that a read could not reach is the last choice for other reads."""

PAIR: Final = 2
"""Number of workers that prove each other's state only while both are right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """A worker's store that differs from the log: nothing is requested from the worker until it was rebuilt."""

    name: AlarmName
    index: int
    transaction: bytes | None
    """Id of the transaction at that index, if it is known."""
    reason: str
    store: str
    """Id of the wrong store; the worker has another one once it was rebuilt."""
    until: int
    """Index that the new store must reach."""


class ProbeResult(StrEnum):
    """Result of a request to a worker whose heartbeats do not arrive any more."""

    UNKNOWN = "unknown"
    REFUSED = "refused"
    HANGS = "hangs"
    ANSWERS = "answers"


@dataclass(slots=True)
class Worker:
    """Newest heartbeat of a worker, its time of arrival, and the requests to the worker."""

    beat: Heartbeat
    heard_at: float
    reading: int = 0
    """Number of reads under way."""
    asked_last: int = 0
    """Number of the last read that was passed to this worker: equal workers take turns."""
    failed_at: float = float("-inf")
    """Time at which a read could not reach this worker."""
    wrong: Divergence | None = None
    """Set while the worker is quarantined."""
    door: ProbeResult = ProbeResult.UNKNOWN


class WorkerRegistry:
    """Registry of workers: which are live, serve reads, and evaluate.  Times are milliseconds of the steady clock."""

    def __init__(self, *, timeout_ms: float) -> None:
        """Start without workers; `timeout_ms`: silence after which a worker counts as down."""
        self._timeout = timeout_ms
        self._workers: dict[str, Worker] = {}
        self.seed: bytes | None = None
        """Signature of the seed that the log begins with; None if the log begins with the empty state."""
        self.rewound: tuple[int, int] = (0, 0)
        """Epoch of the newest rewind, and index of the last effect that it left valid."""
        self._asked_at, self._asked_in = float("-inf"), b""

    def on_heartbeat(self, beat: Heartbeat, now: float) -> bool:
        """Store a heartbeat; return whether its worker began or ended evaluating."""
        known = self._workers.get(beat.worker)
        is_news = beat.evaluating is not (known is not None and known.beat.evaluating)
        if known is None:
            self._workers = {**self._workers, beat.worker: Worker(beat, now)}
        else:
            known.beat, known.heard_at, known.door = beat, now, ProbeResult.UNKNOWN
        return is_news

    def dismiss(self, name: str, now: float) -> None:
        """Forget a worker that is down; a later heartbeat adds it again."""
        known = self._workers.get(name)
        if known is not None and not self.is_live(known, now):
            self._workers = {other: worker for other, worker in self._workers.items() if other != name}

    def known(self, name: str) -> Worker | None:
        """Return the worker of this id, or None if it was never heard."""
        return self._workers.get(name)

    def all(self) -> list[Worker]:
        """Return every worker that was ever heard, by id."""
        return [self._workers[name] for name in sorted(self._workers)]

    def is_live(self, worker: Worker, now: float) -> bool:
        """Return whether a worker serves a state of the log, and was heard within the timeout."""
        beat = worker.beat
        is_serving = beat.state is WorkerState.SERVING and beat.fork is None and not self.lacks_seed(beat)
        return is_serving and not self.goes_back(beat) and now - worker.heard_at <= self._timeout

    def lacks_seed(self, beat: Heartbeat) -> bool:
        """Return whether a worker's store lacks the seed of the log, of which the worker may not know yet."""
        is_other = self.seed is not None and beat.applied.index == 0 and beat.signature != self.seed
        return is_other or beat.state is WorkerState.STARTING

    def goes_back(self, beat: Heartbeat) -> bool:
        """Return whether a worker has applied effects that were rewound, and must go back."""
        epoch, stays = self.rewound
        return beat.fork is None and beat.epoch < epoch and beat.applied.index > stays

    def keeps_branch(self, worker: Worker, now: float) -> bool:
        """Return whether a worker was heard within the timeout and keeps a branch that is not in the log."""
        return worker.beat.fork is not None and now - worker.heard_at <= self._timeout

    def is_going_back(self, worker: Worker, now: float) -> bool:
        """Return whether a worker was heard within the timeout and is going back."""
        return self.goes_back(worker.beat) and now - worker.heard_at <= self._timeout

    def is_starting(self, worker: Worker, now: float) -> bool:
        """Return whether a worker was heard within the timeout and waits for the seed."""
        beat = worker.beat
        return self.lacks_seed(beat) and beat.catching_up is None and now - worker.heard_at <= self._timeout

    def is_catching_up(self, worker: Worker, now: float) -> bool:
        """Return whether a worker was heard within the timeout and receives a bundle or a copy before it serves."""
        return worker.beat.catching_up is not None and now - worker.heard_at <= self._timeout

    def state(self, worker: Worker, now: float) -> str:
        """Return the state of a worker for status reports."""
        if self.is_catching_up(worker, now):
            return "catching up"
        if self.is_starting(worker, now):
            return "starting"
        if self.is_going_back(worker, now):
            return "going back"
        if self.keeps_branch(worker, now):
            return "diverged"
        if not self.is_live(worker, now):
            return "down"
        return "serving" if worker.wrong is None else "quarantined"

    def live(self, now: float) -> list[Worker]:
        """Return the workers that serve and are not quarantined."""
        return [worker for worker in self.all() if self.is_live(worker, now) and worker.wrong is None]

    def applied(self) -> int:
        """Return the highest index applied by a worker whose state is right, as far as is known."""
        right = (
            worker.beat
            for worker in self.all()
            if worker.wrong is None and worker.beat.fork is None and not self.goes_back(worker.beat)
        )
        return max((beat.applied.index for beat in right), default=0)

    @property
    def odd_one(self) -> Worker | None:
        """Wrong one of exactly two workers, or None; of more workers, two are left that prove each other."""
        wrong = [worker for worker in self.all() if worker.wrong is not None]
        return wrong[0] if wrong and len(self._workers) == PAIR else None

    def silent_in(self, worker: Worker, now: float) -> float:
        """Return the milliseconds after which a worker counts as down if no further heartbeat arrives."""
        return worker.heard_at + self._timeout - now

    def for_read(self, now: float, at_least: int) -> list[Worker]:
        """Return the workers that may answer a read, least busy first: those at index `at_least` or above."""
        able = [worker for worker in self.live(now) if worker.beat.applied.index >= at_least]
        return (
            able
            if len(able) == 1
            else sorted(
                able,
                key=lambda worker: (
                    now - worker.failed_at < SINK_MS,
                    worker.reading,
                    worker.beat.evaluating,
                    worker.asked_last,
                ),
            )
        )

    def why_not(self, worker: Worker, now: float, at_least: int) -> str:
        """Return the reason why a read may not go to this worker."""
        if worker.wrong is not None:
            return f"is quarantined: {worker.wrong.reason}"
        if self.is_starting(worker, now):
            return "lacks the seed that the log begins with"
        if self.keeps_branch(worker, now) or self.goes_back(worker.beat):
            return _off_the_log(worker.beat)
        if worker.beat.state is not WorkerState.SERVING:
            doing = worker.beat.catching_up
            return f"is {worker.beat.state.value.lower()}" if doing is None else f"catches up ({doing})"
        if not self.is_live(worker, now):
            return f"is down: last heard of {(now - worker.heard_at) / 1000:.1f} s ago"
        return f"is at index {worker.beat.applied.index}, behind {at_least}"

    def obstacles(self, now: float) -> list[str]:
        """Return the obstacles of workers that are heard and catch up, each with the ids of these workers."""
        stuck: dict[str, list[str]] = {}
        for worker in self.all():
            doing = worker.beat.catching_up
            if doing is not None and doing.obstacle and now - worker.heard_at <= self._timeout:
                stuck.setdefault(self.why_not(worker, now, 0), []).append(worker.beat.worker)
        return [f"{', '.join(workers)} {why}" for why, workers in stuck.items()]

    def to_appoint(self, now: float, term: bytes) -> Worker | None:
        """Return the most advanced live worker, to be asked to evaluate; None if one does or was just asked."""
        live = self.live(now)
        is_asked = term == self._asked_in and now - self._asked_at < ASK_AGAIN_MS
        if not live or any(worker.beat.evaluating for worker in live) or is_asked:
            return None
        self._asked_at, self._asked_in = now, term
        return max(live, key=lambda worker: (not worker.beat.unsaid, worker.beat.applied.index))


def _off_the_log(beat: Heartbeat) -> str:
    """Return why a worker whose state is not one of the log serves no reads through a master."""
    if beat.fork is None:
        return "goes back to where its data centre's history parts from the one it joined"
    return f"keeps the branch after entry {beat.fork}: read that at {beat.url}, or have it rebuilt"
