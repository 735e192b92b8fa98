"""What must hold of synchronous transactions, whatever the weather: see `weather`.

Who is in a view that holds a majority acts on the first decision of its log on a transaction: it answers the client,
and shows the effect, or that there is none.  Nobody ever acts otherwise, and the log says the same in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from quadlog.core.model import TransactionKind
from quadlog.core.quorum import quorum_of
from quadlog.core.synchronous import decision_in, is_synchronous

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from quadlog.core.model import View
    from quadlog.core.synchronous import Decision
    from tests.support.agreement.cluster import Logged, Member


class Decided(NamedTuple):
    """What a log decides of a transaction."""

    kind: TransactionKind
    at: int
    """Of the transaction."""


class Electing(NamedTuple):
    """What a quorum depends on, as one master knows it."""

    formula: str
    centres: int
    """Number of data centres with a vote."""

    @classmethod
    def of(cls, member: Member) -> Electing:
        return cls(member.core.settings.synchro_quorum, len({peer.dc for peer in member.core.peers}))


class LimboSafety:
    """Decisions do not turn, and none is proposed without its reason."""

    def __init__(self, is_majority: Callable[[View], bool]) -> None:
        """Nothing has happened."""
        self._is_majority = is_majority
        self.acted: Final[dict[bytes, Decided]] = {}
        """By transaction what somebody acted on."""
        self.committed = 0
        """Index of the last one that somebody committed."""
        self._proposed: set[tuple[bytes, bytes]] = set()
        self.is_used = False
        """Whether any transaction was synchronous."""
        self.kinds: set[TransactionKind] = set()

    def saved(self, member: Member, entries: Sequence[object], *, is_cut: bool) -> None:
        """A master has saved entries, or another log."""
        if not self.is_used or not (entries or is_cut) or not self._is_majority(member.core.view):
            return
        for name, decided in decided_by(member.disk.log).items():
            known = self.acted.setdefault(name, decided)
            if decided.kind is TransactionKind.COMMIT:
                self.committed = max(self.committed, decided.at)
            assert known == decided, f"{member.name} acts on {decided}, and somebody acted on {known} before"

    def turned(self, member: Member, members: Iterable[Member], before: Electing) -> None:
        """A master took its turn, before which these settings counted: whoever has a decision first has proposed it."""
        if not self.is_used:
            return
        for decision in member.core.queue.decisions():
            if decision.key not in self._proposed:
                self._proposed.add(decision.key)
                self.kinds.add(decision.kind)
                assert self._is_majority(member.core.view), f"{member.name} decides in a minority: {decision}"
                if decision.kind is TransactionKind.COMMIT:
                    self._check_quorum(decision, member, members, before)

    @staticmethod
    def _check_quorum(
        decision: Decision, member: Member, members: Iterable[Member], before: Electing
    ) -> None:
        had = {one.dc for one in members if has(one, decision) or had_for(member, one, decision)}
        # Entries that change them may have been added in the same turn, before or after the proposal.
        now = Electing.of(member)
        quorum = min(
            quorum_of(f, n) for f in (before.formula, now.formula) for n in (before.centres, now.centres)
        )
        assert len(had) >= quorum, f"{member.name} commits what {had} have, and {quorum} must: {decision}"

    def check_the_end(self, peers: Sequence[Member]) -> None:
        """All is decided, as somebody acted on it."""
        if not self.is_used or not peers:
            return
        decided = decided_by(peers[0].disk.log)
        for name, known in self.acted.items():
            assert decided.get(name) == known, (
                f"the log says {decided.get(name)}, and somebody acted on {known}"
            )
        waiting = [e.point.index for e in peers[0].disk.log if is_synchronous(e.pair)]
        waiting = [index for index in waiting if index not in {one.at for one in decided.values()}]
        assert not waiting, f"never decided: {waiting}"


def has(member: Member, decision: Decision) -> bool:
    """Whether a master, or the agreed topic of its data centre, has the target of a decision."""
    return any(has_target(log, decision) for log in (member.disk.log, member.published))


def had_for(proposer: Member, other: Member, decision: Decision) -> bool:
    """Whether another master had it on a disk that it lost since, which the proposer cannot know yet."""
    known = proposer.core.members.get(other.name)
    knows = known is None or known.incarnation == other.incarnation
    return not knows and has_target(other.lost_log, decision)


def has_target(log: Sequence[Logged], decision: Decision) -> bool:
    return len(log) >= decision.index and log[decision.index - 1].point.chain.startswith(decision.chain)


def decided_by(log: Sequence[Logged]) -> dict[bytes, Decided]:
    """What a log decides: of each synchronous transaction the first decision behind it."""
    decided: dict[bytes, Decided] = {}
    waiting: list[Logged] = []
    for entry in log:
        decision = decision_in(entry.pair.digest)
        if is_synchronous(entry.pair):
            waiting.append(entry)
        elif decision is not None:
            done = [one for one in waiting if decision.concerns(one.point)]
            waiting = waiting[len(done) :]
            decided |= {one.pair.id: Decided(decision.kind, one.point.index) for one in done}
    return decided
