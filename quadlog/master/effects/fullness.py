"""Fullness: does the own effects topic take records?

A worker that evaluates says so in its heartbeats; what this master copies and hands over tells it as well.  What is
said here is a hint, and may be wrong: it moves the duty, and a home (`quadlog/core/membership/ballots.py`), to where
effects are taken.  What keeps one order of effects meanwhile is in `decided`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from quadlog.master.workers.alarms import AlarmName, Trouble
from quadlog.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.master.workers.crew import Crew
    from quadlog.ports import Renewable

log = structlog.get_logger()

PATIENCE_MS: Final = 1_500.0
"""How long nothing may be taken of what this master says there, while heartbeats come by the same Kafka."""

KEPT_MS: Final = 5_000.0
"""How long a topic counts as full after it was seen to be: a view that moves its home takes some rounds."""

AGAIN_MS: Final = (1_000.0, 16_000.0)
"""Between two tries to say something there: at first, and at the most."""


class Fullness:
    """Owned by the node's thread; times are steady milliseconds."""

    def __init__(self, crew: Crew, outlet: Renewable, topic: str) -> None:
        """Begin without a doubt.

        Args:
            crew: the workers here.
            outlet: where this master says copies, handovers and rewinds.
            topic: the own effects.

        """
        self._crew, self._outlet, self._topic = crew, outlet, topic
        self._patience: Final = Patience(PATIENCE_MS)
        self._seen_at = self._since = float("-inf")
        self._given_up_at: float | None = None
        self._pause = AGAIN_MS[0]
        self._reason = ""
        self.is_full = False
        """Whether it takes no records, as far as is known."""

    @property
    def is_silent(self) -> bool:
        """Whether what this master says there goes nowhere now."""
        return self._given_up_at is not None

    def look(self, moment: float) -> None:
        """See whether it is full."""
        if self._given_up_at is None and (reason := self._own_trouble(moment)):
            log.error("effects_topic_full", reason=reason)
            self._outlet.give_up()
            self._given_up_at, self._reason = moment, reason
        if self._reason or self._unsaid(moment):
            self._seen_at = moment
        is_full = moment - self._seen_at < KEPT_MS
        if is_full and not self.is_full:
            self._since = moment
        self.is_full = is_full

    def lasts(self, moment: float) -> bool:
        """Whether it has been full for so long that the duty would have moved if it could."""
        return self.is_full and moment - self._since >= KEPT_MS

    def _own_trouble(self, moment: float) -> str:
        if refusal := self._outlet.refusal:
            return refusal
        since = self._outlet.waits_since
        # Without workers nothing tells whether that Kafka is there, but posts: they come from all of it or not at all.
        beats = [worker.heard_at for worker in self._crew.all()]
        if not self._patience.is_over(moment, since=since, proof_at=max(beats, default=moment)):
            return ""
        waited = 0.0 if since is None else (moment - since) / 1000
        return f"{self._topic} has taken nothing that this master said for {waited:.1f} s"

    def _unsaid(self, moment: float) -> list[str]:
        return [worker.beat.unsaid for worker in self._crew.live(moment) if worker.beat.unsaid]

    def tries_again(self, moment: float) -> bool:
        """Whether what was given up is tried again now: all has to be said again that is not in the topic.

        Where nothing was refused the last of what waited tells by itself that it is taken.
        """
        if self._given_up_at is None or not self._outlet.is_settled:
            return False
        if moment - self._given_up_at < self._pause:
            return False
        self._given_up_at, self._pause = None, min(2 * self._pause, AGAIN_MS[1])
        self._outlet.renew()
        return True

    def heard(self) -> None:
        """The topic has a new record, whoever said it."""
        if self._reason and not self._outlet.refusal:
            log.info("effects_topic_recovered", topic=self._topic)
            self._reason, self._pause = "", AGAIN_MS[0]

    def troubles(self) -> Iterator[Trouble]:
        """What to tell, beside what workers say of it."""
        if self._reason:
            yield Trouble(name=AlarmName.FULL, worker=None, index=0, reason=self._reason)
