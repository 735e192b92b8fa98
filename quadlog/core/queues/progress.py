"""State of a master by its posts: what it has posted, as far as it was received without a gap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog.core.model import START
from quadlog.core.queues.pairs import Pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quadlog.core.model import LogPosition, Pair, Post, View
    from quadlog.core.queues.queue import IncomingQueue


class Progress:
    """One incarnation of a master, including this master, whatever view it is in.

    What counts are its posts up to its last word: a snapshot, and every delta on it in turn.  After a gap it
    has posted more, possibly pairs that precede all its known ones.  So the counter of a post after a gap is
    no promise to a master that did not receive the posts in the gap.
    """

    def __init__(self, incarnation: bytes) -> None:
        self.incarnation = incarnation
        self.heard = -1
        """Sequence of its newest post, whether understood or not."""
        self.base: LogPosition = START
        """Merge base of its newest post in this view, whether understood or not; of a joiner, its `beside`."""
        self.said: Post | None = None
        """Its last word: the newest post that was understood."""
        self._posted = Pairs()

    def on_post(self, post: Post, base: LogPosition | None) -> None:
        """Note a post newer than all before; `base`: position up to which its sender has this log, if reported."""
        self.heard, self.base = post.sequence, base or self.base

    @property
    def understood(self) -> int | None:
        """Sequence of its last word; None before its first snapshot."""
        return None if self.said is None else self.said.sequence

    @property
    def counter(self) -> int:
        """Counter that it promised with its last word; -1 before its first snapshot."""
        return -1 if self.said is None else self.said.counter

    def is_in(self, view: View) -> bool:
        """Return whether its last word belongs to this view."""
        said = self.said
        return said is not None and (said.view is view or said.view == view)

    def follows(self, post: Post) -> bool:
        """Return whether a post can be understood: it is a snapshot, or a delta on the last word."""
        return post.base_sequence is None or post.base_sequence == self.understood

    def understand(self, post: Post, pairs: Iterable[Pair]) -> None:
        """Make a post that follows the last word the new last word; `pairs`: pairs of the post that may wait here."""
        assert self.follows(post), f"post {post.sequence} of {post.node} is no last word"
        self.said = post
        if post.base_sequence is None:
            self._posted = Pairs()
        for pair in pairs:
            self._posted.push(pair)

    def forget(self) -> None:
        """Forget what it posted: it must send a snapshot again."""
        self.said = None
        self._posted = Pairs()

    @property
    def posted(self) -> Iterator[Pair]:
        """All pairs that it posted up to its last word, in no order; some of them may be spent."""
        return iter(self._posted)

    def repost(self, pairs: Iterable[Pair]) -> None:
        """Replace the posted pairs by those of another queue, which must be in order."""
        self._posted = Pairs(pairs)

    def head(self, queue: IncomingQueue) -> Pair | None:
        """Return the first pair of its posted queue that is not spent.

        All that it posted in this view was merged into `queue`, so a pair whose id no longer waits there is
        spent.
        """
        posted = self._posted
        while (pair := posted.first) is not None and pair.id not in queue:
            posted.pop()
        return pair
