"""Hypothesis looks for small counter-examples: three masters, few steps, every order."""

from __future__ import annotations

from hashlib import blake2b

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quadlog.core.model import Transaction
from tests.support.agreement.world import TINY, Event, World

LAG = 100.0
names = st.sampled_from(["m1", "m2", "m3"])


class SmallWeather(RuleBasedStateMachine):
    """Safety is asserted by the world with everything that happens there."""

    def __init__(self) -> None:
        """Two of the masters share a data centre."""
        super().__init__()
        self.at = 0.0
        self.world = World({"m1": "dc1", "m2": "dc2", "m3": "dc2"}, limits=TINY, lag=LAG)

    def play(self, what: str, member: str, other: str = "", number: int = 0) -> None:
        self.at += 1
        self.world.play(Event(self.at, what, member, other, number))

    @rule(member=names)
    def submit(self, member: str) -> None:
        digest = blake2b(len(self.world.transactions).to_bytes(2, "big"), digest_size=32).digest()
        self.world.transactions.append(Transaction(id=digest[:16], digest=digest))
        self.play("submit", member, number=len(self.world.transactions) - 1)

    @rule(member=names, number=st.integers(0, 5))
    def acquire(self, member: str, number: int) -> None:
        if number < len(self.world.transactions):
            self.play("acquire", member, number=number)

    @rule(member=names, dies_at=st.sampled_from([-1, -1, -1, 0, 1, 2]))
    def turn(self, member: str, dies_at: int) -> None:
        self.play("turn", member, number=dies_at)

    @rule(member=names)
    def lose(self, member: str) -> None:
        self.play("lose", member)

    @rule(member=names, other=names, newest=st.booleans())
    def hear(self, member: str, other: str, newest: bool) -> None:  # noqa: FBT001
        posts = self.world.members[other].posts
        if posts and member != other:
            known = self.world.members[member].core.members.get(other)
            unheard = [
                number
                for number, post in enumerate(posts)
                if known is None or (post.incarnation, post.sequence) > (known.incarnation, known.heard)
            ]
            if unheard:
                self.play("hear", member, other, unheard[-1 if newest else 0])

    @rule(member=names, other=names)
    def follow(self, member: str, other: str) -> None:
        if member != other:
            self.play("follow", member, other, 100)

    @rule(lags=st.sampled_from([0.3, 1.1]))
    def wait(self, lags: float) -> None:
        self.at += lags * LAG

    @rule(link=st.sampled_from([("m1", "m2"), ("m2", "m3"), ("m1", "m2", "m3")]), rounds=st.integers(1, 4))
    def talk(self, link: tuple[str, ...], rounds: int) -> None:
        """What only chance would seldom do: some hear all of each other for a while."""
        for _ in range(rounds):
            for member in link:
                self.play("turn", member, number=-1)
            for member in link:
                for other in link:
                    if other != member:
                        self.hear(member, other, newest=False)
                        self.hear(member, other, newest=True)
                        self.follow(member, other)

    @invariant()
    def one_log_is_a_prefix_of_the_other_in_a_view(self) -> None:
        """As saved: a core may have installed a view, and not saved yet that its log is another one."""
        disks = [member.disk for member in self.world.members.values()]
        for one in disks:
            for other in disks:
                if (one.standing and one.standing.view) == (other.standing and other.standing.view):
                    both = min(len(one.log), len(other.log))
                    assert not both or one.log[both - 1].point == other.log[both - 1].point


SmallWeather.TestCase.settings = settings(
    max_examples=40, stateful_step_count=60, suppress_health_check=list(HealthCheck)
)
test_small_weather = SmallWeather.TestCase
