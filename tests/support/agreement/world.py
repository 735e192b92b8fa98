"""Masters of several data centres, and each thing that may happen to them, so that a story can be told again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import isinf
from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog.core.cluster_settings import ClusterSettings, SplitApproval, SplitRecovery
from quadlog.core.membership.electorate import FORCED
from quadlog.core.messages import AgreementLimits, PostingPace
from quadlog.core.model import Peer
from tests.support.agreement.cluster import CrashError, Member
from tests.support.agreement.limbo_safety import Electing
from tests.support.agreement.safety import Safety
from tests.support.agreement.witnesses import Homes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from quadlog.core.model import Post, Transaction, View

TINY = AgreementLimits(post=3, turn=2, snapshot_every=7, near=2)
"""Nearly every post leaves pairs out, ADD stops all the time, and snapshots are common."""
USUAL = AgreementLimits()


class Event(NamedTuple):
    """One thing that happens to one master."""

    at: float
    what: str
    """submit, ask, acquire, turn, restart, lose, void, hear, follow, clock or full."""
    member: str
    other: str = ""
    """Whose post or log it is."""
    number: int = 0
    """Of the transaction, of the post, of entries to read; effects done before it dies; milliseconds of the clock."""

    def __str__(self) -> str:
        """As a line of a story."""
        said = {
            "submit": f"is given t{self.number}",
            "ask": f"is asked by t{self.number} to change {self.other}",
            "acquire": f"acquires t{self.number}",
            "turn": "takes its turn"
            if self.number < 0
            else f"takes its turn and dies at effect {self.number}",
            "restart": "dies and starts again",
            "lose": "loses its disk and starts again",
            "void": f"sees that {self.other}'s topic of posts went back",
            "hear": f"hears post {self.number} of {self.other}",
            "follow": f"reads {self.number} entries of {self.other} beside",
            "wake": "looks around",
            "full": f"has an effects topic that takes {'no' if self.number else ''} records",
            "clock": f"has a clock that is wrong by {self.number} ms",
        }
        return f"{self.at:9.1f} {self.member} {said[self.what]}"


PATIENT_IDLE_MS: Final = 250.0
"""Silence of who has nothing to say, where nobody is given up for it; else a quarter of `lag`, or an eighth."""


class World:
    """All that is there, without chance: what happens is told it."""

    member_of: type[Member] = Member

    def __init__(
        self,
        masters: Mapping[str, str],
        *,
        limits: AgreementLimits,
        lag: float,
        newcomers: int = 0,
        put_off: int = 0,
        witnesses: frozenset[str] = frozenset(),
        recovery: SplitRecovery = SplitRecovery.SMART,
        quorum: str = "N/2 + 1",
        time_out: float = 5000.0,
        approval: SplitApproval = SplitApproval.AUTO,
    ) -> None:
        """Nothing has happened.

        Args:
            masters: the data centre of each.
            limits: how much at once.
            lag: silence after which a member is given up.
            newcomers: so many masters, the last ones, are no peers yet.
            put_off: how many times `lag` one that flaps is put off at the most.
            witnesses: data centres that evaluate nothing.
            recovery: what the sides of a split do.
            quorum: formula of the data centres that must have a synchronous transaction.
            time_out: milliseconds after which it is rolled back.
            approval: who decides that a side gives way.

        """
        self.witnesses, self.recovery = witnesses, recovery
        self.masters, self.limits, self.lag = dict(masters), limits, lag
        self.newcomers, self.put_off = newcomers, put_off
        names = list(masters)
        peers = {name: masters[name] for name in names[: len(names) - newcomers]}
        self.peers = tuple(sorted(Peer(name, dc) for name, dc in peers.items()))
        """Of the settings."""
        kafka: dict[str, dict[tuple[bytes, bytes], Transaction]] = {dc: {} for dc in masters.values()}
        rounds = 8 if recovery is SplitRecovery.NONE else 4
        pace = PostingPace(idle=PATIENT_IDLE_MS if isinf(lag) else lag / rounds, put_off=put_off)
        settings = ClusterSettings(
            split_recovery=recovery,
            max_peer_lag=lag / 1000,
            synchro_quorum=quorum,
            synchro_timeout=time_out / 1000,
            split_approval=approval,
        )
        self.members = {
            name: self.member_of(
                name,
                peers | {name: dc},
                limits=limits,
                settings=settings,
                pace=pace,
                kafka=kafka[dc],
                joins=name not in peers,
                witnesses=witnesses,
            )
            for name, dc in masters.items()
        }
        self.is_mixed = False
        """Whether what a split does was changed."""
        self.left: set[str] = set()
        """Whom an operator named as all that is left."""
        self.homes = Homes(self.masters, witnesses)
        self._majorities: dict[View, bool] = {}
        self.safety = Safety(limits, self.is_majority, self.homes, is_only=self.is_only)
        self.transactions: list[Transaction] = []
        self.told: list[Event] = []
        """All that happened."""
        self._heard = 0
        for member in self.members.values():
            self.watch(member)

    def watch(self, member: Member) -> None:
        """Check all that it saves."""
        member.saved = lambda save, lost: self.safety.saved(member, save, lost)

    def is_majority(self, view: View) -> bool:
        """Whether those in it that are not blank are more than half of the data centres, by all that it names."""
        if view not in self._majorities:  # asked with every entry
            shares = self._shares(view, set(view.members) - view.blank)
            self._majorities[view] = all(share > Fraction(1, 2) for share in shares)
        return self._majorities[view]

    def may_agree(self, member: Member) -> bool:
        """Whether those in its view may agree on anything, by the settings as it knows them."""
        recovery = member.core.cluster().settings.split_recovery if self.is_mixed else self.recovery
        return recovery is not SplitRecovery.QUORUM or self.is_majority(member.core.view)

    def is_half(self, view: View) -> bool:
        """Whether all of its members count, and are no majority, and nobody else is one."""
        shares = self._shares(view, set(view.members))
        return not view.blank and not self.is_majority(view) and min(shares) >= Fraction(1, 2)

    def is_only(self, view: View) -> bool | None:
        """Whether a view may be the one that makes history; None where there may be several, or an operator erred."""
        is_one = self.recovery is SplitRecovery.QUORUM and not self.is_mixed and not self.left
        return self.is_majority(view) if is_one else None

    def names_of(self, view: View) -> set[str]:
        """Who may be a member, or might before an undecided change."""
        return {peer.node for peer in (*(view.peers or self.peers), *view.before)}

    def _shares(self, view: View, names: Collection[str]) -> list[Fraction]:
        """Which part of all data centres these are, by what the view says of the peers, and of those before."""
        known = [view.peers or self.peers, *([view.before] if view.before else [])]
        return [_share(peers, names) for peers in known]

    def is_blank(self, member: Member) -> bool:
        """Whether it lost its disk, and what it saved since does not say that it was let in where half of all vouch."""
        if not member.losses and not member.joins:
            return False
        view = member.disk.standing.view if member.disk.standing is not None else None
        return view is None or (
            min(self._shares(view, set(view.members) - view.blank)) < Fraction(1, 2)
            and (not view.members or member.name in view.blank)
        )

    def may_lose_disk(self, member: Member) -> bool:
        """Whether without it at least half of the data centres remember, by whatever peers anybody knows.

        So no majority is blank at once, and who is counts as blank until it was let in.  Those who were taken for lost
        may not know yet, and would vouch for one of those that are left.
        """
        if member.name in self.left:
            return False
        others = [one.name for one in self.members.values() if one is not member and not self.is_blank(one)]
        return all(_share(peers, others) >= Fraction(1, 2) for peers in self._known_peers())

    def _known_peers(self) -> set[tuple[Peer, ...]]:
        """All that anybody takes for the peers, or may soon."""
        known = {self.peers}
        for member in self.members.values():
            for standing in (member.disk.standing, member.core.standing):
                if standing is not None:
                    views = [standing.view, standing.ballot, standing.joining]
                    known |= {peers for view in views if view for peers in (view.peers, view.before)}
                    known |= {*standing.changes}
        return known - {()}

    def play(self, event: Event) -> None:
        """Let it happen, and check what came of it; what cannot happen does not."""
        self.told.append(event)
        member = self.members[event.member]
        getattr(self, f"_{event.what}")(member, event)
        self.safety.added(member, self._post_of(event))

    def _post_of(self, event: Event) -> Post | None:
        """What is heard with it."""
        if event.what != "hear" or event.number >= len(self.members[event.other].posts):
            return None
        return self.members[event.other].posts[event.number]

    def _void(self, member: Member, event: Event) -> None:
        """It heard an incarnation that lost its disk, and not the one that came after it."""
        lost, known = self.members[event.other], member.core.members.get(event.other)
        if known is not None and known.incarnation < lost.incarnation:
            member.void(event.other, known.incarnation, event.at)

    def _submit(self, member: Member, event: Event) -> None:
        if event.number < len(self.transactions):
            transaction = self.transactions[event.number]
            self.safety.asked(member, transaction)
            before = member.core.queue.pairs(transaction.id)
            member.submit(transaction, event.at)
            after = member.core.queue.pairs(transaction.id)
            self.safety.submitted(member, [pair for pair in after if pair not in before])

    def _ask(self, member: Member, event: Event) -> None:
        """An operator asks to add or to remove a peer."""
        if event.number < len(self.transactions):
            transaction = self.transactions[event.number]
            self.left |= {*transaction.options.get(FORCED, "").split()}
            self.safety.asked(member, transaction)
            member.submit(transaction, event.at)

    def _acquire(self, member: Member, event: Event) -> None:
        transaction = self.transactions[event.number]
        if any(transaction.key in other.kafka for other in self.members.values()):
            member.acquire(transaction, event.at)

    def _turn(self, member: Member, event: Event) -> None:
        left = event.number

        def fail(_: str) -> None:
            nonlocal left
            left -= 1
            if event.number >= 0 and left < 0:
                raise CrashError

        said, electing = len(member.posts), Electing.of(member)
        try:
            member.turn(event.at, fail=fail)
        except CrashError:
            self.restart(member, event.at)
        for post in member.posts[said:]:
            self.safety.posted(member, post)
        self.safety.kept(member)
        self.safety.limbo.turned(member, self.members.values(), electing)
        self.safety.reads.turned(member)

    def _restart(self, member: Member, event: Event) -> None:
        self.restart(member, event.at)
        self.safety.kept(member)

    def _lose(self, member: Member, event: Event) -> None:
        if self.may_lose_disk(member):
            member.lose_disk(event.at)

    def restart(self, member: Member, at: float) -> None:
        """Its process dies and starts again."""
        member.restart(at)

    def _wake(self, member: Member, event: Event) -> None:
        member.wake(event.at)

    def _hear(self, member: Member, event: Event) -> None:
        sender = self.members[event.other]
        if event.number >= len(sender.posts):
            return
        member.hear(sender.posts[event.number], event.at)
        self._heard += 1
        if self._heard % 8 == 0:
            self.safety.understood(member, sender)

    def _follow(self, member: Member, event: Event) -> None:
        member.follow(self.members[event.other], event.number, event.at)

    def _full(self, member: Member, event: Event) -> None:
        status = replace(member.core._post_builder.status, full=bool(event.number))
        member.core.step(status, member.now(event.at))

    def _clock(self, member: Member, event: Event) -> None:
        member.skew = event.number


def _share(peers: tuple[Peer, ...], names: Collection[str]) -> Fraction:
    """Which part of all data centres these are; each counts with the share of its masters."""
    sizes = Counter(peer.dc for peer in peers)
    counted = sum((Fraction(1, sizes[peer.dc]) for peer in peers if peer.node in names), Fraction(0))
    return counted / len(sizes)
