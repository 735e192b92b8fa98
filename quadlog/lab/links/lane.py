"""One direction of a link's bytes: how long they travel, how many may enter."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from quadlog.lab.links.loop import Loop

BURST: Final = 0.05
"""Seconds of the rate that may pass at once, so that a process that wakes late loses nothing: on a
busy machine by 10 ms and more (with a burst of 10 ms, 200 Mbit/s were 158)."""
PACKET: Final = 1500
"""Bytes; a lane lets at least one packet of Ethernet pass at once, however slow it is."""


class Bucket:
    """A token bucket.  Times are seconds, tokens are bytes.

    >>> bucket = Bucket(rate=1_000_000.0, now=0.0)
    >>> bucket.grant(0.0), bucket.spend(50_000), bucket.grant(0.0)
    (50000, None, 0)
    >>> bucket.ready_in(0.0), bucket.grant(0.002)
    (0.0015, 2000)
    """

    __slots__ = ("_filled_at", "_full", "_tokens", "rate")

    def __init__(self, *, rate: float, now: float) -> None:
        """It begins full."""
        self.rate = rate
        self._full = self._tokens = max(rate * BURST, PACKET)
        self._filled_at = now

    def grant(self, now: float) -> int:
        """How many bytes may enter now; 0 until there are enough for a packet."""
        self._tokens = min(self._full, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        # Half a byte is allowed for: sums of floats must not end a hair below what `ready_in` promised.
        return int(self._tokens + 0.5) if self._tokens + 0.5 >= PACKET else 0

    def spend(self, count: int) -> None:
        """So many entered of what was granted."""
        self._tokens -= count

    def ready_in(self, now: float) -> float:
        """Seconds until there is a grant again."""
        tokens = self._tokens + (now - self._filled_at) * self.rate
        return max(0.0, (PACKET - tokens) / self.rate)


class Waiting(Protocol):
    """A flow that has something to read and no grant."""

    def enter(self, most: int) -> None:
        """Read up to `most` bytes now, and spend them."""


class Lane:
    """The delay and the bucket that all connections of one direction share.

    What may not enter yet is not read: it waits in the sender's socket, where TCP holds the sender
    back.  Flows take turns, so that a large transfer does not shut a heartbeat out.
    """

    __slots__ = ("_loop", "_queue", "_timer", "bucket", "latency", "passed")

    def __init__(self, loop: Loop) -> None:
        """Without delay or limit."""
        self.latency = 0.0
        self.bucket: Bucket | None = None
        self.passed = 0
        """Bytes that entered."""
        self._loop = loop
        self._queue: deque[Waiting] = deque()
        self._timer: object = None
        """The one that counts: a change of the rate sets another."""

    def set(self, *, latency: float, rate: float) -> None:
        """Change it, for open connections too; what travels already arrives when it would have.

        Args:
            latency: seconds.
            rate: bytes a second, 0 for no limit.

        """
        self.latency = latency
        if rate != (self.bucket.rate if self.bucket else 0):
            self.bucket = Bucket(rate=rate, now=time.monotonic()) if rate else None
            self._call_next()

    def grant(self, most: int) -> int:
        """How much a flow may read that has not waited; 0 also when others do."""
        if self.bucket is None:
            return most
        return 0 if self._queue else min(most, self.bucket.grant(time.monotonic()))

    def entered(self, count: int) -> None:
        """A flow read so much."""
        self.passed += count
        if self.bucket is not None:
            self.bucket.spend(count)

    def wait(self, flow: Waiting) -> None:
        """Let it enter when it is its turn; a flow waits once at most."""
        self._queue.append(flow)
        if self._timer is None:
            self._call_next()

    def _call_next(self) -> None:
        now = time.monotonic()
        self._timer = object()
        self._loop.at(
            now + (self.bucket.ready_in(now) if self.bucket else 0.0), partial(self._next, self._timer)
        )

    def _next(self, timer: object) -> None:
        if timer is not self._timer:
            return
        self._timer = None
        most = 1 << 30
        while self._queue and (self.bucket is None or (most := self.bucket.grant(time.monotonic()))):
            self._queue.popleft().enter(most)
        if self._queue:
            self._call_next()
