"""What is known of all masters, this one included, by their posts; and of whom a snapshot is asked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from quadlog.core.membership.presence import NOBODY
from quadlog.core.model import Ask
from quadlog.core.queues.member import Member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.membership.presence import HoldingUp
    from quadlog.core.membership.views import Views
    from quadlog.core.model import Pair, Post
    from quadlog.core.queues.queue import IncomingQueue


class Company:
    """The members that have posted, each in its newest incarnation."""

    def __init__(self, node: str, views: Views) -> None:
        """Nobody was heard."""
        self._node: Final = node
        self._views: Final = views
        self.members: Final[dict[str, Member]] = {}
        self.asks: Final[dict[str, Ask]] = {}
        """Of whom a snapshot is asked."""
        self.ignored: Final[Counter[str]] = Counter()
        """Posts that were not listened to, by node: of unknown peers, of older incarnations.

        And those that do not count here: where settings differ on the roles, the first view has two homes.
        """

    # --- whose post it is -------------------------------------------------------------------------

    def recognised(self, post: Post) -> Member | None:
        """Whose post it is; None: it is not to be listened to."""
        member = self._sender_of(post) if self._views.listens_to(post) else None
        view = self._views.view
        if member is None or (post.view.home != view.home and post.view.id == view.id):
            self.ignored[post.node] += 1
        return member

    def _sender_of(self, post: Post) -> Member | None:
        """None: of one that is no more.

        Nothing of an older incarnation is used for a newer one.  Nor is it missed: whatever may have been agreed
        with it was posted by all, and is inherited from those that stay.
        """
        member = self.members.get(post.node)
        if self._views.learn(post, member.incarnation if member is not None else None):
            self._drop_the_older()
            member = self.members.get(post.node)
        if member is None and self._views.incarnations.is_current(post.node, post.incarnation):
            member = self.members[post.node] = Member(post.incarnation)
        return member if member is not None and member.incarnation == post.incarnation else None

    def void(self, name: str, incarnation: bytes) -> bool:
        """An incarnation is not to be listened to any more, though no later one is known; whether that is news."""
        if not self._views.void(name, incarnation):
            return False
        self._drop_the_older()
        return True

    def _drop_the_older(self) -> None:
        """Forget what incarnations said that are no more."""
        for name, incarnation in self._views.standing.newest:
            known = self.members.get(name)
            if known is not None and known.incarnation < incarnation:
                del self.members[name]
                self.asks.pop(name, None)

    # --- what is missing --------------------------------------------------------------------------

    def ask(self, post: Post) -> bool:
        """Something before this post was not heard: its sender is asked for a snapshot until one comes.

        Until then its last word is the one that was understood.  Whether it was not asked yet.
        """
        is_new = post.node not in self.asks
        self.asks[post.node] = Ask(post.node, post.sequence)
        return is_new

    def understood(self, name: str) -> None:
        """Nothing of it is missing any more."""
        self.asks.pop(name, None)

    # --- the members of the view ------------------------------------------------------------------

    def in_view(self) -> list[Member] | None:
        """All members, if each has spoken in this view."""
        view, spoken = self._views.view, list[Member]()
        for name in view.members:
            member = self.members.get(name)
            if member is None or not member.is_in(view):
                return None
            spoken.append(member)
        return spoken or None

    def furthest_behind(self, last: int) -> int:
        """Index of the merge base that the furthest lagger posted, as far as members were heard; else `last`.

        ADD does not go too far beyond it, so the log always remembers what that one lacks.
        """
        members = (self.members.get(name) for name in self._views.view.members)
        return min((member.base.index for member in members if member), default=last)

    def holding_up(self, queue: IncomingQueue) -> HoldingUp:
        """What heads the queues of all but some, and whose it does not."""
        members = self.in_view()
        if members is None:
            return NOBODY
        names = self._views.view.members
        heads = {name: member.head(queue) for name, member in zip(names, members, strict=True)}
        head = min((pair for pair in heads.values() if pair is not None), default=None)
        return (head, frozenset(name for name, pair in heads.items() if pair != head)) if head else NOBODY


def common_head(members: Sequence[Member], queue: IncomingQueue) -> Pair | None:
    """The pair that heads every member's queue as posted, less what is added already."""
    first = members[0].head(queue)
    for member in members[1:]:
        if first is None or member.head(queue) != first:
            return None
    return first
