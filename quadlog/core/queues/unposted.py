"""Selection of the pairs of the incoming queue for the next post.

A post contains what is new since the previous post; from time to time, and when a member requests it, it
starts with the whole queue again.  A post always contains the lowest pairs that are not posted yet, and its
counter is below the first pair that is left.  So the pairs that a member has posted, up to its last posted
counter, are all that its queue holds there: ADD relies on this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.queues.pairs import Pairs

if TYPE_CHECKING:
    from quadlog.core.messages import AgreementLimits
    from quadlog.core.model import Pair
    from quadlog.core.queues.queue import IncomingQueue

SNAPSHOT_SHARE: Final = 4
"""A snapshot that no member requested repeats at most one pair for this many posts and pairs since the last one."""


class UnpostedPairs:
    """The pairs of this master's queue that are not posted yet."""

    def __init__(self, queue: IncomingQueue, limits: AgreementLimits) -> None:
        """Start with a snapshot due."""
        self._queue: Final = queue
        self._limits: Final = limits
        self._unposted = Pairs()
        self._snapshot_at = -1
        self._is_due = True
        self._posts, self._pairs = 0, 0  # since the last snapshot
        self._repeats = 0
        """Number of pairs that the last snapshot and the posts after it repeat."""

    def offer(self, pair: Pair) -> None:
        """Add a pair of the queue whose payload is acquired."""
        self._unposted.push(pair)

    def asked(self, sequence: int) -> bool:
        """Note that a member misses posts up to this sequence; return whether a snapshot is due.

        None is due if one was posted after that sequence: it is on its way.
        """
        self._is_due = self._is_due or self._snapshot_at <= sequence
        return self._is_due

    def draw(self, sequence: int) -> tuple[bool, tuple[Pair, ...]]:
        """Return whether the post of this sequence is a snapshot, and its pairs."""
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
        """The lowest pair that is not posted; None: all are posted."""
        while (pair := self._unposted.first) is not None and pair.id not in self._queue:
            self._unposted.pop()  # spent
        return pair

    def _is_time(self) -> bool:
        """Return whether a snapshot is due without a request.

        Its cost grows with the queue, so a long queue is repeated less often.  It is never due before the
        whole queue was posted: otherwise a voter would never reach the end of its queue.  An id may have
        several pairs.
        """
        said = self._posts + self._pairs
        least = SNAPSHOT_SHARE * max(len(self._queue), self._repeats)
        return self._posts >= self._limits.snapshot_every and said >= least
