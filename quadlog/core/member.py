"""A member of the view as its posts tell: what it has posted, as far as that was heard without a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.model import START
from quadlog.core.pairs import Pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.model import Pair, Point, Post
    from quadlog.core.queue import IncomingQueue


class Member:
    """One incarnation of a member, this master itself included.

    What counts in ADD is the last word that was understood: a snapshot, and every delta on it in
    turn.  Behind a gap a member has said more, perhaps pairs that stand before all that is known
    of it; so its counter there is no promise to the one who did not hear them.
    """

    def __init__(self, incarnation: bytes) -> None:
        """Nothing was heard of it."""
        self.incarnation = incarnation
        self.heard = -1
        """Sequence of its newest post, understood or not."""
        self.base: Point = START
        """Merge base of its newest post: true, whatever else was not heard."""
        self.understood: int | None = None
        """Sequence of its last word; None before its first snapshot."""
        self.counter = -1
        """What it promised with its last word."""
        self._posted = Pairs()

    def hear(self, post: Post) -> None:
        """A post that is newer than all before."""
        self.heard, self.base = post.sequence, post.base

    def follows(self, post: Post) -> bool:
        """Is the post understood: a snapshot, or a delta on its last word?"""
        return post.base_sequence is None or post.base_sequence == self.understood

    def understand(self, post: Post, pairs: Sequence[Pair]) -> None:
        """Take a post that follows as its last word; `pairs` are those of the post that wait here."""
        assert self.follows(post), f"post {post.sequence} of {post.node} is no last word"
        self.understood, self.counter = post.sequence, post.counter
        if post.base_sequence is None:
            self._posted = Pairs()
        for pair in pairs:
            self._posted.push(pair)

    def head(self, queue: IncomingQueue) -> Pair | None:
        """The first pair of its posted queue that is not spent.

        All that it posted was merged into `queue`, so a pair whose id waits there no longer is spent.
        """
        posted = self._posted
        while (pair := posted.first) is not None and pair.id not in queue:
            posted.pop()
        return pair
