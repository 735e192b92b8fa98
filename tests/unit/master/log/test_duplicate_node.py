"""Two processes that are one master: who is superseded or meets a copy of itself ends, and nobody else does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from producers.rounds import RoundsProducer
from quadlog import codec
from quadlog.core.model import START, HardState, Post, Rank, first_view
from quadlog.errors import DuplicateNode
from quadlog.master.log import duplicate_node
from quadlog.master.log.duplicate_node import DuplicateNodeDetector
from tests.support.agreement.topics import Topic

OLD, MINE, LATER = (bytes([number]) * 16 for number in (1, 2, 3))
BEGAN = 10
"""Sequence of the last post that the process before may have said."""
VIEW = first_view({"m1": "dc1", "m2": "dc2"})
RANK = Rank(epoch=1, decided=True, members=2, ids=("m1", "m2"))


def post(sequence: int, incarnation: bytes = MINE, node: str = "m1", counter: int = 0) -> Post:
    return Post(
        node=node,
        incarnation=incarnation,
        sequence=sequence,
        base_sequence=None,
        view=VIEW,
        base=START,
        counter=counter,
        queue=(),
        rank=RANK,
    )


def heard(one: Post) -> tuple[Post, bytes]:
    return one, codec.encode(one)


class Rig:
    """A master that posts, and whoever else does so there."""

    def __init__(self) -> None:
        self.looks: list[tuple[int, int]] = []
        self.topic = Topic()
        self.duplicate_detector = DuplicateNodeDetector("m1", MINE, BEGAN, read=self.read)
        self.producer = RoundsProducer(self.topic, "rounds", acked=self.duplicate_detector.acked)

    def read(self, start: int, end: int) -> None:
        self.looks.append((start, end))
        self.duplicate_detector.check_own_records(self.topic.records[start:end])

    @property
    def why(self) -> str:
        """Why it may say no more."""
        said = len(self.topic.records)
        try:
            self.say(100)
        except DuplicateNode as error:
            assert len(self.topic.records) == said
            return str(error)
        return ""

    def say(self, sequence: int) -> None:
        one = post(sequence)
        self.duplicate_detector.check_may_post(one)
        self.duplicate_detector.said(sequence, self.producer.publish(one, at=0))

    def elsewhere(self, one: Post) -> None:
        """Another process says it in the same topic."""
        RoundsProducer(self.topic, "rounds").publish(one, at=0)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.say(11)
    return rig


def test_alone_nothing_is_read(rig: Rig) -> None:
    rig.say(12)
    rig.producer.pass_on(rig.topic.records[0], "dc2")
    rig.say(13)
    assert (rig.looks, rig.why) == ([], "")


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (post(11, counter=1), "a copy of its disk said post 11"),
        (post(11), None),  # repeated, byte for byte
        (post(900), "a copy of its disk said post 900"),
        (post(1, LATER), "a later incarnation"),
        (post(BEGAN), None),  # what its predecessor had in flight when it was killed
        (post(900, OLD), None),  # that one ends
        (post(900, LATER, "m2"), None),
    ],
)
def test_what_others_say_in_its_topic_is_looked_at(rig: Rig, other: Post, why: str | None) -> None:
    rig.elsewhere(other)
    assert rig.looks == []
    rig.say(12)
    assert rig.looks == [(1, 2)]
    if why is None:
        assert not rig.why
    else:
        assert rig.why.startswith("m1 runs twice")
        assert why in rig.why


def test_another_program_is_no_twin(rig: Rig) -> None:
    rig.topic.produce("rounds", key=b"m1", values=[b"of another program"], headers=[])
    rig.say(12)
    assert (rig.looks, rig.why) == ([(1, 2)], "")


def test_what_was_said_is_repeated(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a broker, a mirror or a tool; what is too old to be compared is taken for repeated, too."""
    monkeypatch.setattr(duplicate_node, "REMEMBERED", 3)
    for sequence in range(12, 20):
        rig.say(sequence)
    for number in (0, 3, 8, 8):
        record = rig.topic.records[number]
        rig.topic.produce("rounds", key=record.key, values=[record.value], headers=record.headers)
        rig.say(20 + len(rig.looks))
    assert len(rig.looks) == 4
    assert not rig.why
    for sequence, why in ((13, False), (101, True)):
        rig.duplicate_detector.on_post(*heard(post(sequence, counter=1)))
        assert bool(rig.why) is why


def test_another_post_of_that_sequence_is_a_twins_whoever_passes_it_on(rig: Rig) -> None:
    rig.duplicate_detector.on_post(*heard(post(11)))
    assert not rig.why
    rig.duplicate_detector.on_post(*heard(post(11, counter=1)))
    assert "a copy of its disk said post 11" in rig.why


def test_posts_that_come_back_are_its_own_unless_it_did_not_say_them(rig: Rig) -> None:
    """From its own topic, where others post too, and passed on by other data centres."""
    for sequence in (3, 11):
        rig.duplicate_detector.on_post(*heard(post(sequence)))
    rig.duplicate_detector.on_post(*heard(post(5000, node="m2")))
    rig.duplicate_detector.on_post(*heard(post(5000, OLD)))
    assert not rig.why
    rig.duplicate_detector.on_post(*heard(post(101)))
    assert "post 101" in rig.why
    rig.duplicate_detector.on_post(*heard(post(1, LATER)))
    assert "a later incarnation" in rig.why


def test_what_the_others_heard_of_it(rig: Rig) -> None:
    standing = HardState(view=VIEW)
    rig.duplicate_detector.learn(replace(standing, newest=(("m1", MINE), ("m2", LATER))))
    assert not rig.why
    rig.duplicate_detector.learn(replace(standing, newest=(("m1", LATER),)))
    assert "the others heard a later incarnation" in rig.why
