"""A model of synchronous transactions that the effect record of the evaluating data centre decides.

A synchronous transaction is ordered like any other.  At its place in the log, the data centre that evaluates
commits it once a quorum of data centres has the entry, or rolls it back after a time-out.  No entry of the
log carries that decision: the record in the effects topic does.  So two evaluators that follow one another
may decide differently, and the rules below say when a decision may be shown to a reader or a client.

The masters are those of the weather, with the real core.  `EffectCarrier` adds one effects topic for each
data centre, which outlives the disks of its masters, and asserts that nobody shows two outcomes of one
transaction.  What a data centre shows, its readers see, and its clients are answered.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum, Flag, auto
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.model import LogPosition, TransactionKind
from tests.support.agreement.cluster import Member
from tests.support.agreement.weather import Weather
from tests.support.agreement.world import USUAL, World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.messages import AgreementLimits
    from quadlog.core.model import HardState, Peer, View
    from quadlog.core.queues.progress import Progress
    from tests.support.agreement.cluster import Logged

    Peers = tuple[Peer, ...]


class Rule(Flag):
    """What is required of the data centres."""

    CONFIRMED = auto()
    """An outcome is shown once max(quorum, majority) data centres have it in this term (b2; without: b1)."""
    ALL_READ = auto()
    """A term begins only once the home has read the effects topic of each data centre of its view."""
    FENCED = auto()
    """The home reads a topic only after a master of the view has closed it to writers of earlier views."""
    BY_PROMISE = auto()
    """A topic prefers the writers of the later (promise, epoch), and not those of the later epoch."""
    BY_TERM = auto()
    """Of several histories, the home takes the one with the most effects of the latest term of a majority."""
    LOG_FIRST = auto()
    """The home waits until its own log has the entries of those effects, instead of dropping them."""
    DECIDE_AGAIN = auto()
    """A home with a majority drops the effects from the first suspended one on, and decides again."""
    CHANGES_WAIT = auto()
    """A change of the peers is decided once a majority of both sets has the term of the view with both."""


B2 = ~Rule(0)
B1 = B2 & ~Rule.CONFIRMED


class Outcome(Enum):
    """What became of an entry."""

    APPLIED = auto()
    COMMITTED = auto()
    ROLLED_BACK = auto()
    SUSPENDED = auto()


DECIDED = (Outcome.COMMITTED, Outcome.ROLLED_BACK)


class Effect(NamedTuple):
    """The record of one entry."""

    point: LogPosition
    id: bytes
    outcome: Outcome
    view: View
    """The view in which it was evaluated."""
    duty: str = ""
    """The data centre that evaluates the entries after this one, if it is in that view."""


@dataclass
class EffectsTopic:
    """What an effects topic says, all rewinds made: one effect for each entry, from the first one on."""

    effects: list[Effect] = field(default_factory=list)
    term: View | None = None
    """The last view whose handover it has: up to its end it is the same as the home's in that term."""
    writer: View | None = None
    """The view whose masters may write; what others write is void."""
    order: tuple[int, int] = (0, 0)
    """Order of that view."""

    def claim(self, view: View, order: tuple[int, int]) -> bool:
        """Close it to the writers of earlier views; return whether masters of this view may write."""
        if self.writer != view and order > self.order:
            self.writer, self.order = view, order
        return self.writer == view

    def follow(self, other: EffectsTopic, count: int) -> None:
        """Copy some effects of the other topic; drop the own ones first from where they differ."""
        if self.term != other.term:
            self.effects[fork(self.effects, other.effects) :] = []
            self.term = other.term
        at = len(self.effects)
        self.effects += other.effects[at : at + count]


def fork(own: Sequence[object], others: Sequence[object]) -> int:
    """Return how many items two histories have in common from the beginning."""
    pairs = enumerate(zip(own, others, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(own), len(others)))


class GatedMember(Member):
    """A master whose core asks `may_change` before it decides a change of the peers."""

    may_change: Callable[[Member, View], bool] = staticmethod(lambda _, __: True)

    def _core(self) -> Agreement:
        core = super()._core()
        election = core._views.view_election
        electoral = election._electoral

        def gated(standing: HardState, members: Mapping[str, Progress]) -> tuple[Peers, Peers]:
            view, (peers, before) = standing.view, electoral(standing, members)
            is_decision = bool(view.before) and (peers, before) == (view.peers, ())
            return peers, before if not is_decision or self.may_change(self, view) else view.before

        setattr(election, "_electoral", gated)  # noqa: B010 - mypy does not allow to assign to a method
        return core


class GatedWorld(World):
    """A world of such masters."""

    member_of = GatedMember


class EffectCarrier(Weather):
    """One run of the weather, with effects."""

    world_of = GatedWorld

    def __init__(self, seed: int, *, rules: Rule = B2, limits: AgreementLimits = USUAL) -> None:
        """All chance of the effects is of its own, so that the masters do what they do without effects."""
        super().__init__(seed, limits=limits)
        self.rules = rules
        self.chance = random.Random(f"{seed}/effects")
        self.centres = self.links.centres
        self.topics = {dc: EffectsTopic() for dc in self.centres}
        self.shown: dict[bytes, tuple[Outcome, str]] = {}
        """By transaction: which outcome was shown, and by whom first."""
        self.story: list[str] = []
        self._share = self.chance.choice((0.1, 0.4, 0.9))
        self._moving = self.chance.choice((0.0, 0.05))
        self._quorum = self._drawn_quorum()
        self._patience = self.lag * self.chance.choice((0.1, 0.5, 1.5, 4.0))
        self._pace = self.chance.choice((0.2, 0.5, 1.0, 3.0))
        """How many masters do something about effects with each event."""
        self._said: dict[tuple[bytes, str, int], tuple[View | None, int]] = {}
        """By incarnation, sender and sequence of a post: term and length of the topic where it was sent."""
        self._read: dict[bytes, set[str]] = {}
        """By view: whose topics its home has read."""
        self._starts: dict[bytes, int] = {}
        """By view: with how many effects its term began."""
        self._seen: dict[tuple[str, bytes], float] = {}
        """By data centre and chain of an entry: when it was first seen there."""
        self._looked_at: dict[tuple[str, bytes], int] = {}
        """By data centre and term: how many effects were shown."""
        for member in self.members:
            assert isinstance(member, GatedMember)
            member.may_change = self._may_change

    # --- the world beside ---------------------------------------------------------------------------

    def step(self) -> None:
        """One event of the weather, then some of the effects."""
        super().step()
        if self.chance.random() < 0.005:
            self._quorum = self._drawn_quorum()
        for _ in range(int(self._pace + self.chance.random())):
            self._act_as(self.chance.choice(self.members))

    def _round(self) -> None:
        super()._round()
        for member in self.members * 2:
            if self.chance.random() < self._pace:
                self._act_as(member)

    def _clear(self) -> None:
        self._pace = 1.0  # a slow one would need more rounds than the masters do
        super()._clear()

    def _play(self, what: str, member: Member, other: str = "", number: int = 0) -> None:
        before = len(member.posts)
        super()._play(what, member, other, number)
        for post in member.posts[before:]:
            topic = self.topics[member.dc]
            self._said[post.incarnation, post.node, post.sequence] = topic.term, len(topic.effects)

    def _drawn_quorum(self) -> int:
        count = len(self.centres)
        return self.chance.choice((count // 2 + 1, count // 2 + 1, self.chance.randint(1, count)))

    def _is_stopped(self, member: Member) -> bool:
        return self._stopped.get(member.name, 0.0) > self.at

    def _is_synchronous(self, entry: Logged) -> bool:
        return entry.transaction.kind is TransactionKind.TX and entry.pair.id[0] < 256 * self._share

    def _centres_of(self, view: View) -> set[str]:
        return {self.masters[name] for name in view.members}

    def _leads(self, member: Member, view: View) -> bool:
        """Whether it is the first of its data centre's running masters in its view, which is saved."""
        saved = member.disk.standing
        mates = (m for m in self.members if m.dc == member.dc and m.core.view == view)
        return (
            member.name in view.members
            and (saved is None or saved.view == view)
            and next((mate for mate in mates if not self._is_stopped(mate)), None) is member
        )

    # --- what a leading master does -----------------------------------------------------------------

    def _act_as(self, member: Member) -> None:
        """Take over, copy or evaluate some effects, then show what may be shown."""
        view, topic = member.core.view, self.topics[member.dc]
        if not self._leads(member, view):
            return
        promise = member.core.standing.promise if Rule.BY_PROMISE in self.rules else 0
        if not topic.claim(view, (promise, view.epoch)):
            return
        duty = self._duty(topic, view)
        if duty == member.dc and topic.term == view:
            self._evaluate(member, topic, view)
        elif duty == member.dc:
            self._begin(member, topic, view)
        else:
            source = duty if view.home == member.dc else view.home
            if self.topics[source].term == view and self._hears(member, source):
                topic.follow(self.topics[source], self.chance.randint(0, 4))
        if topic.term == view and self.world.is_majority(view):
            self._show_some(member, topic, view)

    def _duty(self, topic: EffectsTopic, view: View) -> str:
        """Which data centre evaluates in this view after the end of a topic."""
        if topic.term == view:
            for effect in reversed(topic.effects):
                if effect.view != view:
                    break
                if effect.duty in self._centres_of(view) - self.world.witnesses:
                    return effect.duty
        return view.home

    def _hears(self, member: Member, dc: str) -> bool:
        return member.dc == dc or (self.links.deaf != member.name and self.links.is_heard(dc, member.dc))

    def _begin(self, member: Member, topic: EffectsTopic, view: View) -> None:
        """Begin the term of a view at its home: take over the best history that fits the log."""
        centres, log = self._centres_of(view), member.disk.log
        read = self._read.setdefault(view.id, set())
        for dc in centres:
            if self._hears(member, dc) and (Rule.FENCED not in self.rules or self.topics[dc].writer == view):
                read.add(dc)
        if Rule.ALL_READ in self.rules and read != centres:
            return
        found = [self.topics[dc].effects for dc in sorted(read | {member.dc})]
        best = max(found, key=lambda effects: self._weight(effects, log))
        if Rule.LOG_FIRST in self.rules and len(log) < self._term_of(best)[1]:
            return
        kept = fitting(best, log)
        if Rule.DECIDE_AGAIN in self.rules and self.world.is_majority(view):
            kept = next((at for at, e in enumerate(best[:kept]) if e.outcome is Outcome.SUSPENDED), kept)
        self._tell(f"{member.name} begins term {view.epoch} with {kept} effects, and {view.members}")
        topic.effects, topic.term, self._starts[view.id] = best[:kept], view, kept

    def _weight(self, effects: Sequence[Effect], log: Sequence[Logged]) -> tuple[int, ...]:
        term = self._term_of(effects) if Rule.BY_TERM in self.rules else ()
        return *term, fitting(effects, log)

    def _term_of(self, effects: Sequence[Effect]) -> tuple[int, int]:
        """The epoch of the last view with a majority that evaluated some, and the index of its last one."""
        found = (e for e in reversed(effects) if self.world.is_majority(e.view))
        return next(((e.view.epoch, e.point.index) for e in found), (0, 0))

    def _evaluate(self, member: Member, topic: EffectsTopic, view: View) -> None:
        """Add effects of the next entries, up to the first one that is not decided."""
        waiting = member.disk.log[len(topic.effects) :]
        for entry in waiting:
            self._seen.setdefault((member.dc, entry.point.chain), self.at)
        for entry in waiting[: self.chance.randint(1, 4)]:
            outcome = self._outcome(member, entry, view)
            if outcome is None:
                return
            if outcome is not Outcome.APPLIED:
                self._tell(f"{member.name} decides {name_of(entry.pair.id)}: {outcome.name}")
            duty = self.chance.choice(self.centres) if self.chance.random() < self._moving else ""
            topic.effects.append(Effect(entry.point, entry.pair.id, outcome, view, duty))
            if duty:
                return

    def _outcome(self, member: Member, entry: Logged, view: View) -> Outcome | None:
        """What becomes of an entry; None if that is not decided yet."""
        if not self._is_synchronous(entry):
            return Outcome.APPLIED
        if not self.world.is_majority(view):
            return Outcome.SUSPENDED if self.world.may_agree(member) else None
        have = {member.dc}
        for name in view.members:
            known = member.core.members.get(name)
            said = known.said if known is not None else None
            if said is not None and said.view == view and said.base.index >= entry.point.index:
                have.add(self.masters[name])
        if len(have) >= self._quorum:
            return Outcome.COMMITTED
        since = self._seen[member.dc, entry.point.chain]
        return Outcome.ROLLED_BACK if self.at - since > self._patience else None

    def _show_some(self, member: Member, topic: EffectsTopic, view: View) -> None:
        """Answer clients and readers by all outcomes that may be shown."""
        known = len(topic.effects)
        if Rule.CONFIRMED in self.rules:
            known = self._confirmed(member, topic, view)
        at = self._looked_at.get((member.dc, view.id), 0)
        for effect in topic.effects[at:known]:
            if effect.outcome in DECIDED:
                self._show(member.name, effect)
        self._looked_at[member.dc, view.id] = max(at, known)

    def _may_change(self, member: Member, view: View) -> bool:
        ends, start = self._ends(member, view), self._starts.get(view.id, 0)
        having = {dc for dc, end in ends.items() if end >= start}
        return Rule.CHANGES_WAIT not in self.rules or self._are_most(having, view)

    def _confirmed(self, member: Member, topic: EffectsTopic, view: View) -> int:
        """How many effects are in the topics of a quorum, and of a majority, by the posts of this view."""
        ends = self._ends(member, view)
        for end in sorted(ends.values(), reverse=True):
            having = {dc for dc in ends if ends[dc] >= end}
            if len(having) >= self._quorum and self._are_most(having, view):
                return min(end, len(topic.effects))
        return 0

    def _ends(self, member: Member, view: View) -> dict[str, int]:
        """How many effects each topic has that is in the term of a view, as far as the member knows."""
        topic = self.topics[member.dc]
        ends = {member.dc: len(topic.effects)} if topic.term == view else {}
        for name in view.members:
            known = member.core.members.get(name)
            if known is not None and known.said is not None and known.said.view == view:
                term, end = self._said[known.incarnation, name, known.said.sequence]
                if term == view:
                    ends[self.masters[name]] = max(end, ends.get(self.masters[name], 0))
        return ends

    def _are_most(self, centres: set[str], view: View) -> bool:
        """Whether these are more than half of the data centres, also of those before an undecided change."""
        known = [view.peers or self.world.peers, *([view.before] if view.before else [])]
        voting = [{peer.dc for peer in peers} for peers in known]
        return all(2 * len(centres & dcs) > len(dcs) for dcs in voting)

    # --- what must hold -----------------------------------------------------------------------------

    def _show(self, by: str, effect: Effect) -> None:
        now = f"{by} shows {name_of(effect.id)} {effect.outcome.name}, which {effect.view.epoch} decided"
        outcome, first = self.shown.setdefault(effect.id, (effect.outcome, now))
        if first is now:
            self._tell(now)
        assert outcome is effect.outcome, f"{first}; {now}"

    def _tell(self, what: str) -> None:
        self.story.append(f"{self.at:9.1f} {what}")

    def _is_done(self) -> bool:
        return super()._is_done() and not self._open()

    def _open(self) -> str:
        """Which data centre of the last view lacks effects."""
        first = self._peers_of(self.members)[0]
        view, end = first.core.view, len(first.disk.log)
        topics = [(dc, self.topics[dc]) for dc in sorted(self._centres_of(view))]
        lacking = [dc for dc, topic in topics if topic.term != view or len(topic.effects) < end]
        return f"{lacking} lack effects of {view.epoch}, of {end} entries" if lacking else ""

    def _check_the_end(self) -> None:
        """All have one history, in which all is decided, and as it was shown."""
        assert not self._open(), self._open()
        super()._check_the_end()
        first = self._peers_of(self.members)[0]
        effects = self.topics[first.core.view.home].effects
        for dc in self._centres_of(first.core.view):
            assert self.topics[dc].effects == effects, f"{dc} has another history"
        for effect, entry in zip(effects, first.disk.log, strict=True):
            assert effect.point == entry.point, f"{effect} is of another entry"
            assert (effect.outcome in DECIDED) == self._is_synchronous(entry), f"{effect} is not decided"
        last = {effect.id: effect.outcome for effect in effects}
        for name, (outcome, first_shown) in self.shown.items():
            assert last.get(name) is outcome, f"{first_shown}, and in the end it is {last.get(name)}"


def fitting(effects: Sequence[Effect], log: Sequence[Logged]) -> int:
    """Return how many effects, from the beginning, are of the entries of a log."""
    return fork([effect.point for effect in effects], [entry.point for entry in log])


def name_of(transaction: bytes) -> str:
    """Return a short name of a transaction."""
    return f"t:{transaction[:3].hex()}"
