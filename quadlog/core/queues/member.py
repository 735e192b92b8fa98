"""A master as its posts tell: what it has posted, as far as that was heard without a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.model import START
from quadlog.core.queues.pairs import Pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.model import Pair, Point, Post, View
    from quadlog.core.queues.queue import IncomingQueue


class Member:
    """One incarnation of a master, this one itself included, whatever view it is in.

    What counts is its last word: a snapshot, and every delta on it in turn.  Behind a gap it has
    said more, perhaps pairs that stand before all that is known of it; so its counter there is no
    promise to the one who did not hear them.
    """

    def __init__(self, incarnation: bytes) -> None:
        """Nothing was heard of it."""
        self.incarnation = incarnation
        self.heard = -1
        """Sequence of its newest post, understood or not."""
        self.base: Point = START
        """Merge base of its newest post in this view, understood or not; of a joiner, how far it is beside."""
        self.said: Post | None = None
        """Its last word."""
        self._posted = Pairs()

    def hear(self, post: Post, base: Point | None) -> None:
        """A post that is newer than all before; `base`: how far its sender has this log, if it says so."""
        self.heard, self.base = post.sequence, base or self.base

    @property
    def understood(self) -> int | None:
        """Sequence of its last word; None before its first snapshot."""
        return None if self.said is None else self.said.sequence

    @property
    def counter(self) -> int:
        """What it promised with its last word."""
        return -1 if self.said is None else self.said.counter

    def is_in(self, view: View) -> bool:
        """Whether its last word is said in this view."""
        said = self.said
        return said is not None and (said.view is view or said.view == view)

    def follows(self, post: Post) -> bool:
        """Is the post understood: a snapshot, or a delta on its last word?"""
        return post.base_sequence is None or post.base_sequence == self.understood

    def understand(self, post: Post, pairs: Iterable[Pair]) -> None:
        """Take a post that follows as its last word; `pairs` are those of the post that may wait here."""
        assert self.follows(post), f"post {post.sequence} of {post.node} is no last word"
        self.said = post
        if post.base_sequence is None:
            self._posted = Pairs()
        for pair in pairs:
            self._posted.push(pair)

    def forget(self) -> None:
        """It has to say anew what it posted."""
        self.said = None
        self._posted = Pairs()

    @property
    def posted(self) -> Iterator[Pair]:
        """All that it posted up to its last word, some of which may be spent; in no order."""
        return iter(self._posted)

    def repost(self, pairs: Iterable[Pair]) -> None:
        """What it posted, in the terms of another queue; in order."""
        self._posted = Pairs(pairs)

    def head(self, queue: IncomingQueue) -> Pair | None:
        """The first pair of its posted queue that is not spent.

        All that it posted in this view was merged into `queue`, so a pair whose id waits there no longer is spent.
        """
        posted = self._posted
        while (pair := posted.first) is not None and pair.id not in queue:
            posted.pop()
        return pair
