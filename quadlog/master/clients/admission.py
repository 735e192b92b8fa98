"""Admission: how many transactions of clients may wait, and how much may be on its way to Kafka."""

from __future__ import annotations

from typing import Final

from quadlog.errors import Unavailable
from quadlog.settings.units import MIB

RETRY_AFTER: Final = 5
"""Seconds after which a client that was refused may try again: what waits goes in seconds, or in hours."""

IN_FLIGHT: Final = 128 * MIB
"""Bytes of clients' bodies that the own Kafka has not acknowledged.  Half of what the outlet holds, so
that a broker that is away does not hold up the node."""


class Admission:
    """Says no before anything is logged.  Owned by the node's thread."""

    def __init__(self, *, max_waiting: int, in_flight: int = IN_FLIGHT) -> None:
        """`max_waiting`: transactions in the incoming queue, wherever they were given."""
        self._max_waiting, self._in_flight = max_waiting, in_flight
        self._count = 0  # transactions that are not acknowledged, and bytes of their bodies
        self._bytes = 0

    def refusal(self, size: int, *, queued: int) -> Unavailable | None:
        """Why a new transaction of that size cannot be taken now, if that is so.

        `queued`: how many wait in the incoming queue.
        """
        waiting = queued + self._count
        if waiting >= self._max_waiting:
            return Unavailable(
                f"{waiting} transactions wait to be agreed (max-waiting is {self._max_waiting}); nothing of this"
                " one was logged. Try again; if it lasts, /cluster/status says which peer is silent",
                retry_after=RETRY_AFTER,
            )
        if self._bytes and self._bytes + size > self._in_flight:  # alone, the largest has to pass
            return Unavailable(
                f"{self._bytes / MIB:.0f} MiB of updates wait for the Kafka of this data centre; nothing of this"
                " one was logged. Try again; if it lasts, see whether its broker is up",
                retry_after=RETRY_AFTER,
            )
        return None

    def sent(self, size: int) -> None:
        """A body of that size is on its way to Kafka."""
        self._count += 1
        self._bytes += size

    def durable(self, size: int) -> None:
        """Kafka has it."""
        self._count -= 1
        self._bytes -= size
