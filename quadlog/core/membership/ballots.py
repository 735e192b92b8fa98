"""Proposing and voting: which view is to be the next one.

    propose    the lowest remaining id, as soon as the view is not what it should be
    vote       once in an epoch, for ever

Masters of one data centre are let in together: a joiner with all of its data centre that speak.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from quadlog.core.model import NOWHERE, OF_A_BRANCH, Returned, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.membership.electorate import Electorate
    from quadlog.core.membership.incarnations import Incarnations
    from quadlog.core.membership.presence import Presence
    from quadlog.core.model import Held, Peer, Post, Standing
    from quadlog.core.queues.member import Member


class Ballots:
    """What one master proposes, and what it votes for."""

    def __init__(
        self,
        node: str,
        *,
        presence: Presence,
        incarnations: Incarnations,
        electorate: Electorate,
        near: int,
    ) -> None:
        """Decide by what these know.

        Args:
            node: this master.
            presence: who is heard.
            incarnations: who lost its disk.
            electorate: who may be a member, and who counts.
            near: how many entries may be between a joiner and this master.

        """
        self._node: Final = node
        self._presence: Final = presence
        self._incarnations: Final = incarnations
        self._electorate: Final = electorate
        self._near: Final = near
        self.effects = NOWHERE
        """How far the effects of the own data centre go."""
        self.full = False
        """Whether its effects topic takes no records."""

    # --- proposing --------------------------------------------------------------------------------

    def _electoral(
        self, standing: Standing, members: Mapping[str, Member]
    ) -> tuple[tuple[Peer, ...], tuple[Peer, ...]]:
        """Who may be in the next view, and who might before, as long as that is undecided.

        It is decided when all members of a majority of both are in a view that says so.  Who was removed with that
        leaves it to the others to tell: until one of those that stay does, they may wait for its ballot.
        """
        view = standing.view
        gone = {*standing.given_up, *self._incarnations.gone(view)}
        stay = (
            replace(view, members=tuple(name for name in view.members if name not in gone)) if gone else view
        )
        if (changed := self._electorate.successors(stay, standing.changes, standing.forced)) is not None:
            return changed
        if view.before:
            is_decided = self._electorate.is_majority(view) and _are_all_in(view, members)
            is_left_to_others = is_decided and self._is_left_to_others(view, gone, members)
            return view.peers, () if is_decided and not is_left_to_others else view.before
        return view.peers, ()

    def _is_left_to_others(self, view: View, gone: set[str], members: Mapping[str, Member]) -> bool:
        """Whether this master was removed, and none of those that stay has said yet that they go on without it."""
        peers = {peer.node for peer in view.peers}
        others = peers.intersection(view.members) - gone
        if self._node in peers or not others:
            return False
        said = [member.said for name, member in members.items() if name in others and member.said]
        ballots = [post.ballot for post in said if post.ballot is not None]
        return not any(ballot.parent == view.id and self._node not in ballot.members for ballot in ballots)

    def _joiners(
        self,
        standing: Standing,
        centres: Mapping[str, str],
        members: Mapping[str, Member],
        last: int,
        now: float,
    ) -> set[str]:
        """Who is to be let in: those that ask to be, and are near."""
        near = {
            name
            for name, member in members.items()
            if name in centres
            and name not in standing.view.members
            and self._asks_to_join(name, standing.view, members, now)
            and self._is_near(member, last)
            and not self._presence.is_put_off(name, now)
        }
        inside = near.union(_staying(standing, centres))
        return {
            name
            for name in near
            if all(
                mate in inside or not self._presence.is_recent(mate, now)
                for mate in centres
                if centres[mate] == centres[name]
            )
        }

    def _asks_to_join(self, name: str, view: View, members: Mapping[str, Member], now: float) -> bool:
        member = members.get(name)
        return (
            member is not None
            and member.said is not None
            and member.said.joining == view
            and self._presence.is_recent(name, now)
        )

    def _is_near(self, joiner: Member, last: int) -> bool:
        beside = joiner.said.beside if joiner.said is not None else None
        return beside is not None and last - beside.index <= self._near

    def proposal(
        self, standing: Standing, members: Mapping[str, Member], last: int, now: float
    ) -> View | None:
        """A ballot of its own, if it is for this master to propose one, and time to."""
        ballot, view = standing.pending, standing.view
        if standing.joining is not None or self._node not in view.members:
            return None
        peers, before = self._electoral(standing, members)
        candidate = (
            view
            if (peers, before) == (view.peers, view.before)
            else replace(view, peers=peers, before=before)
        )
        centres = self._electorate.centres(candidate)
        stay = _staying(standing, centres)
        if not stay or self._node != min(stay):
            return None
        wanted = stay | self._joiners(standing, centres, members, last, now)
        home = self._home_of(stay, candidate, members, ballot)
        moves = self._moves(view, home, members)
        names = tuple(sorted(stay if moves else wanted))
        candidate = View(
            epoch=view.epoch,
            members=names,
            parent=view.id,
            home=home,
            returned=self._returned(names, view, members),
            peers=peers,
            before=before,
        )
        if ballot is None and not moves and _is_as_wanted(view, candidate, members):
            return None
        if ballot is not None and replace(candidate, epoch=ballot.epoch) == ballot:
            said = [m.said for n, m in members.items() if n in wanted and m.said]
            rivals = [view for post in said for view in (post.view, post.ballot) if view is not None]
            if not any(rival != ballot and rival.epoch >= ballot.epoch for rival in rivals):
                return None
        epochs = [standing.voted, view.epoch]
        for member in members.values():
            if member.said is not None:
                epochs.append(member.said.view.epoch)
                epochs.append(member.said.ballot.epoch if member.said.ballot else 0)
        return replace(candidate, epoch=max(epochs) + 1)

    def _returned(
        self, names: Iterable[str], view: View, members: Mapping[str, Member]
    ) -> tuple[Returned, ...]:
        """Of members of the next view those that lost their disks, and whether they are blank still."""
        return tuple(
            Returned(name, incarnation, self._is_blank(name, incarnation, view, members))
            for name, incarnation in self._incarnations.newest
            if name in names
        )

    def _is_blank(self, name: str, incarnation: bytes, view: View, members: Mapping[str, Member]) -> bool:
        """As the view tells that it is in: this one, or where it comes from."""
        member = members.get(name)
        if name not in view.members and member is not None and member.said is not None:
            view = member.said.view
        return view.incarnation(name) != incarnation or self._electorate.is_blank(name, view)

    def _home_of(
        self, stay: Iterable[str], view: View, members: Mapping[str, Member], ballot: View | None
    ) -> str:
        """Where it was, as long as a member is there that stays; else where the lowest one is that does.

        But not where the effects are of a branch that was cut, if there is any other: it would decide anew what the
        side that it follows has decided.  Of these not a witness, if there is any other.  And of these not where the
        effects topic takes no records, if there is any other (decision 37).

        What is proposed already keeps its home while that will do: a voter may have installed it, and would be left
        behind by a ballot more (seen on a lab: the lowest one had copied its effects in between).
        """
        centres, names = self._electorate.centres(view), sorted(stay)
        fit = [name for name in names if self._effects_of(name, members) != OF_A_BRANCH] or names
        fit = [name for name in fit if centres[name] not in self._electorate.witnesses] or fit
        fit = [name for name in fit if not self._is_full(name, members)] or fit
        homes = [centres[name] for name in fit]
        before = (view.home,) if ballot is None else (ballot.home, view.home)
        return next((home for home in before if home in homes), homes[0])

    def _moves(self, view: View, home: str, members: Mapping[str, Member]) -> bool:
        """Whether a view is to be followed by one with another home, whoever else may come or go.

        It began where only witnesses stayed.  Or its home's effects topic takes no records: nobody could evaluate,
        nor could the duty be handed on, as that stands there too.

        Nobody is let in with that: by a ballot more the one that can evaluate is left behind, and only witnesses stay
        (seen in the weather).
        """
        if home == view.home or not _are_all_in(view, members):
            return False
        is_witness = view.home in self._electorate.witnesses and home not in self._electorate.witnesses
        centres = self._electorate.centres(view)
        there = [name for name in view.members if centres.get(name) == view.home]
        return is_witness or (bool(there) and all(self._is_full(name, members) for name in there))

    def _is_full(self, name: str, members: Mapping[str, Member]) -> bool:
        """Whether a master says that the effects topic of its data centre takes no records."""
        if name == self._node:
            return self.full
        member = members.get(name)
        return member is not None and member.said is not None and member.said.full

    def _effects_of(self, name: str, members: Mapping[str, Member]) -> Held:
        member = members.get(name)
        if name == self._node:
            return self.effects
        return NOWHERE if member is None or member.said is None else member.said.effects

    # --- voting -----------------------------------------------------------------------------------

    def votes_for(
        self, ballot: View, said: Post, standing: Standing, members: Mapping[str, Member], now: float
    ) -> bool:
        """Whether another's ballot gets this master's vote: at most one an epoch, ever."""
        view, joining = standing.view, standing.joining
        if self._node not in ballot.members or ballot.epoch <= max(standing.voted, view.epoch):
            return False
        if self._incarnations.gone(ballot):
            return False  # whoever proposed it has not heard of that
        if joining is None:
            return ballot.parent == view.id and self._agrees(ballot, standing, members, now)
        return ballot.parent == joining.id and said.view == joining and said.rank > standing.rank

    def _agrees(self, ballot: View, standing: Standing, members: Mapping[str, Member], now: float) -> bool:
        """Of the own view just those are in it that are not given up; the others ask to be, and may."""
        theirs, mine = set(ballot.members), set(standing.view.members) & {*self._electorate.centres(ballot)}
        if theirs & mine != mine - set(standing.given_up):
            return False
        return all(self._asks_to_join(name, standing.view, members, now) for name in theirs - mine)

    def is_elected(self, standing: Standing, members: Mapping[str, Member], now: float) -> bool:
        """Whether anyone who is heard has installed what this master voted for."""
        ballot = standing.pending
        return ballot is not None and any(
            member.is_in(ballot) and self._presence.is_recent(name, now) for name, member in members.items()
        )


def _staying(standing: Standing, centres: Mapping[str, str]) -> set[str]:
    """Members of the view that are to be in the next one."""
    return {name for name in standing.view.members if name in centres and name not in standing.given_up}


def _is_as_wanted(view: View, candidate: View, members: Mapping[str, Member]) -> bool:
    """Whether the view is what it should be.  That all its members count is seen to when they are in it."""
    wanted = (candidate.members, candidate.peers, candidate.before)
    if (view.members, view.peers, view.before) != wanted:
        return False
    return candidate.returned == view.returned or not _are_all_in(view, members)


def _are_all_in(view: View, members: Mapping[str, Member]) -> bool:
    """Whether all members of the view have installed it."""
    return all((member := members.get(name)) and member.is_in(view) for name in view.members)


def elected_from(standing: Standing) -> View | None:
    """Whose log is to be read to follow what was elected; None: the own one goes on.

    A voter may have asked to be let in elsewhere since it voted, while nobody had installed that yet.
    """
    ballot, joining = standing.ballot, standing.joining
    if ballot is None or ballot.parent == standing.view.id:
        return None
    return joining if joining is not None and joining.id in {ballot.parent, ballot.id} else ballot
