"""POST: composition of one master's posts.

`unposted` selects the pairs of the queue for a post; this module adds everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.messages import LocalStatus
from quadlog.core.model import Post
from quadlog.core.queues.progress import Progress
from quadlog.core.queues.unposted import UnpostedPairs

if TYPE_CHECKING:
    from quadlog.core.agreement.shared import Shared
    from quadlog.core.model import LogPosition, Pair


class PostBuilder:
    """One master's posts."""

    def __init__(self, shared: Shared, incarnation: bytes, sequence: int) -> None:
        """Continue after the last post, whose number is `sequence`."""
        self.node: Final = shared.node
        self.incarnation: Final = incarnation
        self.sequence = sequence
        self.status = LocalStatus()
        """Status of the own data centre; only posted, not used here."""
        self._views: Final = shared.views
        self._progress: Final = shared.progress
        self._local_state: Final = shared.local_state
        self._clock: Final = shared.clock
        self._pacing: Final = shared.pacing
        self._limits: Final = shared.limits
        self._posting = UnpostedPairs(shared.local_state.queue, shared.limits)

    def report(self, status: LocalStatus) -> None:
        """Set the status of the own data centre; a change of what it hears or accepts is posted at once.

        So are effects of synchronous transactions.
        """
        before, self.status = self.status, status
        if status.unheard != before.unheard:
            self._pacing.note_news()
        if before.effects.index < min(status.effects.index, self._local_state.limbo.newest):
            self._pacing.note_news()  # clients wait for synchronous transactions
        if status.full is not before.full:
            self._pacing.note_news()
            self._pacing.tend_soon()

    def begin_view(self) -> None:
        """Begin a view: everything must be posted again."""
        self._posting = UnpostedPairs(self._local_state.queue, self._limits)
        self._pacing.note_news()

    def offer(self, pair: Pair) -> None:
        """Offer a pair of the queue whose payload is acquired."""
        self._posting.offer(pair)
        self._pacing.note_news()

    def on_post(self, post: Post) -> None:
        """Process the requests in another master's post: post soon if it needs a snapshot that is not on its way."""
        for ask in post.asks:
            if ask.node == self.node and self._posting.asked(ask.sequence):
                self._pacing.note_news()

    def post(self, beside: LogPosition | None) -> Post:
        """Return the next post; `beside`: position up to which the log of the side to join was read."""
        self.sequence += 1
        counter = self._clock.stamp()
        is_snapshot, queue = self._posting.draw(self.sequence)
        left = self._posting.first_left
        if left is not None:
            counter = min(counter, left.timestamp - 1)  # the pairs left may precede those that were posted
        views, log, progress = self._views, self._local_state.log, self._progress
        own = progress.members.get(self.node) or Progress(self.incarnation)
        furthest = progress.furthest_behind(log.last.index)
        post = Post(
            node=self.node,
            incarnation=self.incarnation,
            sequence=self.sequence,
            base_sequence=None if is_snapshot else own.heard,
            view=views.view,
            base=log.last,
            counter=counter,
            queue=queue,
            added=log.since(furthest if is_snapshot else own.base.index),
            asks=tuple(progress.asks.values()),
            ballot=views.ballot,
            dropped=views.standing.dropped,
            rank=views.standing.rank,
            joining=views.standing.joining,
            given_up=views.standing.given_up,
            whole=left is None,
            beside=beside,
            effects=self.status.effects,
            unheard=self.status.unheard,
            changes=views.standing.changes,
            full=self.status.full,
            settings=views.posted_settings,
            rejoined=self.status.rejoined,
        )
        progress.members[self.node] = own
        own.on_post(post, post.base)
        own.understand(post, queue)
        self._pacing.posted(self._clock.now.steady)
        if left is not None:
            self._pacing.note_news()
        if post.ballot is not None:
            self._pacing.tend_soon()
        return post
