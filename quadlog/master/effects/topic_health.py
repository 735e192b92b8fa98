"""Health of the effects topic: detects that the own effects topic accepts no records.

An evaluating worker reports this in its heartbeats; the copies and handovers that this master writes show it
as well.  The result is a hint, and may be wrong: it moves the duty, and a home
(`quadlog/core/membership/view_election.py`), to a data centre whose topic accepts effects.  `effects_follower` keeps
the effects in one order meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from quadlog.master.workers.alarms import AlarmName, Trouble
from quadlog.stall_detector import StallDetector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.ports import Renewable

log = structlog.get_logger()

PATIENCE_MS: Final = 1_500.0
"""Milliseconds without an accepted record of this master, after which the topic counts as full.

Counted only while heartbeats arrive through the same Kafka.
"""

KEPT_MS: Final = 5_000.0
"""Milliseconds that a topic counts as full after the last sign of it: a view that moves its home needs some rounds."""

AGAIN_MS: Final = (1_000.0, 16_000.0)
"""Milliseconds between two attempts to write to the topic: initially, and at most."""


class TopicHealth:
    """Health of the own effects topic.  Owned by the node's thread; times are steady milliseconds."""

    def __init__(self, worker_registry: WorkerRegistry, outlet: Renewable, topic: str) -> None:
        """Assume that the topic accepts records; `outlet` writes this master's copies, handovers and rewinds to it."""
        self._worker_registry, self._outlet, self._topic = worker_registry, outlet, topic
        self._patience: Final = StallDetector(PATIENCE_MS)
        self._seen_at = self._since = float("-inf")
        self._given_up_at: float | None = None
        self._pause = AGAIN_MS[0]
        self._reason = ""
        self.is_full = False
        """True if the topic accepts no records, as far as is known."""

    @property
    def is_silent(self) -> bool:
        """True if records that this master produces for the topic are currently discarded."""
        return self._given_up_at is not None

    def check(self, moment: float) -> None:
        """Determine whether the topic is full."""
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
        """Return whether the topic has been full for so long that the duty would have moved if it could."""
        return self.is_full and moment - self._since >= KEPT_MS

    def _own_trouble(self, moment: float) -> str:
        if refusal := self._outlet.refusal:
            return refusal
        since = self._outlet.waits_since
        # Without workers, only posts could show whether this Kafka is there, and they arrive from all of it
        # or not at all.
        beats = [worker.heard_at for worker in self._worker_registry.all()]
        if not self._patience.is_over(moment, since=since, proof_at=max(beats, default=moment)):
            return ""
        waited = 0.0 if since is None else (moment - since) / 1000
        return f"{self._topic} has taken nothing that this master said for {waited:.1f} s"

    def _unsaid(self, moment: float) -> list[str]:
        return [worker.beat.unsaid for worker in self._worker_registry.live(moment) if worker.beat.unsaid]

    def tries_again(self, moment: float) -> bool:
        """Renew the outlet if the next attempt is due; return whether it was renewed.

        Everything that is not in the topic must then be written again.  If no record was refused, the topic
        shows that it accepts records again by accepting the last one that waits.
        """
        if self._given_up_at is None or not self._outlet.is_settled:
            return False
        if moment - self._given_up_at < self._pause:
            return False
        self._given_up_at, self._pause = None, min(2 * self._pause, AGAIN_MS[1])
        self._outlet.renew()
        return True

    def heard(self) -> None:
        """Note that the topic has a new record, of any writer."""
        if self._reason and not self._outlet.refusal:
            log.info("effects_topic_recovered", topic=self._topic)
            self._reason, self._pause = "", AGAIN_MS[0]

    def troubles(self) -> Iterator[Trouble]:
        """Yield what to report to the operator, in addition to what workers report about the topic."""
        if self._reason:
            yield Trouble(name=AlarmName.FULL, reason=self._reason)
