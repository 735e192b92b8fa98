"""Views: the masters that agree on one order, and how they change.

A master leaves a view by giving up members of it, and enters a view by being admitted.  In both cases a new
view is proposed, voted for by all its members, and installed.

    give up, join     `failure_detector`: missing members, and stronger sides
    propose, vote     `view_election`: the next view; after a vote nothing is added in the old view
    install           all have voted, and all payloads that their posts list are acquired (`view_change`)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog.core.approval import PAUSE_MS, approval_in
from quadlog.core.cluster_settings import (
    SplitApproval,
    SplitRecovery,
    after,
    in_force,
    names_setting,
    of_file,
    set_by,
)
from quadlog.core.membership.electorate import Electorate, changed, is_forced_in
from quadlog.core.membership.failure_detector import FailureDetector
from quadlog.core.membership.incarnations import Incarnations
from quadlog.core.membership.view_election import ViewElection, elected_from
from quadlog.core.model import HardState, TransactionKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.cluster_settings import ClusterSettings
    from quadlog.core.membership.failure_detector import HoldingUp
    from quadlog.core.model import AgreedSetting, LogPosition, Peer, Post, Transaction, View
    from quadlog.core.queues.progress import Progress


class Continuation(NamedTuple):
    """What a view continues: of the view before it, or of the view that a master gives way to."""

    promise: int
    """Epoch of the last view that held a majority."""
    changes: tuple[tuple[Peer, ...], ...]
    """Changes of the peers in the log that the view before does not name."""
    settings: tuple[AgreedSetting, ...]
    """What entries of the log have set."""
    fork: int
    """Index up to which the members of the view before have the log, or those that this master gives way to."""


class Views:
    """Membership state of one master, and how posts of the others change it.  Times are steady milliseconds."""

    def __init__(
        self,
        node: str,
        masters: Mapping[str, str],
        standing: HardState,
        *,
        settings: ClusterSettings,
        near: int,
        idle: float,
        put_off: int,
        witnesses: frozenset[str] = frozenset(),
    ) -> None:
        """Continue from the saved state; parameters as of `Agreement`, `AgreementLimits` and `PostingPace`."""
        self.node: Final = node
        self.held: View | None = None
        """View of a stronger side that this master does not join, because nobody has approved it."""
        self._pause_ends: float | None = None
        """Steady milliseconds until which nothing is added behind an approval; None: not known yet."""
        self._files: Final = settings
        self.standing = standing
        self.incarnations: Final = Incarnations(standing.newest)
        self.electorate: Final = Electorate(masters, witnesses)
        self.failure_detector: Final = FailureDetector(
            node, self.electorate, settings=settings, idle=idle, put_off=put_off
        )
        self.view_election: Final = ViewElection(
            node,
            failure_detector=self.failure_detector,
            incarnations=self.incarnations,
            electorate=self.electorate,
            near=near,
        )
        self._count(standing.settings)

    @property
    def view(self) -> View:
        """The installed view."""
        return self.standing.view

    @property
    def ballot(self) -> View | None:
        """The view that this master voted for, while it is not installed."""
        return self.standing.pending

    @property
    def is_settled(self) -> bool:
        """True if no change of the membership is under way."""
        standing = self.standing
        return (
            standing.joining is None
            and not standing.given_up
            and not standing.changes
            and self.ballot is None
        )

    @property
    def is_peer(self) -> bool:
        """True if this master is a peer, as far as it knows; otherwise it accepts no writes."""
        standing = self.standing
        peers = self.electorate.peers(standing.view)
        return not standing.outside and any(peer.node == self.node for peer in peers)

    @property
    def peers(self) -> tuple[Peer, ...]:
        """The peers by the log or, if a side that does not name this master is known, by the view of that side."""
        beyond = self._beyond
        return self._logged if beyond is None else self.electorate.peers(beyond)

    @property
    def undecided(self) -> frozenset[str]:
        """Masters whose addition or removal as a peer is agreed and not decided yet."""
        beyond = self._beyond
        view, changes = (self.view, self.standing.changes) if beyond is None else (beyond, ())
        said = [self.electorate.peers(view), *([view.before] if view.before else []), *changes]
        names = [frozenset(peer.node for peer in peers) for peers in said]
        return frozenset[str]().union(*names).difference(names[0].intersection(*names[1:]))

    @property
    def _beyond(self) -> View | None:
        """The view of the side that does not name this master, if one is known."""
        return self.standing.joining if self.standing.outside else None

    @property
    def _logged(self) -> tuple[Peer, ...]:
        changes = self.standing.changes
        return changes[-1] if changes else self.electorate.peers(self.view)

    @property
    def centres(self) -> Mapping[str, str]:
        """The data centre of each peer, and of those before an undecided change."""
        return self.electorate.centres(self.view)

    @property
    def has_majority(self) -> bool:
        """True if the members of the view that are not blank are more than half of all data centres."""
        return self.is_majority(self.view)

    def is_majority(self, view: View) -> bool:
        """Return whether the members of a view that are not blank are more than half of all data centres."""
        return self.electorate.is_majority(view)

    @property
    def may_agree(self) -> bool:
        """False if nothing may be added in this view: it has no majority, and `split-recovery` requires one."""
        return self.settings.split_recovery is not SplitRecovery.QUORUM or self.is_majority(self.view)

    def forces(self, transaction: Transaction) -> bool:
        """Return whether an operator declares by a transaction that the members of this view are all that is left.

        It may be added without a majority.
        """
        return transaction.kind is TransactionKind.CONFIG and is_forced_in(self.view, transaction)

    # --- listening --------------------------------------------------------------------------------

    def listens_to(self, post: Post) -> bool:
        """Return whether a post counts.

        It does if its sender is a peer, or if its side names both masters as peers and has held a later
        majority: a master that was cut off for long may know none of the current peers.
        """
        if post.node in self.electorate.centres(self.view):
            return True
        names = {peer.node for peer in (*post.view.peers, *post.view.before)}
        return {self.node, post.node} <= names and post.rank.epoch > self.standing.promise

    def learn(self, post: Post, known: bytes | None) -> bool:
        """Learn lost disks from a post; return whether any of them is new.

        They are saved with the next vote or earlier: from then on an older incarnation is never accepted
        again, even after a restart.

        `known`: the incarnation of the sender in earlier posts; None: there were none.
        """
        if not self.incarnations.learn(post, known):
            return False
        self.standing = replace(self.standing, newest=self.incarnations.newest)
        return True

    def void(self, name: str, incarnation: bytes) -> bool:
        """Declare an incarnation lost, because it may have forgotten its posts; return whether that is new.

        It is saved as by `learn`.
        """
        if not self.incarnations.void(name, incarnation):
            return False
        self.standing = replace(self.standing, newest=self.incarnations.newest)
        return True

    def is_moved_by(self, post: Post, before: Post | None) -> bool:
        """Return whether a post requires a check of the membership; `before`: the previous post that was understood."""
        has_moved = before is None or _stands(before) != _stands(post) or before.full is not post.full
        return has_moved or not self.is_settled

    # --- changing ---------------------------------------------------------------------------------

    def tick(self, members: Mapping[str, Progress], holding_up: HoldingUp, now: float, *, last: int) -> bool:
        """Determine missing members and a stronger side; return whether anything changed.

        `last`: index of the last entry of this log.
        """
        standing, failure_detector = self.standing, self.failure_detector
        given_up = failure_detector.missing(
            standing, self.incarnations.gone(standing.view), members, holding_up, now
        )
        is_elected = self.view_election.is_elected(standing, members, now)
        joining = elected_from(standing) if is_elected else failure_detector.stronger(standing, members, now)
        self.held = joining if not is_elected and joining is not None and self._holds(joining, last) else None
        if self.held is not None:
            joining = None
        is_named = joining is None or self.node in self.electorate.centres(joining)
        outside = not is_named or (joining is None and standing.outside)
        before = (set(standing.given_up), standing.joining, standing.outside)
        if (given_up, joining, outside) == before:
            return False
        failure_detector.give_up(given_up - before[0], now)
        self.standing = replace(standing, given_up=tuple(sorted(given_up)), joining=joining, outside=outside)
        return True

    def vote(self, members: Mapping[str, Progress], last: int, now: float) -> bool:
        """Propose or vote if that is due; return whether anything changed."""
        view_election, before = self.view_election, self.standing.ballot
        if view_election.is_elected(self.standing, members, now):
            return False  # followed once all that it inherits is here
        installed = view_election.installed_before(self.standing, members, now)
        if installed is not None:
            self.standing = replace(self.standing, ballot=installed, dropped=self.standing.voted)
            return True
        proposal = view_election.proposal(self.standing, members, last, now)
        if proposal is not None:
            self.standing = replace(self.standing, ballot=proposal)
        for name, member in members.items():
            said = member.said
            if name == self.node or said is None or said.ballot is None:
                continue
            if view_election.votes_for(said.ballot, said, self.standing, members, now):
                self.standing = replace(self.standing, ballot=said.ballot)
        return self.standing.ballot is not before

    def _holds(self, joining: View, last: int) -> bool:
        """Return whether this side may not give way yet: it has entries of its own, and nobody has approved it.

        A side of witnesses takes no requests, so nobody could.
        """
        standing, centres = self.standing, self.centres
        evaluating = [
            name for name in standing.view.members if centres.get(name) not in self.electorate.witnesses
        ]
        return (
            self.settings.split_approval is SplitApproval.MANUAL
            and self.may_agree  # else it has agreed on nothing, and cannot agree on an approval
            and self.is_peer
            and bool(evaluating)
            and self.node in self.electorate.centres(joining)
            and standing.fork is not None
            and standing.fork < last
            and not (standing.approved == last and (standing.joining is not None or self.is_paused(last)))
        )

    def is_paused(self, last: int) -> bool:
        """Return whether nothing is added behind an approval, the last entry of this log, for some time.

        After a restart the time begins again.
        """
        if not last or self.standing.approved != last:
            return False
        now = self.failure_detector.awake_at
        if self._pause_ends is None:
            self._pause_ends = now + min(self.settings.max_peer_lag * 1000, PAUSE_MS)
        return now < self._pause_ends

    def configure(self, transaction: Transaction, before: LogPosition, at: int) -> bool:
        """Apply an added CONFIG entry; return whether it changes the peers or a setting, or is an approval.

        The result depends on the log alone: it is the same wherever this entry is, in whatever view it was
        added.

        `before`: position of the entry before it; `at`: milliseconds since 1970 of its timestamp.
        """
        index = before.index + 1
        if (approval := approval_in(transaction.options)) is not None:
            if approval.after == before:
                self.standing, self._pause_ends = replace(self.standing, approved=index), None
            return approval.after == before
        if names_setting(transaction.options):
            setting = set_by(transaction.options, index, at)
            if setting is not None:
                self._set(after(self.standing.settings, setting))
            return setting is not None
        change = changed(self._logged, transaction)
        if change:
            forced = change if is_forced_in(self.view, transaction) else self.standing.forced
            self.standing = replace(self.standing, changes=(*self.standing.changes, change), forced=forced)
        return bool(change)

    def _set(self, agreed: tuple[AgreedSetting, ...]) -> None:
        """Replace the settings that entries of the log have set."""
        self.standing = replace(self.standing, settings=agreed)
        self._count(agreed)

    def _count(self, agreed: tuple[AgreedSetting, ...]) -> None:
        """Let these agreed settings count, and the file for all others."""
        self.settings = self.failure_detector.settings = in_force(self._files, agreed)
        self.posted_settings = (*agreed, *of_file(self._files, agreed))

    def is_frozen(self, members: Iterable[Progress]) -> bool:
        """Return whether nothing may be added in this view.

        This is so once this master or a member has voted for the next view, or this master is joining another
        side.
        """
        if self.standing.joining is not None or self.ballot is not None:
            return True
        return any(member.said is not None and member.said.ballot is not None for member in members)

    def install(self, view: View, continued: Continuation, now: float) -> None:
        """Install a view."""
        promise, changes, settings, fork = continued
        known = fork if self.standing.fork is None else min(fork, self.standing.fork)
        self.standing = HardState(
            view=view,
            fork=None if self.is_majority(view) else known,
            ballot=self.standing.ballot,
            dropped=self.standing.dropped,
            promise=max(promise, view.epoch) if self.is_majority(view) else promise,
            newest=self.standing.newest,
            changes=_left_of(changes, view, self.standing.forced),
        )
        self._set(settings)
        self.failure_detector.begin(now)


def _left_of(
    changes: tuple[tuple[Peer, ...], ...], view: View, forced: tuple[Peer, ...]
) -> tuple[tuple[Peer, ...], ...]:
    """Return the changes that the view does not name.  A forced change also drops the changes before it."""
    if view.peers == forced and not view.before and forced in changes:
        return changes[len(changes) - changes[::-1].index(forced) :]
    return changes[1:] if changes[:1] == (view.peers,) else changes


def _stands(post: Post) -> tuple[View, View | None, View | None, tuple[str, ...], bool]:
    """Return the fields of a post that concern the membership."""
    return post.view, post.ballot, post.joining, post.given_up, post.whole
