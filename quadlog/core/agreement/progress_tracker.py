"""Known state of all masters, including this one, by their posts; and the snapshots that are requested."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from quadlog.core.membership.failure_detector import NOBODY
from quadlog.core.model import Ask
from quadlog.core.queues.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.membership.failure_detector import HoldingUp
    from quadlog.core.membership.views import Views
    from quadlog.core.model import Pair, Post
    from quadlog.core.queues.queue import IncomingQueue


class ProgressTracker:
    """The masters that have posted, each in its newest incarnation."""

    def __init__(self, node: str, views: Views) -> None:
        self._node: Final = node
        self._views: Final = views
        self.members: Final[dict[str, Progress]] = {}
        self.asks: Final[dict[str, Ask]] = {}
        """Snapshots that are requested, by master."""
        self.ignored: Final[Counter[str]] = Counter()
        """Number of ignored posts by node: those of unknown peers and of older incarnations.

        It includes posts that do not count here because settings differ in the roles: then the first view has
        two homes.
        """

    # --- senders ----------------------------------------------------------------------------------

    def recognised(self, post: Post) -> Progress | None:
        """Return the sender of a post; None if the post must be ignored.

        A master that was listened to and then lost its disk may post from a view that does not count here: its posts
        of before are void all the same.
        """
        counts = self._views.listens_to(post)
        member = self._sender_of(post) if counts or post.node in self.members else None
        member = member if counts else None
        view = self._views.view
        if member is None or (post.view.home != view.home and post.view.id == view.id):
            self.ignored[post.node] += 1
        return member

    def _sender_of(self, post: Post) -> Progress | None:
        """Return the sender of a post; None for an incarnation that is lost.

        Nothing of an older incarnation is used for a newer one, and nothing is missed: all that may have been
        agreed with the older one was posted by all members, and is inherited from those that stay.
        """
        member = self.members.get(post.node)
        if self._views.learn(post, member.incarnation if member is not None else None):
            self._drop_the_older()
            member = self.members.get(post.node)
        if member is None and self._views.incarnations.is_current(post.node, post.incarnation):
            member = self.members[post.node] = Progress(post.incarnation)
        return member if member is not None and member.incarnation == post.incarnation else None

    def void(self, name: str, incarnation: bytes) -> bool:
        """Ignore an incarnation from now on although no later one is known; return whether that is new."""
        if not self._views.void(name, incarnation):
            return False
        self._drop_the_older()
        return True

    def _drop_the_older(self) -> None:
        """Forget the posts of lost incarnations."""
        for name, incarnation in self._views.standing.newest:
            known = self.members.get(name)
            if known is not None and known.incarnation < incarnation:
                del self.members[name]
                self.asks.pop(name, None)

    # --- missing posts ----------------------------------------------------------------------------

    def ask(self, post: Post) -> bool:
        """Request a snapshot of the sender of a post that was not understood, until one arrives.

        Until then its last word is the newest post that was understood.  Return whether no snapshot was
        requested yet.
        """
        is_new = post.node not in self.asks
        self.asks[post.node] = Ask(post.node, post.sequence)
        return is_new

    def understood(self, name: str) -> None:
        """Note that no post of a master is missing any more."""
        self.asks.pop(name, None)

    # --- the members of the view ------------------------------------------------------------------

    def in_view(self) -> list[Progress] | None:
        """Return all members of the view; None if one of them has not posted in this view yet."""
        view, spoken = self._views.view, list[Progress]()
        for name in view.members:
            member = self.members.get(name)
            if member is None or not member.is_in(view):
                return None
            spoken.append(member)
        return spoken or None

    def furthest_behind(self, last: int) -> int:
        """Return the index of the lowest merge base that a member posted; `last` if no member was heard.

        ADD does not go too far beyond it, so the log always keeps the entries that this member lacks.
        """
        members = (self.members.get(name) for name in self._views.view.members)
        return min((member.base.index for member in members if member), default=last)

    def holding_up(self, queue: IncomingQueue) -> HoldingUp:
        """Return the lowest first pair of all queues, and the members whose queue starts with another pair or none."""
        members = self.in_view()
        if members is None:
            return NOBODY
        names = self._views.view.members
        heads = {name: member.head(queue) for name, member in zip(names, members, strict=True)}
        head = min((pair for pair in heads.values() if pair is not None), default=None)
        return (head, frozenset(name for name, pair in heads.items() if pair != head)) if head else NOBODY


def common_head(members: Sequence[Progress], queue: IncomingQueue) -> Pair | None:
    """Return the first pair of every member's queue as posted, without what is already added; None if they differ."""
    first = members[0].head(queue)
    for member in members[1:]:
        if first is None or member.head(queue) != first:
            return None
    return first
