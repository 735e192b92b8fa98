"""A master that writes an agreed topic starts again: it knows what stands there, whatever its last records are."""

from __future__ import annotations

import pytest

from tests.support.masters.scribes import OWN, THEIRS, Topic, grown, sent, two_that_give_way, writer


@pytest.mark.parametrize("late", [3, 60])
def test_a_restart_is_not_misled_by_what_does_not_count(late: int) -> None:
    """Whatever stands at the end of the topic, and however much of it."""
    topic = Topic()
    one, two = writer(8, topic=topic), writer(8, leads=False, topic=topic, name="m2")
    one.settle()
    two.hear_all()
    one.give_way(THEIRS, 4)
    one.settle()
    for line in grown(OWN, "on a branch that was cut", late)[8:]:
        two.append(line)
    two.log_publisher.lead(mine=True)
    while two.sent:
        two.arrive()
    one.hear_all()
    longer = grown(THEIRS, "on", 3)
    for line in longer[11:13]:
        one.append(line)
    one.restart()
    one.log_publisher.lead(mine=True)
    assert sent(one) == [12, 13], "what the topic lacks"
    one.append(longer[13])
    one.settle()
    assert topic.read().log == [line.point for line in longer]


@pytest.mark.parametrize("behind", [3, 60])
def test_a_restart_does_not_take_for_said_what_another_cut_has_made_void(behind: int) -> None:
    """What was under way when the other one cut follows nothing, and looks like the end of the log."""
    one, two = two_that_give_way(lower=6)
    longer = grown(THEIRS, "on", behind)
    for line in longer[len(THEIRS) :]:
        one.append(line)
    while one.sent:
        one.arrive()
    assert len(two.topic.read().log) < len(THEIRS)
    one.restart()
    one.log_publisher.lead(mine=True)
    one.settle()
    assert one.topic.read().log == [line.point for line in longer]


def test_who_does_not_know_how_far_the_topic_was_followed_reads_all_of_it() -> None:
    """The topic was set back."""
    one = writer(8)
    one.settle()
    one.give_way(THEIRS, 4)
    for _ in range(4):
        one.arrive()
    one.saved = None
    one.restart()
    assert one.log_publisher.reached.end == THEIRS[7].point
    one.log_publisher.lead(mine=True)
    assert sent(one) == [9, 10, 11]
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS]
