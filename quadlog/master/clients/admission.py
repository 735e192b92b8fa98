"""Admission: limits the number of clients' transactions that wait, and the bytes that are in flight to Kafka."""

from __future__ import annotations

from typing import Final

from quadlog.errors import Unavailable
from quadlog.settings.units import MIB

RETRY_AFTER: Final = 5
"""Seconds after which a refused client may try again: what waits is done within seconds, or within hours."""

IN_FLIGHT: Final = 128 * MIB
"""Bytes of clients' bodies that the own Kafka has not acknowledged.

This is half of what the outlet holds, so that the node is not blocked while a broker is down.
"""


BLOCKED: Final = 5_000
"""Entries behind an undecided synchronous transaction: workers keep them in memory."""


class Admission:
    """Refuses transactions before anything is logged.  Owned by the node's thread."""

    def __init__(self, *, max_waiting: int, in_flight: int = IN_FLIGHT) -> None:
        """`max_waiting`: maximum number of transactions in the incoming queue, of all masters."""
        self._max_waiting, self._in_flight = max_waiting, in_flight
        self._count = 0  # number of transactions that are not acknowledged, and bytes of their bodies
        self._bytes = 0

    def refusal(self, size: int, *, queued: int, blocked: int = 0) -> Unavailable | None:
        """Return the reason why a new transaction of `size` bytes cannot be accepted now; None if it can.

        `queued`: transactions in the incoming queue; `blocked`: entries of the log behind the first undecided one.
        """
        if blocked > BLOCKED:
            return Unavailable(
                f"{blocked} entries wait for the decision on a synchronous transaction; nothing of this one was logged."
                " Try again; if it lasts, the alarm limbo-waits in /cluster/status says what is missing",
                retry_after=RETRY_AFTER,
            )
        waiting = queued + self._count
        if waiting >= self._max_waiting:
            return Unavailable(
                f"{waiting} transactions wait to be agreed (max-waiting is {self._max_waiting}); nothing of this"
                " one was logged. Try again; if it lasts, /cluster/status says which peer is silent",
                retry_after=RETRY_AFTER,
            )
        if self._bytes and self._bytes + size > self._in_flight:  # the largest one must pass if it is alone
            return Unavailable(
                f"{self._bytes / MIB:.0f} MiB of updates wait for the Kafka of this data centre; nothing of this"
                " one was logged. Try again; if it lasts, see whether its broker is up",
                retry_after=RETRY_AFTER,
            )
        return None

    def sent(self, size: int) -> None:
        """Note that a body of `size` bytes is in flight to Kafka."""
        self._count += 1
        self._bytes += size

    def durable(self, size: int) -> None:
        """Note that Kafka has acknowledged a body of `size` bytes."""
        self._count -= 1
        self._bytes -= size
