"""The crew: the workers of this data centre, as their heartbeats tell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from quadlog.core.records import WorkerState

if TYPE_CHECKING:
    from quadlog.core.records import Heartbeat
    from quadlog.master.workers.alarms import AlarmName

ASK_AGAIN_MS: Final = 1000.0
"""How long a worker that was asked to evaluate has for its fence to be heard."""

SINK_MS: Final = 5000.0
"""How long a worker that a read could not reach is asked only if no other one can be."""

PAIR: Final = 2
"""So many workers prove each other's state only while both are right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """What a worker's store holds is not what the log made: nothing is asked of it until it was rebuilt."""

    name: AlarmName
    index: int
    transaction: bytes | None
    """Of the entry at that index, if it is known."""
    reason: str
    store: str
    """The store that is wrong; the worker has another one once it was rebuilt."""
    until: int
    """Where the new one has to be."""


class Door(StrEnum):
    """What became of a knock at the door of a worker that is not heard any more."""

    UNKNOWN = "unknown"
    REFUSED = "refused"
    HANGS = "hangs"
    ANSWERS = "answers"


@dataclass(slots=True)
class Worker:
    """The newest heartbeat of a worker, when it came, and what this master asks of it now."""

    beat: Heartbeat
    heard_at: float
    reading: int = 0
    """Reads under way."""
    asked_last: int = 0
    """Number of the last read that was passed to it: equals take turns."""
    failed_at: float = float("-inf")
    """When a read found it out of reach."""
    wrong: Wrong | None = None
    """Set while it is quarantined."""
    door: Door = Door.UNKNOWN


class Crew:
    """Who is there, who serves, who is to evaluate.  Times are milliseconds of the steady clock."""

    def __init__(self, *, timeout_ms: float) -> None:
        """`timeout_ms`: silence after which a worker counts as down."""
        self._timeout = timeout_ms
        self._workers: dict[str, Worker] = {}
        self.seed: bytes | None = None
        """Signature of what the log begins with, if that is not the empty state."""
        self.rewound: tuple[int, int] = (0, 0)
        """Epoch of the newest rewind, and index of the last effect that it left."""
        self._asked_at, self._asked_in = float("-inf"), b""

    def hear(self, beat: Heartbeat, now: float) -> bool:
        """Note a heartbeat; whether its worker has begun to evaluate with it, or ended."""
        known = self._workers.get(beat.worker)
        is_news = beat.evaluating is not (known is not None and known.beat.evaluating)
        if known is None:
            self._workers = {**self._workers, beat.worker: Worker(beat, now)}
        else:
            known.beat, known.heard_at, known.door = beat, now, Door.UNKNOWN
        return is_news

    def dismiss(self, name: str, now: float) -> None:
        """Forget a worker that is down; heard again, it is one of them again."""
        known = self._workers.get(name)
        if known is not None and not self.is_live(known, now):
            self._workers = {other: worker for other, worker in self._workers.items() if other != name}

    def known(self, name: str) -> Worker | None:
        """The worker of this id, if it was ever heard."""
        return self._workers.get(name)

    def all(self) -> list[Worker]:
        """Every worker that was ever heard, by id."""
        return [self._workers[name] for name in sorted(self._workers)]

    def is_live(self, worker: Worker, now: float) -> bool:
        """Does it say that it serves, and lately?"""
        beat = worker.beat
        is_serving = beat.state is WorkerState.SERVING and not self.lacks_seed(beat)
        return is_serving and not self.goes_back(beat) and now - worker.heard_at <= self._timeout

    def lacks_seed(self, beat: Heartbeat) -> bool:
        """Is a worker's store not made of what the log begins with?  It may not have heard of that yet."""
        is_other = self.seed is not None and beat.applied.index == 0 and beat.signature != self.seed
        return is_other or beat.state is WorkerState.STARTING

    def goes_back(self, beat: Heartbeat) -> bool:
        """Has a worker applied what was rewound, and is on its way back?"""
        epoch, stays = self.rewound
        return beat.epoch < epoch and beat.applied.index > stays

    def is_going_back(self, worker: Worker, now: float) -> bool:
        """Is it there, and on its way back?"""
        return self.goes_back(worker.beat) and now - worker.heard_at <= self._timeout

    def is_starting(self, worker: Worker, now: float) -> bool:
        """Is it there, and waits for the seed?"""
        beat = worker.beat
        return self.lacks_seed(beat) and beat.catching_up is None and now - worker.heard_at <= self._timeout

    def is_catching_up(self, worker: Worker, now: float) -> bool:
        """Is it there, and takes a bundle or a copy before it serves?"""
        return worker.beat.catching_up is not None and now - worker.heard_at <= self._timeout

    def state(self, worker: Worker, now: float) -> str:
        """How it is, in one word."""
        if self.is_catching_up(worker, now):
            return "catching up"
        if self.is_starting(worker, now):
            return "starting"
        if self.is_going_back(worker, now):
            return "going back"
        if not self.is_live(worker, now):
            return "down"
        return "serving" if worker.wrong is None else "quarantined"

    def live(self, now: float) -> list[Worker]:
        """Workers that serve, and are not quarantined."""
        return [worker for worker in self.all() if self.is_live(worker, now) and worker.wrong is None]

    def applied(self) -> int:
        """The highest index that a worker has applied whose state is right as far as is known."""
        right = (
            worker.beat for worker in self.all() if worker.wrong is None and not self.goes_back(worker.beat)
        )
        return max((beat.applied.index for beat in right), default=0)

    @property
    def odd_one(self) -> Worker | None:
        """Of two workers the one whose state is wrong; of more, two are left that prove each other."""
        wrong = [worker for worker in self.all() if worker.wrong is not None]
        return wrong[0] if wrong and len(self._workers) == PAIR else None

    def silent_in(self, worker: Worker, now: float) -> float:
        """Milliseconds after which it counts as down if nothing more is heard of it."""
        return worker.heard_at + self._timeout - now

    def for_read(self, now: float, at_least: int) -> list[Worker]:
        """Workers that a read may go to, least busy first: those that show what was acknowledged here."""
        able = [worker for worker in self.live(now) if worker.beat.applied.index >= at_least]
        return sorted(
            able,
            key=lambda worker: (
                now - worker.failed_at < SINK_MS,
                worker.reading,
                worker.beat.evaluating,
                worker.asked_last,
            ),
        )

    def why_not(self, worker: Worker, now: float, at_least: int) -> str:
        """Why a read may not go to this worker."""
        if worker.wrong is not None:
            return f"is quarantined: {worker.wrong.reason}"
        if self.is_starting(worker, now):
            return "lacks the seed that the log begins with"
        if self.goes_back(worker.beat):
            return "goes back to where its data centre's history parts from the one it joined"
        if worker.beat.state is not WorkerState.SERVING:
            doing = worker.beat.catching_up
            return f"is {worker.beat.state.value.lower()}" if doing is None else f"catches up ({doing})"
        if not self.is_live(worker, now):
            return f"is down: last heard of {(now - worker.heard_at) / 1000:.1f} s ago"
        return f"is at index {worker.beat.applied.index}, behind {at_least}"

    def obstacles(self, now: float) -> list[str]:
        """What keeps workers that are heard from going on, each with their ids."""
        stuck: dict[str, list[str]] = {}
        for worker in self.all():
            doing = worker.beat.catching_up
            if doing is not None and doing.obstacle and now - worker.heard_at <= self._timeout:
                stuck.setdefault(self.why_not(worker, now, 0), []).append(worker.beat.worker)
        return [f"{', '.join(workers)} {why}" for why, workers in stuck.items()]

    def to_appoint(self, now: float, term: bytes) -> Worker | None:
        """The worker to be asked to evaluate in a term, if none does: the furthest one of those that were heard."""
        live = self.live(now)
        is_asked = term == self._asked_in and now - self._asked_at < ASK_AGAIN_MS
        if not live or any(worker.beat.evaluating for worker in live) or is_asked:
            return None
        self._asked_at, self._asked_in = now, term
        return max(live, key=lambda worker: (not worker.beat.unsaid, worker.beat.applied.index))
