"""One direction of a link: the delay of its bytes, and how many may enter."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quadlog.lab.links.flow import Flow
    from quadlog.lab.links.loop import SocketLoop

BURST: Final = 0.05
"""Seconds of the rate that may pass at once, so that a process that wakes late loses no throughput: on a busy host it
wakes 10 ms late and more (with a burst of 10 ms, 200 Mbit/s were 158)."""
PACKET: Final = 1500
"""Bytes of an Ethernet packet, which a lane always lets pass at once, however slow it is."""


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
        """Start full."""
        self.rate = rate
        self._full = self._tokens = max(rate * BURST, PACKET)
        self._filled_at = now

    def grant(self, now: float) -> int:
        """Return how many bytes may enter now; 0 as long as they are less than a packet."""
        self._tokens = min(self._full, self._tokens + (now - self._filled_at) * self.rate)
        self._filled_at = now
        # Half a byte of tolerance: rounding of floats must not lead to less than `ready_in` predicted.
        return int(self._tokens + 0.5) if self._tokens + 0.5 >= PACKET else 0

    def spend(self, count: int) -> None:
        """Use up granted bytes."""
        self._tokens -= count

    def ready_in(self, now: float) -> float:
        """Return the seconds until a packet is granted again."""
        tokens = self._tokens + (now - self._filled_at) * self.rate
        return max(0.0, (PACKET - tokens) / self.rate)


class Lane:
    """The delay and the bucket that all connections of one direction share.

    Bytes that may not enter yet are not read: they wait in the sender's socket, where TCP's flow control stops the
    sender.  Flows take turns, so that a large transfer does not block a heartbeat.
    """

    __slots__ = ("_loop", "_queue", "_timer", "bucket", "latency", "passed")

    def __init__(self, loop: SocketLoop) -> None:
        self.latency = 0.0
        self.bucket: Bucket | None = None
        self.passed = 0
        """Bytes that entered."""
        self._loop = loop
        self._queue: deque[Flow] = deque()
        self._timer: object = None
        """Token of the valid timer; a change of the rate replaces it."""

    def set(self, *, latency: float, rate: float) -> None:
        """Change latency and rate, also for open connections; bytes on their way keep their time of arrival.

        `latency` in seconds, `rate` in bytes per second; 0: no limit.
        """
        self.latency = latency
        if rate != (self.bucket.rate if self.bucket else 0):
            self.bucket = Bucket(rate=rate, now=time.monotonic()) if rate else None
            self._call_next()

    def grant(self, most: int) -> int:
        """Return how many bytes a flow that has not waited may read; 0 also if others are waiting."""
        if self.bucket is None:
            return most
        return 0 if self._queue else min(most, self.bucket.grant(time.monotonic()))

    def entered(self, count: int) -> None:
        """Record the bytes that a flow has read."""
        self.passed += count
        if self.bucket is not None:
            self.bucket.spend(count)

    def wait(self, flow: Flow) -> None:
        """Queue a flow that has bytes to read but no grant until its turn; it must not be in the queue already."""
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
