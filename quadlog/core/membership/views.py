"""Which masters agree on one order, and how that changes.

A view is left by giving up on its members, and entered by being let in; either way a new view is
proposed, voted for by all who are to be in it, and installed.

    give up, join     `presence`: who is missing, and who is stronger
    propose, vote     `ballots`: the next view; from a vote on nothing is added in the old view
    install           all have voted, and all that their posts list is acquired (`succession`)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from quadlog.core.membership.ballots import Ballots, elected_from
from quadlog.core.membership.electorate import Electorate, changed, is_forced_in
from quadlog.core.membership.incarnations import Incarnations
from quadlog.core.membership.presence import Presence
from quadlog.core.model import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.membership.presence import HoldingUp
    from quadlog.core.model import Held, Peer, Post, Rank, Transaction, View
    from quadlog.core.queues.member import Member


class Views:
    """Where one master stands, and what it makes of the others' posts.  Times are steady milliseconds."""

    def __init__(
        self,
        node: str,
        masters: Mapping[str, str],
        standing: Standing,
        *,
        lag: float,
        near: int,
        put_off: int,
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """Go on from where this master stood.

        Args:
            node: this master.
            masters: the peers of the settings, each with its data centre.
            standing: what was saved.
            lag: how long a member may be silent.
            near: how many entries may be between a joiner and this master.
            put_off: how many times `lag`, or 10 s, one that flaps is put off at the most.
            witnesses: data centres that evaluate nothing.

        """
        self.node: Final = node
        self.standing = standing
        self.incarnations: Final = Incarnations(standing.newest)
        self._electorate: Final = Electorate(masters, witnesses)
        self._presence: Final = Presence(node, self._electorate, lag=lag, put_off=put_off)
        self._ballots: Final = Ballots(
            node,
            presence=self._presence,
            incarnations=self.incarnations,
            electorate=self._electorate,
            near=near,
        )

    def know_effects(self, held: Held) -> None:
        """How far the effects of the own data centre go: a home has those of the log."""
        self._ballots.effects = held

    def know_full(self, *, full: bool) -> None:
        """Whether the effects topic of the own data centre takes no records: a home's does."""
        self._ballots.full = full

    @property
    def view(self) -> View:
        """The installed one."""
        return self.standing.view

    @property
    def ballot(self) -> View | None:
        """What this master voted for, as long as it is not installed."""
        return self.standing.pending

    @property
    def rank(self) -> Rank:
        """How strong this side is."""
        return self.standing.rank

    @property
    def heard_at(self) -> Mapping[str, float]:
        """When each other master was heard last, in this view or outside it."""
        return self._presence.heard_at

    @property
    def is_settled(self) -> bool:
        """Nothing is under way."""
        standing = self.standing
        return (
            standing.joining is None
            and not standing.given_up
            and not standing.changes
            and self.ballot is None
        )

    @property
    def is_peer(self) -> bool:
        """Whether this master has its place, as far as it was told: else it takes no writes."""
        standing = self.standing
        peers = self._electorate.peers(standing.view)
        return not standing.outside and any(peer.node == self.node for peer in peers)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """Who may be a member, by the log; by the side that does not name this master, if it was told so."""
        beyond = self._beyond
        return self._logged if beyond is None else self._electorate.peers(beyond)

    @property
    def undecided(self) -> frozenset[str]:
        """Those whose being a peer, or not, is agreed and not decided yet."""
        beyond = self._beyond
        view, changes = (self.view, self.standing.changes) if beyond is None else (beyond, ())
        said = [self._electorate.peers(view), *([view.before] if view.before else []), *changes]
        names = [frozenset(peer.node for peer in peers) for peers in said]
        return frozenset[str]().union(*names).difference(names[0].intersection(*names[1:]))

    @property
    def _beyond(self) -> View | None:
        """The view of the side that does not name this master, as far as it was told."""
        return self.standing.joining if self.standing.outside else None

    @property
    def _logged(self) -> tuple[Peer, ...]:
        changes = self.standing.changes
        return changes[-1] if changes else self._electorate.peers(self.view)

    def is_majority(self, view: View) -> bool:
        """Whether more than half of all data centres are in it."""
        return self._electorate.is_majority(view)

    # --- listening --------------------------------------------------------------------------------

    def listens_to(self, post: Post) -> bool:
        """Whether its sender is a peer; or its side names both as peers, and has held a later majority.

        Whoever was cut off for long may know nobody of those that are peers by now.
        """
        if post.node in self._electorate.centres(self.view):
            return True
        names = {peer.node for peer in (*post.view.peers, *post.view.before)}
        return {self.node, post.node} <= names and post.rank.epoch > self.standing.promise

    def learn(self, post: Post, known: bytes | None) -> bool:
        """Who lost its disk, as far as a post tells, and whether that is news.

        `known`: the incarnation of its sender that was heard up to now.

        It is saved with the next vote, or before: after it an older incarnation is never heard again, also after a
        restart.
        """
        if not self.incarnations.learn(post, known):
            return False
        self.standing = replace(self.standing, newest=self.incarnations.newest)
        return True

    def void(self, name: str, incarnation: bytes) -> bool:
        """A master may have forgotten what it said in this incarnation; whether that is news.  It is saved as above."""
        if not self.incarnations.void(name, incarnation):
            return False
        self.standing = replace(self.standing, newest=self.incarnations.newest)
        return True

    def wake(self, now: float) -> None:
        """This master does something."""
        self._presence.wake(now)

    def hear(self, post: Post, now: float) -> None:
        """A post came."""
        self._presence.hear(post, self.view, now)

    def is_moved_by(self, post: Post, before: Post | None) -> bool:
        """Whether it is time to look after the membership: `before` is what the sender's last word was."""
        has_moved = before is None or _stands(before) != _stands(post) or before.full is not post.full
        return has_moved or not self.is_settled

    # --- what is to change ------------------------------------------------------------------------

    def tend(self, members: Mapping[str, Member], holding_up: HoldingUp, now: float) -> bool:
        """Look who is missing and who is stronger.  Whether anything changed.

        Args:
            members: what is known of the others.
            holding_up: what heads the queue of most, and the members that have not posted it.
            now: steady milliseconds.

        """
        standing, presence = self.standing, self._presence
        given_up = presence.missing(standing, self.incarnations.gone(standing.view), members, holding_up, now)
        is_elected = self._ballots.is_elected(standing, members, now)
        joining = elected_from(standing) if is_elected else presence.stronger(standing, members, now)
        is_named = joining is None or self.node in self._electorate.centres(joining)
        outside = not is_named or (joining is None and standing.outside)
        before = (set(standing.given_up), standing.joining, standing.outside)
        if (given_up, joining, outside) == before:
            return False
        presence.give_up(given_up - before[0], now)
        self.standing = replace(standing, given_up=tuple(sorted(given_up)), joining=joining, outside=outside)
        return True

    def vote(self, members: Mapping[str, Member], last: int, now: float) -> bool:
        """Propose or vote, if it is time to.  Whether anything changed."""
        ballots, before = self._ballots, self.standing.ballot
        if ballots.is_elected(self.standing, members, now):
            return False  # it is to be followed, as soon as all that it inherits is here
        proposal = ballots.proposal(self.standing, members, last, now)
        if proposal is not None:
            self.standing = replace(self.standing, ballot=proposal)
        for name, member in members.items():
            said = member.said
            if name == self.node or said is None or said.ballot is None:
                continue
            if ballots.votes_for(said.ballot, said, self.standing, members, now):
                self.standing = replace(self.standing, ballot=said.ballot)
        return self.standing.ballot is not before

    def configure(self, transaction: Transaction) -> bool:
        """An entry is added: whether it changes who may be a member.

        That follows from the log alone, so it is the same wherever this entry is, in whatever view it was added.
        """
        change = changed(self._logged, transaction)
        if change:
            forced = change if is_forced_in(self.view, transaction) else self.standing.forced
            self.standing = replace(self.standing, changes=(*self.standing.changes, change), forced=forced)
        return bool(change)

    def is_frozen(self, members: Iterable[Member]) -> bool:
        """Nothing is added in this view once this master, or a member, has voted for the next or wants to leave."""
        if self.standing.joining is not None or self.ballot is not None:
            return True
        return any(member.said is not None and member.said.ballot is not None for member in members)

    def install(self, view: View, promise: int, changes: tuple[tuple[Peer, ...], ...], now: float) -> None:
        """It is the view from here on.

        Args:
            view: that.
            promise: of the lineage that it goes on.
            changes: of the peers, by the log, that the view before did not name.
            now: steady milliseconds.

        """
        self.standing = Standing(
            view=view,
            ballot=self.standing.ballot,
            promise=max(promise, view.epoch) if self.is_majority(view) else promise,
            newest=self.standing.newest,
            changes=_left_of(changes, view, self.standing.forced),
        )
        self._presence.begin(now)


def _left_of(
    changes: tuple[tuple[Peer, ...], ...], view: View, forced: tuple[Peer, ...]
) -> tuple[tuple[Peer, ...], ...]:
    """What of them the view does not name.  What was forced takes with it what was to come before."""
    if view.peers == forced and not view.before and forced in changes:
        return changes[len(changes) - changes[::-1].index(forced) :]
    return changes[1:] if changes[:1] == (view.peers,) else changes


def _stands(post: Post) -> tuple[View, View | None, View | None, tuple[str, ...], bool]:
    """What it says of the membership."""
    return post.view, post.ballot, post.joining, post.given_up, post.whole
