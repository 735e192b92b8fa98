"""Publish health: detects that the effects topic does not accept this worker's records.

That topic may be full while all others work: too few replicas are in sync, its records may not be so large, or
its disk or a quota is exhausted.  The effects of an evaluating worker then reach nobody, and nobody sees a
failure: the worker runs, and sends heartbeats.  So it reports this itself, gives up the records that were not
accepted, and does not evaluate until it is requested to do so again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.stall_detector import StallDetector

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.ports import Renewable

log = structlog.get_logger()

PATIENCE_MS: Final = 1_000.0
"""Milliseconds for which the topic may accept nothing while heartbeats are accepted.

Chosen so that the worker is replaced within `worker-timeout`.
"""

HOARSE_MS: Final = 2_000.0
"""Milliseconds for which a worker whose records were not accepted does not try again."""


WHAT_TO_DO: Final = (
    "have that topic take records again, as the alarm effects-topic-full of this data centre's master says;"
    " this worker serves on, shows nothing of it, and evaluates when it is asked again"
)


class PublishHealth:
    """Monitor of the effects topic.  Any thread may call `check`; times are steady milliseconds."""

    def __init__(self, outlet: Renewable, *, topic: str, why: Callable[[], str]) -> None:
        """Assume that the topic accepts records.

        `why` returns the reason that Kafka gives why it may accept nothing; may take seconds, and raises nothing.
        """
        self._outlet, self._topic, self._why = outlet, topic, why
        self._patience: Final = StallDetector(PATIENCE_MS)
        self._beat_at = float("-inf")
        self._lost_at = float("-inf")
        self._is_told = True
        self._lock: Final = threading.Lock()
        self.reason = ""
        """Why produced records are not in the topic, for heartbeats; empty: they are, as far as is known."""

    def beat_taken(self) -> None:
        """Note that a heartbeat was acknowledged: the broker is available."""
        self._beat_at = now().steady

    def check(self, moment: float) -> None:
        """Give up records that were not accepted for too long, or were refused."""
        with self._lock:
            since, refusal = self._outlet.waits_since, self._outlet.refusal
            # If no heartbeat is accepted either, this topic is not the cause.
            if not (refusal or self._patience.is_over(moment, since=since, proof_at=self._beat_at)):
                return
            self._outlet.give_up()
            self._lost_at, self._is_told = moment, False
            waited = 0.0 if since is None else (moment - since) / 1000
            said = (
                refusal
                or f"{self._topic} has taken nothing for {waited:.1f} s, and takes heartbeats beside it"
            )
            self.reason = said
        threading.Thread(target=self._ask_why, args=(said,), name="why", daemon=True).start()

    def _ask_why(self, said: str) -> None:
        why = self._why()
        with self._lock:
            if why and self.reason == said:
                self.reason = f"{said}: {why}"
        log.error("effects_topic_full", reason=said, why=why, what_to_do=WHAT_TO_DO)

    @property
    def waits(self) -> bool:
        """True if `check` must be called soon."""
        return self._outlet.waits_since is not None

    def take_loss(self) -> bool:
        """Return True if records were given up since the last call."""
        with self._lock:
            is_lost, self._is_told = not self._is_told, True
        return is_lost

    def clear(self, moment: float) -> bool:
        """Allow new records; return False if that is too soon, or if earlier records may still be accepted."""
        if moment - self._lost_at < HOARSE_MS or not self._outlet.is_settled:
            return False
        self._outlet.renew()
        return True

    def heard(self, moment: float) -> None:
        """Note that the topic has a new record, of any writer."""
        if self.reason and moment - self._lost_at >= HOARSE_MS:
            log.info("effects_topic_recovered")
            self.reason = ""
