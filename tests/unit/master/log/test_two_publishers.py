"""Two masters of a data centre, and what the agreed topic is told by both: one log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog.core.records import Cut
from quadlog.master.log import log_publisher
from tests.support.masters.scribes import (
    OWN,
    THEIRS,
    Topic,
    grown,
    sent,
    two_that_give_way,
    two_writers,
    writer,
)


def test_who_stands_by_says_nothing_and_keeps_what_the_topic_may_lack() -> None:
    topic = Topic()
    other, one = writer(3, topic=topic), writer(5, leads=False, topic=topic, name="m2")
    other.settle()
    assert sent(one) == []
    assert [one.hear() for _ in range(3)] == [[1], [2], [3]]
    one.log_publisher.lead(mine=True)
    assert sent(one) == [4, 5], "what was not heard in the topic, in order"


def test_who_stands_by_goes_on_where_the_other_one_died() -> None:
    """Both have given way; one has said a part of it."""
    one, two = two_writers(8)
    one.give_way(THEIRS, 4)
    two.give_way(THEIRS, 4)
    for _ in range(3):
        one.arrive()
        two.hear()
    two.log_publisher.lead(mine=True)
    assert sent(two) == [8, 9, 10, 11]
    two.settle()
    assert one.topic.read().log == [line.point for line in THEIRS]


def test_two_that_lead_at_once_say_one_log() -> None:
    one, two = two_writers(8)
    two.log_publisher.lead(mine=True)
    one.give_way(THEIRS, 4)
    two.give_way(THEIRS, 4)
    while one.sent or two.sent:
        for each in (one, two):
            if each.sent:
                each.arrive()
            each.hear()
    assert one.topic.read().log == [line.point for line in THEIRS]
    assert [said.index for said, _ in one.topic.said if isinstance(said, Cut)] == [5, 5]


def test_who_wakes_up_late_is_void() -> None:
    """It still stands on the branch that the other one has cut."""
    one, two = two_writers(6)
    two.append(OWN[6])
    two.append(OWN[7])
    one.give_way(THEIRS[:7], 4)
    one.settle()
    two.log_publisher.lead(mine=True)
    two.settle()
    assert {said.epoch for said, name in one.topic.said if name == "m2"} == {1}
    while one.read < len(one.topic.said):
        one.hear()
    assert one.log_publisher.held == 7
    one.append(THEIRS[7])
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS[:8]]


def test_who_joins_late_does_not_say_again_what_the_other_master_has_said() -> None:
    """Consumers would go back for nothing; its cut stands where the topic is, and keeps late writers out."""
    topic = Topic()
    one, two = writer(8, topic=topic), writer(8, leads=False, topic=topic, name="m2")
    one.settle()
    one.give_way(THEIRS, 4)
    one.settle()
    two.read = 0
    while two.read < len(topic.said):
        two.hear()
    longer = grown(THEIRS, "on", 2)
    two.log_publisher.lead(mine=True)
    two.sent.clear()
    two.give_way(longer, 6)
    assert sent(two) == ["cut 11", 12, 13]
    two.settle()
    assert topic.read().log == [line.point for line in longer]


def test_a_log_that_is_taken_over_up_to_before_the_end_of_the_topic_is_cut_there() -> None:
    """Of the stronger side that one leads the new view which has the fewest entries: the topic has more of that log."""
    one = writer(8)
    longer = grown(OWN, "on", 4)
    for line in longer[8:10]:
        one.append(line)
    one.settle()
    one.give_way(longer, 4, last=9)
    assert sent(one) == ["cut 9"]
    one.settle()
    assert one.topic.read().log == [line.point for line in longer[:9]]
    one.restart()
    one.log_publisher.lead(mine=True)
    one.append(longer[9])
    one.settle()
    assert one.topic.read().log == [line.point for line in longer[:10]]


def test_and_where_it_leaves_the_own_log_at_a_fork() -> None:
    topic = Topic()
    one, two = writer(6, topic=topic), writer(8, leads=False, topic=topic, name="m2")
    longer = grown(OWN[:6], "on", 4)
    for line in longer[6:]:
        one.append(line)
    one.settle()
    two.hear_all()
    two.log_publisher.lead(mine=True)
    two.sent.clear()
    two.give_way(longer, 4, last=8)
    assert sent(two) == ["cut 8"]
    two.settle()
    assert topic.read().log == [line.point for line in longer[:8]]


def test_who_takes_over_a_topic_that_was_ahead_of_its_log_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It heard all records before it had saved their entries, and more of them than may be under way at once."""
    monkeypatch.setattr(log_publisher, "FLYING", 3)
    one, two = two_writers(8, 0)
    two.hear_all()
    for line in OWN[:8]:
        two.append(line)
    assert two.log_publisher.held == 8
    two.log_publisher.lead(mine=True)
    longer = grown(OWN, "on", 1)
    two.append(longer[8])
    two.settle()
    assert one.topic.read().log == [line.point for line in longer]


def test_what_was_saved_of_the_topic_is_never_beyond_the_own_log() -> None:
    """As a version had saved it that did not cut at the end of what it took over."""
    one = writer(8)
    longer = grown(OWN, "on", 1)
    one.append(longer[8])
    one.settle()
    one.give_way(longer, 4, last=8, dies=True)
    one.saved = replace(one.log_publisher.reached, held=9)
    one.restart()
    assert one.log_publisher.held == 8
    one.log_publisher.lead(mine=True)
    assert sent(one) == ["cut 8"]


def test_who_says_the_log_from_a_cut_on_when_its_writer_died() -> None:
    """A master that came late has cut further back than the other one, which has to say that part, too."""
    one, two = two_writers(8, 4)
    one.give_way(THEIRS, 4)
    one.settle()
    two.give_way(THEIRS, 6)
    two.log_publisher.lead(mine=True)
    two.arrive()
    assert one.topic.said[-1][0] == two.newest
    assert isinstance(two.newest, Cut)
    assert two.newest.index == 4
    one.epoch = 6
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS]


@pytest.mark.parametrize("epoch", [6, 5], ids=["of the same view", "of an earlier one"])
def test_who_leads_says_again_what_another_cut_has_made_void(epoch: int) -> None:
    """By itself, and once: what was under way is not counted as lost again."""
    one, _ = two_that_give_way(lower=epoch)
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS]
    assert one.log_publisher.held == 11
    assert len(one.topic.said) <= 8 + 1 + 2 * (1 + len(THEIRS))


def test_a_cut_that_another_master_has_said_is_not_said_again() -> None:
    """It was heard before this master gave way."""
    topic = Topic()
    one, two = writer(8, topic=topic), writer(8, leads=False, topic=topic, name="m2")
    one.settle()
    one.give_way(THEIRS, 4)
    one.arrive()
    two.hear_all()
    two.give_way(THEIRS, 4)
    two.log_publisher.lead(mine=True)
    assert sent(two) == [6, 7, 8, 9, 10, 11]


def test_what_only_the_topic_still_has_is_said_again_from_there() -> None:
    """A master that lags has cut further back than what all have, and died: its mate keeps no payload of that."""
    topic = Topic()
    one, two = writer(8, topic=topic), writer(2, leads=False, topic=topic, name="m2")
    one.settle()
    one.gone = set(range(1, 9))
    for _ in range(2):
        two.hear()
    for line in OWN[2:]:
        two.append(line)
    longer = grown(OWN, "on", 2)
    two.give_way(longer, 6)
    two.log_publisher.lead(mine=True)
    two.arrive()
    assert isinstance(two.newest, Cut)
    assert two.newest.index == 2
    one.epoch = 6
    for line in longer[8:]:
        one.append(line)
    one.hear_all()
    assert one.wanted == [3], "once, and nothing is said that would not follow"
    one.settle()
    assert topic.read().log == [line.point for line in longer]
    assert {said.epoch for said, _ in topic.said[-8:]} == {6}
    assert one.log_publisher.held == 10
