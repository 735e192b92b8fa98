"""Who is missing, and who is stronger: giving up, and joining.

A member is given up that is silent, or lacks what all others posted, for `lag`.  Giving up is mutual, and where
opinions differ the lower id is believed.  Masters of one data centre stay together: from outside a member is given up
when those of its data centre that speak have given it up, or, after twice the time, together with them.

Whoever hears a stronger side asks to be let in there.  One that is given up again and again is put off, for longer each
time: all others wait whenever it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from quadlog.core.model import Pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.membership.electorate import Electorate
    from quadlog.core.model import Post, Standing, View
    from quadlog.core.queues.member import Member

HoldingUp: TypeAlias = tuple[Pair | None, frozenset[str]]
"""What heads the queues of all others, and the members that have not posted it."""

NOBODY: Final[HoldingUp] = (None, frozenset())

STEADY: Final = 30
"""How many times as long as the shortest wait after one was given up that is forgotten."""

PUT_OFF_MS: Final = 10_000.0
"""The shortest wait of one that flaps, where `lag` is longer: it is for ever where nobody is given up for silence."""

ELSEWHERE_MS: Final = 10_000.0
"""How long a member may speak in another view, where `lag` is longer."""


class Presence:
    """Who was heard when, and what follows from that.  Times are steady milliseconds."""

    def __init__(self, node: str, electorate: Electorate, *, lag: float, put_off: int) -> None:
        """Nobody was heard.

        Args:
            node: this master.
            electorate: where the others are.
            lag: how long a member may be silent.
            put_off: how many times that, or `PUT_OFF_MS`, one that flaps is put off at the most.

        """
        self._node: Final = node
        self._electorate: Final = electorate
        self._lag: Final = lag
        self._put_off: Final = put_off
        self._shortest: Final = min(lag, PUT_OFF_MS)
        self.heard_at: dict[str, float] = {}
        """When each other master was heard last, in this view or outside it."""
        self._since: float | None = None
        self._held_up: tuple[HoldingUp, float] = (NOBODY, 0.0)
        self._given_up: dict[str, tuple[int, float]] = {}
        """How often others were given up lately, and when last."""
        self._awake_at: float | None = None
        self._stood_still = False
        """Since this view began: the others may have gone on without this master."""

    def wake(self, now: float) -> None:
        """This master does something.

        If it stood still before, because its process or its machine did, the others' time stood still, too: it has not
        listened.
        """
        still = 0.0 if self._awake_at is None else now - self._awake_at
        self._awake_at = now
        if still > self._lag / 2:
            self._stood_still = True
            self.heard_at.update({name: heard + still for name, heard in self.heard_at.items()})
            self._since = None if self._since is None else self._since + still
            self._held_up = (self._held_up[0], self._held_up[1] + still)

    def begin(self, now: float) -> None:
        """A view begins: all have their time from here on."""
        self._since, self._stood_still = now, False
        self._held_up = (NOBODY, now)

    def hear(self, post: Post, view: View, now: float) -> None:
        """A post came to this view.

        A member that moved on to another view is silent to this one.  One that voted for it and has not
        installed it has some more time: it may have a long queue to hear first.
        """
        is_coming = post.ballot == view and now - (self._since or now) <= self._lag
        if post.node not in view.members or post.view == view or is_coming:
            self.heard_at[post.node] = now

    def is_recent(self, name: str, now: float) -> bool:
        """Whether it was heard within `lag`."""
        heard = self.heard_at.get(name)
        return heard is not None and now - heard <= self._lag

    def give_up(self, names: set[str], now: float) -> None:
        """These are given up."""
        for name in names:
            count, last = self._given_up.get(name, (0, now))
            self._given_up[name] = (count + 1 if now - last <= STEADY * self._shortest else 1), now

    def is_put_off(self, name: str, now: float) -> bool:
        """Whether it is not let in yet: not the first time, then once, twice, `put_off` times as long."""
        count, last = self._given_up.get(name, (0, now))
        return count > 1 and now - last < min(2 ** (count - 2), self._put_off) * self._shortest

    def missing(
        self,
        standing: Standing,
        gone: set[str],
        members: Mapping[str, Member],
        holding_up: HoldingUp,
        now: float,
    ) -> set[str]:
        """Who was given up, and who is to be.  For good, in this view; at once, if it lost its disk (`gone`)."""
        view = standing.view
        lost = {*standing.given_up, *gone} - {self._node}
        overdue = self._overdue(view, holding_up, members, now)
        for name in overdue:
            mates = [mate for mate in self._mates(name, view) if mate not in overdue]
            if self._node in self._mates(name, view) or all(
                name in _given_up_by(mate, view, members) for mate in mates
            ):
                lost.add(name)
            elif overdue[name] > 2 * self._lag:
                lost |= {name, *mates}
        for name in view.members:
            theirs = _given_up_by(name, view, members) if name != self._node and name not in lost else ()
            if not theirs:
                continue
            if self._node in theirs:
                lost.add(name)  # giving up is mutual
            lost |= {who for who in theirs if who != self._node and name < who}
        return lost

    def _overdue(
        self, view: View, holding_up: HoldingUp, members: Mapping[str, Member], now: float
    ) -> dict[str, float]:
        """Members that are silent for too long, or speak and lack what all others have posted; and for how long.

        Who speaks in another view never comes back to this one.

        While somebody else is silent nobody is blamed for what is lacking: it may have come from there, and take its
        time by another way.
        """
        if self._since is None:
            self._since = now
        since = self._since
        if holding_up != self._held_up[0]:
            self._held_up = (holding_up, now)
        missing = {
            name: now - max(self.heard_at.get(name, since), since)
            for name in view.members
            if name != self._node
        }
        if holding_up[1]:
            centres = self._electorate.centres(view)
            lacking = {centres[name] for name in holding_up[1] if name in centres}
            if len(lacking) == 1 and not self._silent(missing, centres) - lacking:
                for name in holding_up[1]:
                    missing[name] = max(missing.get(name, 0.0), now - self._held_up[1])
            missing.pop(self._node, None)
        return {
            name: late
            for name, late in missing.items()
            if late > self._lag or (late > ELSEWHERE_MS and _is_elsewhere(name, view, members))
        }

    def _silent(self, missing: Mapping[str, float], centres: Mapping[str, str]) -> set[str]:
        """Data centres of which a member is silent for a while."""
        return {centres[name] for name, late in missing.items() if name in centres and late > self._lag / 2}

    def _mates(self, name: str, view: View) -> list[str]:
        """The other members of its data centre."""
        centres = self._electorate.centres(view)
        centre = centres.get(name)
        return [other for other in view.members if other != name and centres.get(other) == centre]

    def stronger(self, standing: Standing, members: Mapping[str, Member], now: float) -> View | None:
        """The view of the strongest side that is heard, if it is stronger than this one.

        Of a side that does not name this master its own members may not be heard: who was left behind by it as well
        tells that it asks to be let in there.
        """
        view = standing.view
        best, found = standing.rank, None
        for name, member in members.items():
            said = member.said
            if said is None or said.rank <= best or not self.is_recent(name, now):
                continue
            theirs = said.joining or said.view
            if said.joining is not None and self._node in self._electorate.centres(theirs):
                continue
            if theirs == view or self._node in theirs.members:
                continue
            if name in view.members and not self._stood_still:
                continue  # it is given up first: then what waits here is agreed here
            if self._leaves(said):
                continue
            best, found = said.rank, theirs
        return found

    def _leaves(self, said: Post) -> bool:
        """Whether its sender lets nobody in: it was removed, and so was whoever of its view it has not given up."""
        view = said.view
        if said.joining is not None or not said.given_up:
            return False
        peers = {peer.node for peer in self._electorate.peers(view)}
        return not any(name in peers for name in view.members if name not in said.given_up)


def _is_elsewhere(name: str, view: View, members: Mapping[str, Member]) -> bool:
    said = member.said if (member := members.get(name)) else None
    return said is not None and view not in (said.view, said.ballot)


def _given_up_by(name: str, view: View, members: Mapping[str, Member]) -> tuple[str, ...]:
    member = members.get(name)
    if member is None or member.said is None or member.said.view != view:
        return ()
    return member.said.given_up
