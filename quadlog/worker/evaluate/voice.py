"""The voice: does the effects topic take what this worker says?

That topic may be full while all others are well: too few replicas are in sync, its records may not be so large, its
disk or a quota is used up.  Who evaluates then can neither be heard nor seen to be wrong: it lives, and beats.  It says
so itself, takes for lost what was not taken, and evaluates no more until it is asked again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.patience import Patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.ports import Renewable

log = structlog.get_logger()

PATIENCE_MS: Final = 1_000.0
"""How long nothing may be taken of what was said, while heartbeats are: within `worker-timeout` it is replaced."""

HOARSE_MS: Final = 2_000.0
"""How long a worker that was not heard does not try again."""


WHAT_TO_DO: Final = (
    "have that topic take records again, as the alarm effects-topic-full of this data centre's master says;"
    " this worker serves on, shows nothing of it, and evaluates when it is asked again"
)


class Voice:
    """Any thread may look; times are steady milliseconds."""

    def __init__(self, outlet: Renewable, *, topic: str, why: Callable[[], str]) -> None:
        """Begin without a doubt.

        Args:
            outlet: where effects and fences go.
            topic: theirs.
            why: asks Kafka why the topic may take nothing; may take seconds, and raise nothing.

        """
        self._outlet, self._topic, self._why = outlet, topic, why
        self._patience: Final = Patience(PATIENCE_MS)
        self._beat_at = float("-inf")
        self._lost_at = float("-inf")
        self._is_told = True
        self._lock: Final = threading.Lock()
        self.reason = ""
        """Why what was said is not in the topic, for heartbeats; empty: it is, as far as is known."""

    def beat_taken(self) -> None:
        """A heartbeat was acknowledged: the broker is there."""
        self._beat_at = now().steady

    def look(self, moment: float) -> None:
        """Give up what is not taken for too long, or was refused."""
        with self._lock:
            since, refusal = self._outlet.waits_since, self._outlet.refusal
            # Where no heartbeat is taken either that is no matter of this topic.
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
        """Whether it is to be looked soon."""
        return self._outlet.waits_since is not None

    def is_lost(self) -> bool:
        """Whether what was said was given up since this was asked last."""
        with self._lock:
            is_lost, self._is_told = not self._is_told, True
        return is_lost

    def clear(self, moment: float) -> bool:
        """Begin to speak again; not too soon, and not while anything of before may still come."""
        if moment - self._lost_at < HOARSE_MS or not self._outlet.is_settled:
            return False
        self._outlet.renew()
        return True

    def heard(self, moment: float) -> None:
        """The topic has a new record, whoever said it."""
        if self.reason and moment - self._lost_at >= HOARSE_MS:
            log.info("effects_topic_recovered")
            self.reason = ""
