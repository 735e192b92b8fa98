"""What of the incoming queue goes into the next post.

A post says what is new since the one before; now and then, and when a member asks for it, it begins
with the whole queue again.  Whatever is posted is the lowest of what is not posted yet, and the
counter that goes with it is below the first pair that is left.  So what a member has posted, up to
the counter that it posted last, is all that its queue holds there: what ADD relies on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.queues.pairs import Pairs

if TYPE_CHECKING:
    from quadlog.core.messages import Limits
    from quadlog.core.model import Pair
    from quadlog.core.queues.queue import IncomingQueue

SNAPSHOT_SHARE: Final = 4
"""Snapshots that nobody asked for repeat one pair in so many that were said since the last one."""


class Posting:
    """The pairs of this master's queue that are not posted yet."""

    def __init__(self, queue: IncomingQueue, limits: Limits) -> None:
        """The first post will be a snapshot."""
        self._queue: Final = queue
        self._limits: Final = limits
        self._unposted = Pairs()
        self._snapshot_at = -1
        self._is_due = True
        self._posts, self._pairs = 0, 0  # since the last snapshot
        self._repeats = 0
        """Pairs that the last snapshot and the posts behind it repeat."""

    def offer(self, pair: Pair) -> None:
        """A pair of the queue is acquired."""
        self._unposted.push(pair)

    def asked(self, sequence: int) -> bool:
        """A member misses something up to the post of this sequence: is a snapshot due?

        Not if one was posted after it: that is on its way.
        """
        self._is_due = self._is_due or self._snapshot_at <= sequence
        return self._is_due

    def draw(self, sequence: int) -> tuple[bool, tuple[Pair, ...]]:
        """Pairs for the post of this sequence, and whether it is a snapshot."""
        if is_snapshot := self._is_due or self._is_time():
            waiting = self._queue.acquired()
            self._unposted, self._repeats = Pairs(waiting), len(waiting)
            self._snapshot_at, self._is_due = sequence, False
            self._posts, self._pairs = 0, 0
        drawn: list[Pair] = []
        while len(drawn) < self._limits.post and self.first_left is not None:
            drawn.append(self._unposted.pop())
        self._posts += 1
        self._pairs += len(drawn)
        return is_snapshot, tuple(drawn)

    @property
    def first_left(self) -> Pair | None:
        """The lowest pair that is not posted."""
        while (pair := self._unposted.first) is not None and pair.id not in self._queue:
            self._unposted.pop()  # spent
        return pair

    def _is_time(self) -> bool:
        """A snapshot costs as much as the queue is long; so a long queue is repeated more seldom.

        Never before all of it was said: who votes would not come to the end of it.  An id may have several pairs.
        """
        said = self._posts + self._pairs
        least = SNAPSHOT_SHARE * max(len(self._queue), self._repeats)
        return self._posts >= self._limits.snapshot_every and said >= least
