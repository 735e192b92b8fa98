"""Masters of several data centres, and each thing that may happen to them, so that a story can be told again."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from quadlog.core.messages import Limits, Pace
from tests.core.cluster import CrashError, Member
from tests.core.safety import Safety

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quadlog.core.model import Transaction

TINY = Limits(post=3, turn=2, snapshot_every=7, near=2)
"""Nearly every post leaves pairs out, ADD stops all the time, and snapshots are common."""
USUAL = Limits()


class Event(NamedTuple):
    """One thing that happens to one master."""

    at: float
    what: str
    """submit, acquire, turn, restart, hear, follow or clock."""
    member: str
    other: str = ""
    """Whose post or log it is."""
    number: int = 0
    """Of the transaction, of the post, of entries to read; effects done before it dies; milliseconds of the clock."""

    def __str__(self) -> str:
        """As a line of a story."""
        said = {
            "submit": f"is given t{self.number}",
            "acquire": f"acquires t{self.number}",
            "turn": "takes its turn"
            if self.number < 0
            else f"takes its turn and dies at effect {self.number}",
            "restart": "dies and starts again",
            "hear": f"hears post {self.number} of {self.other}",
            "follow": f"reads {self.number} entries of {self.other} beside",
            "clock": f"has a clock that is wrong by {self.number} ms",
        }
        return f"{self.at:9.1f} {self.member} {said[self.what]}"


class World:
    """All that is there, without chance: what happens is told it."""

    def __init__(self, masters: Mapping[str, str], *, limits: Limits, lag: float) -> None:
        """Nothing has happened.  `masters`: the data centre of each."""
        self.masters, self.limits, self.lag = dict(masters), limits, lag
        kafka: dict[str, dict[tuple[bytes, bytes], Transaction]] = {dc: {} for dc in masters.values()}
        pace = Pace(lag=lag, idle=lag / 4)
        self.members = {
            name: Member(name, masters, limits=limits, pace=pace, kafka=kafka[dc])
            for name, dc in masters.items()
        }
        sizes = Counter(masters.values())
        self._shares = {name: Fraction(1, sizes[dc]) for name, dc in masters.items()}
        self._centres = len(sizes)
        self.safety = Safety(limits, self.is_majority)
        self.transactions: list[Transaction] = []
        self.told: list[Event] = []
        """All that happened."""
        self._heard = 0
        for member in self.members.values():
            self.watch(member)

    def watch(self, member: Member) -> None:
        """Check all that it saves."""
        member.saved = lambda save, lost: self.safety.saved(member, save, lost)

    def is_majority(self, names: Sequence[str]) -> bool:
        """Whether these masters are more than half of the data centres."""
        return 2 * sum(self._shares[name] for name in names) > self._centres

    def play(self, event: Event) -> None:
        """Let it happen, and check what came of it; what cannot happen does not."""
        self.told.append(event)
        getattr(self, f"_{event.what}")(self.members[event.member], event)

    def _submit(self, member: Member, event: Event) -> None:
        if event.number < len(self.transactions):
            transaction = self.transactions[event.number]
            before = member.core.queue.pairs(transaction.id)
            member.submit(transaction, event.at)
            after = member.core.queue.pairs(transaction.id)
            self.safety.submitted(member, [pair for pair in after if pair not in before])

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

        said = len(member.posts)
        try:
            member.turn(event.at, fail=fail)
        except CrashError:
            self.restart(member, event.at)
        for post in member.posts[said:]:
            self.safety.posted(member, post)
        self.safety.kept(member)

    def _restart(self, member: Member, event: Event) -> None:
        self.restart(member, event.at)
        self.safety.kept(member)

    def restart(self, member: Member, at: float) -> None:
        """Its process dies and starts again."""
        member.restart(at)

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

    def _clock(self, member: Member, event: Event) -> None:
        member.skew = event.number
