"""Proposals and votes that determine the next view.

    propose    the master of the lowest remaining id, as soon as the view differs from the intended one
    vote       once per epoch, permanently

Masters of one data centre are admitted together: a joiner together with all masters of its data centre that
post.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from quadlog.core.messages import LocalStatus
from quadlog.core.model import NOWHERE, OF_A_BRANCH, RejoinedMember, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.membership.electorate import Electorate
    from quadlog.core.membership.failure_detector import FailureDetector
    from quadlog.core.membership.incarnations import Incarnations
    from quadlog.core.model import EffectsPosition, HardState, Peer, Post
    from quadlog.core.queues.progress import Progress


class ViewElection:
    """Proposals and votes of one master."""

    def __init__(
        self,
        node: str,
        *,
        failure_detector: FailureDetector,
        incarnations: Incarnations,
        electorate: Electorate,
        near: int,
    ) -> None:
        """Start without known effects of the own data centre; `near` as of `AgreementLimits`."""
        self._node: Final = node
        self._failure_detector: Final = failure_detector
        self._incarnations: Final = incarnations
        self._electorate: Final = electorate
        self._near: Final = near
        self.status = LocalStatus()
        """Status of the own data centre: a home must have the effects of the log, and accept more."""

    # --- proposing --------------------------------------------------------------------------------

    def _electoral(
        self, standing: HardState, members: Mapping[str, Progress]
    ) -> tuple[tuple[Peer, ...], tuple[Peer, ...]]:
        """Return the peers of the next view, and the peers before that while the change is undecided.

        The change is decided when all members of a majority of both sets are in a view that names both.  A master
        that the change removes continues as if it were undecided until one of the remaining members votes for a view
        without it: until then they may be waiting for its ballot.
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

    def _is_left_to_others(self, view: View, gone: set[str], members: Mapping[str, Progress]) -> bool:
        """Return whether this master was removed and no remaining member has posted a ballot without it yet."""
        peers = {peer.node for peer in view.peers}
        others = peers.intersection(view.members) - gone
        if self._node in peers or not others:
            return False
        said = [member.said for name, member in members.items() if name in others and member.said]
        ballots = [post.ballot for post in said if post.ballot is not None]
        return not any(ballot.parent == view.id and self._node not in ballot.members for ballot in ballots)

    def _joiners(
        self,
        standing: HardState,
        centres: Mapping[str, str],
        members: Mapping[str, Progress],
        last: int,
        now: float,
    ) -> set[str]:
        """Return the masters to admit: those that request it, lack few entries, and are not put off.

        A master has to wait while another recently heard master of its data centre is neither ready for
        admission nor a member that stays.
        """
        near = {
            name
            for name, member in members.items()
            if name in centres
            and name not in standing.view.members
            and self._asks_to_join(name, standing.view, members, now)
            and self._is_near(member, last)
            and not self._failure_detector.is_put_off(name, now)
        }
        inside = near.union(_staying(standing, centres))
        return {
            name
            for name in near
            if all(
                mate in inside or not self._failure_detector.is_recent(mate, now)
                for mate in centres
                if centres[mate] == centres[name]
            )
        }

    def _asks_to_join(self, name: str, view: View, members: Mapping[str, Progress], now: float) -> bool:
        member = members.get(name)
        return (
            member is not None
            and member.said is not None
            and member.said.joining == view
            and self._failure_detector.is_recent(name, now)
        )

    def _is_near(self, joiner: Progress, last: int) -> bool:
        beside = joiner.said.beside if joiner.said is not None else None
        return beside is not None and last - beside.index <= self._near

    def proposal(
        self, standing: HardState, members: Mapping[str, Progress], last: int, now: float
    ) -> View | None:
        """Return a new ballot if this master must propose one now; None otherwise."""
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
            spent = [rival.epoch for rival in rivals if rival != ballot] + [post.dropped for post in said]
            if max(spent, default=0) < ballot.epoch:
                return None
        epochs = [standing.voted, view.epoch]
        for member in members.values():
            if member.said is not None:
                epochs.append(member.said.view.epoch)
                epochs.append(member.said.ballot.epoch if member.said.ballot else 0)
                epochs.append(member.said.dropped)
        return replace(candidate, epoch=max(epochs) + 1)

    def _returned(
        self, names: Iterable[str], view: View, members: Mapping[str, Progress]
    ) -> tuple[RejoinedMember, ...]:
        """Return the members of the next view that lost their disks, and whether they are still blank."""
        return tuple(
            RejoinedMember(name, incarnation, self._is_blank(name, incarnation, view, members))
            for name, incarnation in self._incarnations.newest
            if name in names
        )

    def _is_blank(self, name: str, incarnation: bytes, view: View, members: Mapping[str, Progress]) -> bool:
        """Return whether a member is still blank, by its current view: this one, or the one from which it joins."""
        member = members.get(name)
        if name not in view.members and member is not None and member.said is not None:
            view = member.said.view
        return view.incarnation(name) != incarnation or self._electorate.is_blank(name, view)

    def _home_of(
        self, stay: Iterable[str], view: View, members: Mapping[str, Progress], ballot: View | None
    ) -> str:
        """Return the home of the next view: the current home while a member stays there, else that of the lowest id.

        These rules narrow the choice, in this order, each only if a data centre is left by it:

        - The effects of the home are not of a branch that was cut: such a home would decide again what the side that
          it follows has decided.
        - The home is not a witness.
        - The effects topic of the home accepts records (decision 37).

        A ballot that was already proposed keeps its home while these rules allow it: a voter may have
        installed it, and another ballot would leave that voter behind (seen on a lab: the lowest member had
        copied its effects meanwhile).
        """
        centres, names = self._electorate.centres(view), sorted(stay)
        fit = [name for name in names if self._effects_of(name, members) != OF_A_BRANCH] or names
        fit = [name for name in fit if centres[name] not in self._electorate.witnesses] or fit
        fit = [name for name in fit if not self._is_full(name, members)] or fit
        homes = [centres[name] for name in fit]
        before = (view.home,) if ballot is None else (ballot.home, view.home)
        return next((home for home in before if home in homes), homes[0])

    def _moves(self, view: View, home: str, members: Mapping[str, Progress]) -> bool:
        """Return whether the next view must have another home, whatever else changes.

        This is so if the view began with witnesses only.  It is also so if the effects topic of its home accepts no
        records: no worker could evaluate, and the duty could not be handed over, because the handover is written to
        the same topic.

        Such a view admits no master: another ballot would leave behind the member that can evaluate, and only
        witnesses would stay (seen in the simulated weather of the tests).
        """
        if home == view.home or not _are_all_in(view, members):
            return False
        is_witness = view.home in self._electorate.witnesses and home not in self._electorate.witnesses
        centres = self._electorate.centres(view)
        there = [name for name in view.members if centres.get(name) == view.home]
        return is_witness or (bool(there) and all(self._is_full(name, members) for name in there))

    def _is_full(self, name: str, members: Mapping[str, Progress]) -> bool:
        """Return whether a master reports that the effects topic of its data centre accepts no records."""
        if name == self._node:
            return self.status.full
        member = members.get(name)
        return member is not None and member.said is not None and member.said.full

    def _effects_of(self, name: str, members: Mapping[str, Progress]) -> EffectsPosition:
        member = members.get(name)
        if name == self._node:
            return self.status.effects
        return NOWHERE if member is None or member.said is None else member.said.effects

    # --- voting -----------------------------------------------------------------------------------

    def votes_for(
        self, ballot: View, said: Post, standing: HardState, members: Mapping[str, Progress], now: float
    ) -> bool:
        """Return whether this master votes for another master's ballot: at most once per epoch, permanently."""
        view, joining = standing.view, standing.joining
        if self._node not in ballot.members or ballot.epoch <= max(standing.voted, view.epoch):
            return False
        if self._incarnations.gone(ballot):
            return False  # the proposer does not know of the lost disk yet
        if joining is None:
            return ballot.parent == view.id and self._agrees(ballot, standing, members, now)
        return ballot.parent == joining.id and said.view == joining and said.rank > standing.rank

    def _agrees(self, ballot: View, standing: HardState, members: Mapping[str, Progress], now: float) -> bool:
        """Return whether a ballot has the right members.

        Of the own view it must contain exactly the members that are not given up.  All others must be peers
        that request admission.
        """
        theirs, mine = set(ballot.members), set(standing.view.members) & {*self._electorate.centres(ballot)}
        if theirs & mine != mine - set(standing.given_up):
            return False
        return all(self._asks_to_join(name, standing.view, members, now) for name in theirs - mine)

    def is_elected(self, standing: HardState, members: Mapping[str, Progress], now: float) -> bool:
        """Return whether a master heard recently has installed the view that this master voted for."""
        ballot = standing.pending
        return ballot is not None and any(
            member.is_in(ballot) and self._failure_detector.is_recent(name, now)
            for name, member in members.items()
        )

    def installed_before(
        self, standing: HardState, members: Mapping[str, Progress], now: float
    ) -> View | None:
        """Return the view to install instead of the one that this master voted for last; None: there is none.

        A ballot may be replaced by another one, with one more joiner, while a voter installs it.  All have voted for
        it then, also this master.  The other one needs that voter, which has left the view that both continue.
        """
        ballot = standing.pending
        if ballot is None:
            return None
        for name in ballot.members:
            said = member.said if (member := members.get(name)) is not None else None
            if (
                said is not None
                and said.joining is None
                and said.view.parent == ballot.parent
                and standing.view.epoch < said.view.epoch < ballot.epoch
                and self._node in said.view.members
                and not self._incarnations.gone(said.view)
                and self._failure_detector.is_recent(name, now)
            ):
                return said.view
        return None


def _staying(standing: HardState, centres: Mapping[str, str]) -> set[str]:
    """Return the members of the view that stay in the next view."""
    return {name for name in standing.view.members if name in centres and name not in standing.given_up}


def _is_as_wanted(view: View, candidate: View, members: Mapping[str, Progress]) -> bool:
    """Return whether the view is as intended; returned members are compared only once all members are in it."""
    wanted = (candidate.members, candidate.peers, candidate.before)
    if (view.members, view.peers, view.before) != wanted:
        return False
    return candidate.returned == view.returned or not _are_all_in(view, members)


def _are_all_in(view: View, members: Mapping[str, Progress]) -> bool:
    """Return whether all members of the view have installed it."""
    return all((member := members.get(name)) and member.is_in(view) for name in view.members)


def elected_from(standing: HardState) -> View | None:
    """Return the view whose log must be read to follow the elected view; None if the own log continues.

    A voter may have requested admission elsewhere after its vote, while no master had installed that view yet.

    A log that is being read is read on, but not if the elected view has another home: no master of the home of the view
    before is in it then, and the log there may be shorter, or another one.
    """
    ballot, joining = standing.ballot, standing.joining
    if ballot is None or ballot.parent == standing.view.id:
        return None
    if joining is not None and joining.id == ballot.parent and joining.home == ballot.home:
        return joining
    return ballot
