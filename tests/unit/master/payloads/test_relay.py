"""Who is out of reach, and what is passed on for those who do not hear it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from consumers import rounds
from consumers.payloads import PayloadsConsumer
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog.codec.envelope import RELAYED
from quadlog.master.payloads.intake import Intake
from quadlog.master.payloads.reachability import STILL_MS, Reachability
from quadlog.master.payloads.relay import PayloadRelay
from tests.support.agreement.said import example, posts
from tests.support.agreement.topics import Topic
from tests.support.masters.payloads import payload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quadlog.core.model import Post

PATIENCE_MS = 2500.0
IDLE_MS = 1000.0


class Ear:
    """One master: its topic of posts, and what it hears."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self.dc = world, name, world.dc_of[name]
        self.heard: list[tuple[str, int]] = []
        """Master and sequence of each post, however it came."""
        self.leads = min(other for other, dc in world.dc_of.items() if dc == self.dc) == name
        self.producer = RoundsProducer(world.topics[self.dc], f"{self.dc}.rounds")
        self.hearing = Reachability(name, world.dc_of, patience_ms=PATIENCE_MS)
        self.intakes: dict[str, Intake] = {}
        for dc in world.topics:
            if dc != self.dc:
                consumer = PayloadsConsumer(origins=[dc])
                self.intakes[dc] = Intake(consumer, 0, dc=dc, originals=self.intakes)
        self.read_again: list[tuple[str, int]] = []
        self.relay = PayloadRelay(
            self.hearing,
            intakes=self.intakes,
            pass_on=self.producer.pass_on,
            read=lambda dc, offset: self.read_again.append((dc, offset)),
        )
        self._sequence = 0
        self._read: Counter[str] = Counter()

    def post(self) -> None:
        self._sequence += 1
        said = example(
            posts, lambda post: replace(post, node=self.name, incarnation=self.name.encode().zfill(16))
        )
        self.producer.publish(replace(said, sequence=self._sequence, unheard=self.hearing.unheard), at=0)

    def listen(self, moment: float) -> None:
        for dc, topic in self.world.topics.items():
            if (dc, self.dc) in self.world.cut:
                continue
            records = topic.records[self._read[dc] :]
            self._read[dc] += len(records)
            for record in records:
                post = rounds.hear(record)
                self.heard.append((post.node, post.sequence))
                self.relay.on_post(post, record, dc, moment)

    def newest(self, name: str) -> int:
        """Sequence of the newest post of a master that came here."""
        return max((sequence for master, sequence in self.heard if master == name), default=0)


class World:
    """Masters, one a data centre if nothing else is said, that post in every idle round and hear at once."""

    def __init__(self, dc_of: Mapping[str, str] | None = None) -> None:
        self.dc_of = dc_of or {"m1": "dc1", "m2": "dc2", "m3": "dc3"}
        self.topics = {dc: Topic() for dc in sorted(set(self.dc_of.values()))}
        self.cut: set[tuple[str, str]] = set()
        """(from, to): what is said in the one is not heard in the other."""
        self.masters = {name: Ear(self, name) for name in self.dc_of}
        self.moment = 0.0
        self.dead: set[str] = set()

    def run(self, seconds: float) -> None:
        """All look each 250 ms."""
        for _ in range(int(seconds * 4)):
            self.moment += 250
            for name, ear in self.masters.items():
                if name in self.dead:
                    continue
                if self.moment % IDLE_MS == 0:
                    ear.post()
                ear.listen(self.moment)
                ear.relay.tick(self.moment, leads=ear.leads)

    def unheard(self) -> dict[str, tuple[str, ...]]:
        return {name: ear.hearing.unheard for name, ear in self.masters.items() if ear.hearing.unheard}

    def passed_on(self, dc: str) -> list[tuple[str, int]]:
        """Master and sequence of what stands in a data centre's topic and was said in another one."""
        found = (record for record in self.topics[dc].records if record.header(RELAYED) is not None)
        return [(post.node, post.sequence) for post in map(rounds.hear, found)]


def both_ways(one: str, other: str) -> set[tuple[str, str]]:
    return {(one, other), (other, one)}


def test_who_hears_everybody_passes_nothing_on() -> None:
    world = World()
    world.run(20)
    assert world.unheard() == {}
    assert [world.passed_on(dc) for dc in world.topics] == [[], [], []]


@pytest.mark.parametrize(
    ("cut", "unheard"),
    [
        (both_ways("dc1", "dc2"), {"m1": ("dc2",), "m2": ("dc1",)}),
        ({("dc1", "dc2")}, {"m2": ("dc1",)}),
        ({("dc2", "dc1")}, {"m1": ("dc2",)}),
        ({("dc2", "dc1"), ("dc1", "dc3")}, {"m1": ("dc2",), "m3": ("dc1",)}),
    ],
    ids=["both ways", "one way", "the other way", "in a ring"],
)
def test_what_one_does_not_hear_another_passes_on(
    cut: set[tuple[str, str]], unheard: dict[str, tuple[str, ...]]
) -> None:
    world = World()
    world.run(10)
    world.cut = cut
    world.run(4)
    assert world.unheard() == unheard
    world.run(10)
    for ear in world.masters.values():
        for name, other in world.masters.items():
            if other is not ear:
                assert ear.newest(name) >= other._sequence - 1, (ear.name, name)
    assert world.unheard() == unheard, "what is passed on does not count as heard"


def test_what_is_passed_on_is_verbatim_and_never_passed_on_again() -> None:
    """Four data centres, two of which pass on the same posts."""
    world = World({"m1": "dc1", "m2": "dc2", "m3": "dc3", "m4": "dc4"})
    world.cut = both_ways("dc1", "dc2")
    world.run(30)
    said = {rounds.hear(r).sequence: r for r in world.topics["dc2"].records}
    for dc in ("dc3", "dc4"):
        passed = [r for r in world.topics[dc].records if r.header(RELAYED) is not None]
        assert {r.header(RELAYED) for r in passed} == {b"dc1", b"dc2"}
        of_dc2 = [r for r in passed if r.header(RELAYED) == b"dc2"]
        assert len(of_dc2) > 20
        for record in of_dc2:
            original = said[rounds.hear(record).sequence]
            assert (record.key, record.value) == (original.key, original.value)
            assert record.headers == [*original.headers, (RELAYED, b"dc2")]
        assert len(set(world.passed_on(dc))) == len(passed), "each once"
    assert world.passed_on("dc1") == world.passed_on("dc2") == []


def test_the_newest_post_is_passed_on_at_once() -> None:
    """Else who lacks something would wait for the next idle round before it can ask for it."""
    world = World()
    world.run(10)
    world.cut = {("dc2", "dc1")}
    while not world.unheard():
        world.run(0.25)
    before = world.masters["m2"]._sequence
    m1, m3 = world.masters["m1"], world.masters["m3"]
    m1.post()
    m3.listen(world.moment)
    m3.relay.tick(world.moment + 50, leads=True)
    assert world.passed_on("dc3") == [("m2", before)]


def test_passing_on_ends_when_all_are_heard_again() -> None:
    world = World()
    world.run(3)
    world.cut = both_ways("dc1", "dc2")
    world.run(10)
    assert world.passed_on("dc1") == world.passed_on("dc2") == [], "what they miss themselves"
    world.cut = set()
    world.run(2)
    passed = len(world.passed_on("dc3"))
    assert passed
    world.run(10)
    assert world.unheard() == {}
    assert len(world.passed_on("dc3")) == passed


def test_for_who_is_gone_nothing_is_passed_on() -> None:
    """Its last word may have been that it does not hear somebody."""
    world = World()
    world.cut = {("dc2", "dc1")}
    world.run(10)
    world.dead = {"m1"}
    world.run(4)
    passed = len(world.passed_on("dc3"))
    world.run(10)
    assert len(world.passed_on("dc3")) == passed


def test_of_a_data_centres_masters_the_one_that_leads_passes_on() -> None:
    world = World({"m1": "dc1", "m2": "dc2", "m2b": "dc2", "m3": "dc3", "m3b": "dc3"})
    world.cut = {("dc2", "dc1")}
    world.run(10)
    passed = world.passed_on("dc3")
    assert {name for name, _ in passed} == {"m2", "m2b"}
    assert len(set(passed)) == len(passed)
    assert world.unheard() == {"m1": ("dc2",)}


def test_who_is_dead_is_not_looked_for_by_way_of_others() -> None:
    """Nobody hears it, so there is no way, and all look for it where it was."""
    world = World()
    world.dead = {"m2"}
    world.run(10)
    assert world.unheard() == {"m1": ("dc2",), "m3": ("dc2",)}
    assert [ear.hearing.ways for name, ear in world.masters.items() if name != "m2"] == [{"dc2": ()}] * 2


def test_a_way_is_who_is_heard_and_hears() -> None:
    world = World({"m1": "dc1", "m2": "dc2", "m3": "dc3", "m4": "dc4"})
    world.cut = {("dc2", "dc1"), ("dc2", "dc3")}
    world.run(10)
    assert world.masters["m1"].hearing.ways == {"dc2": ("dc4",)}
    world.cut |= {("dc4", "dc1")}
    world.run(10)
    assert world.masters["m1"].hearing.ways == {"dc2": (), "dc4": ("dc3",)}


def test_payloads_are_taken_from_the_first_way_and_from_where_they_were_read_past() -> None:
    world = World({"m1": "dc1", "m2": "dc2", "m3": "dc3", "m4": "dc4"})
    m1 = world.masters["m1"]
    copy = payload(1, dc="dc2")
    topic = Topic()
    PayloadsProducer(topic, "payloads", "m3").publish(copy, lambda _: None, origin_offset=0)
    assert [m1.intakes[dc].on_record(topic.records[0]) for dc in ("dc3", "dc4")] == [None, None]
    world.cut = {("dc2", "dc1")}
    world.run(10)
    assert m1.read_again == [("dc3", 0)]
    assert [m1.intakes[dc].on_record(topic.records[0]) for dc in ("dc3", "dc4")] == [copy, None]
    world.cut |= {("dc3", "dc1")}
    world.run(10)
    assert m1.read_again == [("dc3", 0), ("dc4", 0)], "another way, when the first one is out of reach too"
    assert [m1.intakes[dc].on_record(topic.records[0]) for dc in ("dc3", "dc4")] == [None, copy]
    world.cut = set()
    world.run(10)
    assert [m1.intakes[dc].on_record(topic.records[0]) for dc in ("dc3", "dc4")] == [None, None]


def test_the_last_payloads_of_who_is_gone_are_taken_from_all_who_are_left() -> None:
    """Each of them may have some that the others lack, and a view without it inherits all of them."""
    world = World({"m1": "dc1", "m2": "dc2", "m3": "dc3", "m4": "dc4"})
    m1 = world.masters["m1"]
    topics = {dc: Topic() for dc in ("dc3", "dc4")}
    copies = {dc: payload(number, dc="dc2") for number, dc in enumerate(topics)}
    for dc, topic in topics.items():
        PayloadsProducer(topic, "payloads", "m3").publish(copies[dc], lambda _: None, origin_offset=0)
        assert m1.intakes[dc].on_record(topic.records[0]) is None
    world.cut = {("dc2", "dc1")}
    world.run(3)
    assert m1.read_again == [("dc3", 0)]
    world.dead = {"m2"}
    world.run(10)
    assert m1.hearing.ways == {"dc2": ()}
    assert m1.read_again == [("dc3", 0), ("dc4", 0)], "what is being read goes on"
    assert {dc: m1.intakes[dc].on_record(topic.records[0]) for dc, topic in topics.items()} == copies


def test_who_stood_still_itself_misses_nobody() -> None:
    """Suspended, or on a machine that slept: what was said meanwhile it hears in a moment."""
    world = World()
    world.run(10)
    world.moment += 60_000 + STILL_MS
    for ear in world.masters.values():
        ear.relay.tick(world.moment, leads=True)
    assert world.unheard() == {}
    world.cut = {("dc2", "dc1")}
    world.run(4)
    assert world.unheard() == {"m1": ("dc2",)}, "but who is silent after that is"


def test_an_older_post_that_comes_late_takes_nothing_back() -> None:
    hearing = Reachability("m1", {"m1": "dc1", "m2": "dc2", "m3": "dc3"}, patience_ms=PATIENCE_MS)
    hearing.update(0)

    def say(number: int, *unheard: str) -> Post:
        said = example(posts, lambda post: replace(post, node="m3", incarnation=bytes(16)))
        return replace(said, sequence=number, unheard=unheard)

    hearing.on_post(say(7, "dc2"), 1.0, directly=True)
    hearing.on_post(say(6), 2.0, directly=False)
    hearing.update(3.0)
    assert hearing.missed == {"dc2"}
    hearing.on_post(say(8), 4.0, directly=False)
    hearing.update(5.0)
    assert hearing.missed == frozenset()
