"""Failure detection: which members are missing and given up, and which stronger side to join.

A member is given up if for `lag` it is silent, or lacks what all others posted.  Giving up is mutual, and if
members differ, the one with the lower id prevails.  Masters of one data centre stay together: other data
centres give up a member when those masters of its data centre that post have given it up, or, after twice the
time, together with them.

A master that hears a stronger side requests admission there.  The admission of a master that is given up
repeatedly is put off, longer each time: all others have to wait whenever it disappears.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from quadlog.core.cluster_settings import SplitRecovery
from quadlog.core.model import Pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.cluster_settings import ClusterSettings
    from quadlog.core.membership.electorate import Electorate
    from quadlog.core.model import HardState, Post, View
    from quadlog.core.queues.progress import Progress

HoldingUp: TypeAlias = tuple[Pair | None, frozenset[str]]
"""The lowest first pair of all queues, and the members whose queue does not start with it."""

NOBODY: Final[HoldingUp] = (None, frozenset())

STEADY: Final = 30
"""Number of shortest waits after which it is forgotten that a master was given up."""

PUT_OFF_MS: Final = 10_000.0
"""Shortest wait of a flapping master if `lag` is longer: `lag` is infinite if no master is given up for silence."""

MATES_TOO: Final = 2
"""How many times the allowed time may pass until the mates of a member that did not give it up are given up, too."""

ELSEWHERE_MS: Final = 10_000.0
"""How long a member may post in another view if `lag` is longer."""


class FailureDetector:
    """Times at which masters were heard, and the decisions based on them.  Times are steady milliseconds."""

    def __init__(
        self, node: str, electorate: Electorate, *, settings: ClusterSettings, idle: float, put_off: int
    ) -> None:
        """Start before any master was heard; `idle` and `put_off` as of `PostingPace`."""
        self._node: Final = node
        self._electorate: Final = electorate
        self.settings = settings
        """How long a member may be silent, and whether a side without a majority waits."""
        self._idle, self._put_off = idle, put_off
        self.heard_at: dict[str, float] = {}
        """Time at which each other master was last heard, in this view or outside it."""
        self._since: float | None = None
        self._held_up: tuple[HoldingUp, float] = (NOBODY, 0.0)
        self._given_up: dict[str, tuple[int, float]] = {}
        """How often each other master was given up recently, and when last."""
        self._awake_at: float | None = None
        self._stood_still = False
        """True if this master stood still since this view began: the others may have continued without it."""

    @property
    def _lag(self) -> float:
        """Milliseconds for which a member may lack what others have, or take to come into the view."""
        return self.settings.max_peer_lag * 1000

    @property
    def _silence(self) -> float:
        """Milliseconds for which a member may be silent."""
        return self.settings.lag_ms(self._idle)

    @property
    def _shortest(self) -> float:
        return min(self._lag, PUT_OFF_MS)

    def wake(self, now: float) -> None:
        """Note that this master is running.

        If it stood still before, because its process or its machine did, that time does not count as silence of
        the others: their posts were not received meanwhile.
        """
        still = 0.0 if self._awake_at is None else now - self._awake_at
        self._awake_at = now
        if still > self._silence / 2:
            self._stood_still = True
            self.heard_at.update({name: heard + still for name, heard in self.heard_at.items()})
            self._since = None if self._since is None else self._since + still
            self._held_up = (self._held_up[0], self._held_up[1] + still)

    @property
    def awake_at(self) -> float:
        """Time at which this master was seen to run, in milliseconds of the steady clock."""
        return self._awake_at or 0.0

    def begin(self, now: float) -> None:
        """Begin a view: the time for which members may be silent starts now."""
        self._since, self._stood_still = now, False
        self._held_up = (NOBODY, now)

    def on_post(self, post: Post, view: View, now: float) -> None:
        """Note a received post.

        A member that moved on to another view counts as silent in this view.  A member that voted for this
        view and has not installed it gets some more time, one `lag` from the beginning of the view: it may
        have a long queue to receive.
        """
        is_coming = post.ballot == view and now - (self._since or now) <= self._lag
        if post.node not in view.members or post.view == view or is_coming:
            self.heard_at[post.node] = now

    def is_recent(self, name: str, now: float) -> bool:
        """Return whether a master was heard so recently that it is not silent for too long."""
        heard = self.heard_at.get(name)
        return heard is not None and now - heard <= self._silence

    def last_heard(self, view: View) -> dict[str, float]:
        """Return since when each other member is silent: its last post, or the beginning of the view."""
        since = self._since if self._since is not None else self._awake_at
        if since is None:
            return {}
        return {
            name: max(self.heard_at.get(name, since), since) for name in view.members if name != self._node
        }

    def give_up(self, names: set[str], now: float) -> None:
        """Note that these members are given up."""
        for name in names:
            count, last = self._given_up.get(name, (0, now))
            self._given_up[name] = (count + 1 if now - last <= STEADY * self._shortest else 1), now

    def is_put_off(self, name: str, now: float) -> bool:
        """Return whether the admission of a master is put off.

        It is not put off after it was given up for the first time, and later by one, two, four, at most
        `put_off` times the shortest wait.
        """
        count, last = self._given_up.get(name, (0, now))
        return count > 1 and now - last < min(2 ** (count - 2), self._put_off) * self._shortest

    def missing(
        self,
        standing: HardState,
        gone: set[str],
        members: Mapping[str, Progress],
        holding_up: HoldingUp,
        now: float,
    ) -> set[str]:
        """Return the members to give up, permanently in this view; those that lost their disks (`gone`) at once."""
        view = standing.view
        lost = {*standing.given_up, *gone} - {self._node}
        overdue = self._overdue(view, holding_up, members, now)
        for name in overdue:
            mates = [mate for mate in self._mates(name, view) if mate not in overdue]
            if self._node in self._mates(name, view) or all(
                name in _given_up_by(mate, view, members) for mate in mates
            ):
                lost.add(name)
            elif overdue[name] > MATES_TOO:
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
        self, view: View, holding_up: HoldingUp, members: Mapping[str, Progress], now: float
    ) -> dict[str, float]:
        """Return the members that are silent, or lack what all others have posted, for too long.

        For each, by how much: the time as a multiple of the time that is allowed.

        A member that posts in another view never returns to this one.

        While a member of another data centre is silent, no member is given up for a pair that it lacks: the
        pair may come from there, and take longer by way of another data centre.
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
        late = {name: silent / self._silence for name, silent in missing.items()}
        if holding_up[1]:
            centres = self._electorate.centres(view)
            lacking = {centres[name] for name in holding_up[1] if name in centres}
            if len(lacking) == 1 and not self._silent(missing, centres) - lacking:
                lacks = (now - self._held_up[1]) / self._lag
                late |= {name: max(late.get(name, 0.0), lacks) for name in holding_up[1]}
            late.pop(self._node, None)
        return {
            name: times
            for name, times in late.items()
            if times > 1 or (missing.get(name, 0.0) > ELSEWHERE_MS and _is_elsewhere(name, view, members))
        }

    def _silent(self, missing: Mapping[str, float], centres: Mapping[str, str]) -> set[str]:
        """Return the data centres with a member that is silent for more than half of the time that is allowed."""
        return {
            centres[name] for name, late in missing.items() if name in centres and late > self._silence / 2
        }

    def _mates(self, name: str, view: View) -> list[str]:
        """Return the other members of a member's data centre."""
        centres = self._electorate.centres(view)
        centre = centres.get(name)
        return [other for other in view.members if other != name and centres.get(other) == centre]

    def stronger(self, standing: HardState, members: Mapping[str, Progress], now: float) -> View | None:
        """Return the view of the strongest side that is heard, if it is stronger than the own side.

        Where a side without a majority waits, a later majority shows that nothing is agreed in this view any more.

        The members of a side that does not name this master may not be heard.  Then other masters that this
        side left behind report it: their posts name the view to which they request admission.
        """
        view, waits = standing.view, self.settings.split_recovery is SplitRecovery.QUORUM
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
            is_left_behind = waits and said.rank.epoch > standing.promise
            if name in view.members and not self._stood_still and not is_left_behind:
                continue  # it is given up first, so that waiting pairs are agreed in this view
            if self._leaves(said):
                continue
            best, found = said.rank, theirs
        return found

    def _leaves(self, said: Post) -> bool:
        """Return whether the sender admits no master: it and all members that it has not given up were removed."""
        view = said.view
        if said.joining is not None or not said.given_up:
            return False
        peers = {peer.node for peer in self._electorate.peers(view)}
        return not any(name in peers for name in view.members if name not in said.given_up)


def _is_elsewhere(name: str, view: View, members: Mapping[str, Progress]) -> bool:
    said = member.said if (member := members.get(name)) else None
    return said is not None and view not in (said.view, said.ballot)


def _given_up_by(name: str, view: View, members: Mapping[str, Progress]) -> tuple[str, ...]:
    member = members.get(name)
    if member is None or member.said is None or member.said.view != view:
        return ()
    return member.said.given_up
