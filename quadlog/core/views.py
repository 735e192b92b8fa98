"""Which masters agree on one order, and how that changes.

A view is left by giving up on its members, and entered by being let in; either way a new view is
proposed, voted for by all who are to be in it, and installed.

    give up    a member is silent, or lacks what all others posted, for `lag`; giving up is mutual, and where
               opinions differ the lower id is believed
    join       whoever hears a stronger side asks to be let in there
    propose    the lowest remaining id, as soon as the view is not what it should be
    vote       once in an epoch, for ever; from then on nothing is added in the old view
    install    all have voted, and all that their posts list is acquired (`agreement`)

Masters of one data centre stay together: a member is given up from outside when those of its data centre that
speak have given it up, or, after twice the time, together with them; and it is let in with all that speak.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias

from quadlog.core.model import Pair, Rank, Standing, View

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.member import Member
    from quadlog.core.model import Post

HoldingUp: TypeAlias = tuple[Pair | None, frozenset[str]]
"""What heads the queues of all others, and the members that have not posted it."""

NOBODY: Final[HoldingUp] = (None, frozenset())


class Views:
    """Where one master stands, and what it makes of the others' posts.  Times are steady milliseconds."""

    def __init__(
        self, node: str, masters: Mapping[str, str], standing: Standing, *, lag: float, near: int
    ) -> None:
        """Go on from where this master stood.

        Args:
            node: this master.
            masters: the data centre of every master that votes.
            standing: what was saved.
            lag: how long a member may be silent.
            near: how many entries may be between a joiner and this master.

        """
        self.node: Final = node
        self.masters: Final = masters
        self.standing = standing
        self.heard_at: dict[str, float] = {}
        """When each other master was heard last, in this view or outside it."""
        sizes = Counter(masters.values())
        self._share: Final = {name: Fraction(1, sizes[centre]) for name, centre in masters.items()}
        self._lag: Final = lag
        self._near: Final = near
        self._since: float | None = None
        self._held_up: tuple[HoldingUp, float] = (NOBODY, 0.0)

    @property
    def view(self) -> View:
        """The installed one."""
        return self.standing.view

    @property
    def ballot(self) -> View | None:
        """What this master voted for, as long as it is not installed."""
        ballot = self.standing.ballot
        return ballot if ballot is not None and ballot.epoch > self.view.epoch else None

    @property
    def rank(self) -> Rank:
        """How strong this side is.  A side that once held a majority beats one that did not."""
        return Rank(self.standing.promise, len(self.view.members), self.view.members)

    @property
    def is_settled(self) -> bool:
        """Nothing is under way."""
        standing = self.standing
        return standing.joining is None and not standing.given_up and self.ballot is None

    def is_majority(self, view: View) -> bool:
        """Whether more than half of all data centres are in it.

        One that has several masters counts with the share of them that are in it: if it were torn apart, each
        part could make another half a majority.
        """
        return 2 * sum(self._share[name] for name in view.members) > len(self._centres(self.masters))

    def _centres(self, names: Iterable[str]) -> set[str]:
        return {self.masters[name] for name in names if name in self.masters}

    # --- listening --------------------------------------------------------------------------------

    def hear(self, post: Post, now: float) -> None:
        """A post came.

        A member that moved on to another view is silent to this one.  One that voted for it and has not
        installed it has some more time: it may have a long queue to hear first.
        """
        is_coming = post.ballot == self.view and now - (self._since or now) <= self._lag
        if post.node not in self.view.members or post.view == self.view or is_coming:
            self.heard_at[post.node] = now

    def _is_recent(self, name: str, now: float) -> bool:
        heard = self.heard_at.get(name)
        return heard is not None and now - heard <= self._lag

    # --- giving up, and joining -------------------------------------------------------------------

    def tend(self, members: Mapping[str, Member], holding_up: HoldingUp, now: float) -> bool:
        """Look who is missing and who is stronger.  Whether anything changed.

        Args:
            members: what is known of the others.
            holding_up: what heads the queue of most, and the members that have not posted it.
            now: steady milliseconds.

        """
        if self._since is None:
            self._since = now
        standing = self.standing
        given_up = self._missing(members, holding_up, now)
        joining = standing.joining if self._is_elected(members, now) else self._stronger(members, now)
        if given_up == set(standing.given_up) and joining == standing.joining:
            return False
        self._stand(given_up=tuple(sorted(given_up)), joining=joining)
        return True

    def _stand(
        self,
        *,
        given_up: tuple[str, ...] | None = None,
        joining: View | None = None,
        ballot: View | None = None,
    ) -> None:
        standing = self.standing
        self.standing = Standing(
            view=standing.view,
            ballot=standing.ballot if ballot is None else ballot,
            promise=standing.promise,
            joining=joining,
            given_up=standing.given_up if given_up is None else given_up,
        )

    def _missing(self, members: Mapping[str, Member], holding_up: HoldingUp, now: float) -> set[str]:
        """Who was given up, and who is to be.  For good, in this view."""
        lost = set(self.standing.given_up)
        overdue = self._overdue(holding_up, now)
        for name in overdue:
            mates = [mate for mate in self._mates(name) if mate not in overdue]
            if self.node in self._mates(name) or all(
                name in self._given_up_by(members, mate) for mate in mates
            ):
                lost.add(name)
            elif overdue[name] > 2 * self._lag:
                lost |= {name, *mates}
        for name in self.view.members:
            theirs = self._given_up_by(members, name) if name != self.node and name not in lost else ()
            if self.node in theirs:
                lost.add(name)  # giving up is mutual
            lost |= {who for who in theirs if who != self.node and name < who}
        return lost

    def _overdue(self, holding_up: HoldingUp, now: float) -> dict[str, float]:
        """Members that are silent for too long, or speak and lack what all others have posted; and for how long."""
        assert self._since is not None
        since = self._since
        if holding_up != self._held_up[0]:
            self._held_up = (holding_up, now)
        missing = {
            name: now - max(self.heard_at.get(name, since), since)
            for name in self.view.members
            if name != self.node
        }
        if len(self._centres(holding_up[1])) == 1:
            for name in holding_up[1]:
                missing[name] = max(missing.get(name, 0.0), now - self._held_up[1])
        missing.pop(self.node, None)
        return {name: late for name, late in missing.items() if late > self._lag}

    def _mates(self, name: str) -> list[str]:
        """The other members of its data centre."""
        centre = self.masters.get(name)
        return [other for other in self.view.members if other != name and self.masters.get(other) == centre]

    def _given_up_by(self, members: Mapping[str, Member], name: str) -> tuple[str, ...]:
        member = members.get(name)
        if member is None or member.said is None or member.said.view != self.view:
            return ()
        return member.said.given_up

    def _stronger(self, members: Mapping[str, Member], now: float) -> View | None:
        """The view of the strongest side that is heard, if it is stronger than this one."""
        best, found = self.rank, None
        for name, member in members.items():
            said = member.said
            if said is None or name in self.view.members or said.joining is not None:
                continue
            if said.view == self.view or self.node in said.view.members or not self._is_recent(name, now):
                continue
            if said.rank > best:
                best, found = said.rank, said.view
        return found

    # --- proposing and voting -----------------------------------------------------------------------

    def wanted(self, members: Mapping[str, Member], last: int, now: float) -> set[str]:
        """Who should be in the view: its members less those given up, and joiners that are near."""
        present = set(self.view.members) - set(self.standing.given_up)
        joiners = {
            name
            for name, member in members.items()
            if name not in self.view.members
            and member.said is not None
            and member.said.joining == self.view
            and self._is_recent(name, now)
        }
        near = {name for name in joiners if self._is_near(members[name], last)}
        together = {
            name
            for name in near
            if all(
                mate in near or mate in present or not self._is_recent(mate, now)
                for mate in self.masters
                if self.masters[mate] == self.masters[name]
            )
        }
        return present | together

    def _is_near(self, joiner: Member, last: int) -> bool:
        beside = joiner.said.beside if joiner.said is not None else None
        return beside is not None and last - beside.index <= self._near

    def vote(self, members: Mapping[str, Member], last: int, now: float) -> bool:
        """Propose or vote, if it is time to.  Whether anything changed."""
        if self._is_elected(members, now):
            return False  # it is to be followed, as soon as all that it inherits is here
        before = self.standing.ballot
        self._propose(members, last, now)
        for name, member in members.items():
            said = member.said
            if name != self.node and said is not None and said.ballot is not None:
                self._consider(said.ballot, said, members, now)
        return self.standing.ballot is not before

    def _is_elected(self, members: Mapping[str, Member], now: float) -> bool:
        """Whether anyone who is heard has installed what this master voted for."""
        ballot = self.ballot
        return ballot is not None and any(
            member.is_in(ballot) and self._is_recent(name, now) for name, member in members.items()
        )

    @property
    def _voted(self) -> int:
        return self.standing.ballot.epoch if self.standing.ballot is not None else self.view.epoch

    def _propose(self, members: Mapping[str, Member], last: int, now: float) -> None:
        ballot = self.ballot
        if self.standing.joining is not None:
            return
        wanted = self.wanted(members, last, now)
        if (ballot is None and wanted == set(self.view.members)) or self.node != min(
            wanted & {*self.view.members}
        ):
            return
        names = tuple(sorted(wanted))
        if ballot is not None and (ballot.members, ballot.parent) == (names, self.view.id):
            rivals = [m.said.ballot for n, m in members.items() if n in wanted and m.said and m.said.ballot]
            if not any(rival != ballot and rival.epoch >= ballot.epoch for rival in rivals):
                return
        epochs = [self._voted, self.view.epoch]
        for member in members.values():
            if member.said is not None:
                epochs.append(member.said.view.epoch)
                epochs.append(member.said.ballot.epoch if member.said.ballot else 0)
        self._stand(ballot=View(epoch=max(epochs) + 1, members=names, parent=self.view.id))

    def _consider(self, ballot: View, said: Post, members: Mapping[str, Member], now: float) -> None:
        """Another's ballot: at most one vote an epoch, ever."""
        if self.node not in ballot.members or ballot.epoch <= max(self._voted, self.view.epoch):
            return
        joining = self.standing.joining
        if joining is None:
            votes = ballot.parent == self.view.id and self._agrees(ballot, members, now)
        else:
            votes = ballot.parent == joining.id and said.view == joining and said.rank > self.rank
        if votes:
            self._stand(ballot=ballot, joining=joining)

    def _agrees(self, ballot: View, members: Mapping[str, Member], now: float) -> bool:
        """Of the own view just those are in it that are not given up; the others ask to be."""
        theirs, mine = set(ballot.members), set(self.view.members)
        if theirs & mine != mine - set(self.standing.given_up):
            return False
        return all(
            (member := members.get(name)) is not None
            and member.said is not None
            and member.said.joining == self.view
            and self._is_recent(name, now)
            for name in theirs - mine
        )

    # --- installing -----------------------------------------------------------------------------------

    def is_frozen(self, members: Iterable[Member]) -> bool:
        """Nothing is added in this view once this master, or a member, has voted for the next or wants to leave."""
        if self.standing.joining is not None or self.ballot is not None:
            return True
        return any(member.said is not None and member.said.ballot is not None for member in members)

    def install(self, view: View, promise: int, now: float) -> None:
        """It is the view from here on; `promise`: of the lineage that it goes on."""
        self.standing = Standing(
            view=view,
            ballot=self.standing.ballot,
            promise=max(promise, view.epoch) if self.is_majority(view) else promise,
        )
        self._since = now
        self._held_up = (NOBODY, now)
