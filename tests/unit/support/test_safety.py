"""What the check of each step makes of a story: `tests/support/agreement/safety.py`."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

from quadlog.core.model import LogPosition, Transaction
from tests.support.agreement.sim import some
from tests.support.agreement.world import TINY, Event, World

if TYPE_CHECKING:
    from quadlog.core.model import View

LAG = 100.0


class Story:
    """Three masters, to whom this and that happens, a millisecond apart."""

    def __init__(self) -> None:
        self.at = 0.0
        self.world = World({"m1": "dc1", "m2": "dc2", "m3": "dc3"}, limits=TINY, lag=LAG)
        self.m1, self.m3 = self.world.members["m1"], self.world.members["m3"]

    def play(self, what: str, member: str, other: str = "", number: int = 0) -> None:
        self.at += 1
        self.world.play(Event(self.at, what, member, other, number))

    def view_of(self, name: str) -> View:
        return self.world.members[name].core.view

    def turn(self, *names: str, after: float = 1) -> None:
        self.at += after
        for name in names:
            self.play("turn", name, number=-1)

    def submit(self, name: str) -> int:
        number = len(self.world.transactions)
        digest = blake2b(number.to_bytes(2, "big"), digest_size=32).digest()
        self.world.transactions.append(Transaction(id=digest[:16], digest=digest))
        self.play("submit", name, number=number)
        return number

    def hear(self, reader: str, sender: str, *, newest: bool = False) -> None:
        """All that is new, or of that the last post alone."""
        known = self.world.members[reader].core.members.get(sender)
        posts = self.world.members[sender].posts
        new = [at for at, post in enumerate(posts) if known is None or post.sequence > known.heard]
        for at in new[-1:] if newest else new:
            self.play("hear", reader, sender, at)

    def rounds(self, *names: str, count: int) -> None:
        for _ in range(count):
            self.turn(*names, after=10)
            for reader in names:
                for sender in names:
                    if sender != reader:
                        self.hear(reader, sender)


def test_a_follower_may_get_what_was_promised_in_the_view_before() -> None:
    """Who was let in since has promised nothing of that in this view yet; nor need it."""
    story = Story()
    for _ in range(20):  # so long a queue that what m2 promises stays low for some posts
        story.submit("m2")
    story.rounds("m1", "m3", count=16)
    assert story.view_of("m1") == story.view_of("m3")
    assert story.view_of("m1").members == ("m1", "m3")

    story.turn("m2")
    story.hear("m2", "m1")
    story.hear("m2", "m3")
    story.turn("m2")
    story.play("follow", "m2", "m1", 9)
    story.turn("m2")
    number = story.submit("m1")
    story.play("acquire", "m3", number=number)
    story.turn("m1")
    story.hear("m3", "m1")
    story.turn("m3")
    story.turn("m3", after=26)
    assert (len(story.m1.log), len(story.m3.log)) == (0, 1)

    story.hear("m1", "m2")
    story.turn("m1", "m1", after=15)
    story.hear("m3", "m2")
    for voter in ("m2", "m3"):
        story.hear(voter, "m1")
        story.turn(voter)
    story.hear("m3", "m2")
    story.turn("m3")
    assert story.view_of("m3").members == ("m1", "m2", "m3")
    story.hear("m1", "m2")
    story.hear("m1", "m3", newest=True)
    assert (story.view_of("m1"), len(story.m1.log)) == (story.view_of("m3"), 1)
    let_in = story.m1.core.members["m2"]
    assert not let_in.is_in(story.view_of("m1"))
    assert let_in.counter < story.m1.log[0][1].timestamp

    story.play("follow", "m2", "m3", 9)
    for waiting in range(20):
        story.play("acquire", "m1", number=waiting)
        story.play("acquire", "m3", number=waiting)
    story.rounds("m1", "m2", "m3", count=20)
    logs = [[pair.id for _, pair in member.log] for member in story.world.members.values()]
    assert logs[0] == logs[1] == logs[2]
    assert logs[0][0] == story.world.transactions[number].id
    assert len(logs[0]) == 21


def test_who_comes_into_a_view_with_another_log_is_seen() -> None:
    story = Story()
    number = story.submit("m1")
    for name in ("m2", "m3"):
        story.play("acquire", name, number=number)
    story.rounds("m1", "m2", "m3", count=5)
    log = story.world.members["m2"].disk.log
    assert len(log) == 1
    log[0] = log[0]._replace(point=LogPosition(1, bytes(32)))
    with pytest.raises(AssertionError, match=r"two orders in .* at 1, where m. comes in"):
        story.rounds("m1", "m2", count=16)


def test_that_was_seen_in_the_weather() -> None:
    report = some(range(700284, 700285))
    assert (report.failure, report.seeds) == ("", 1)
