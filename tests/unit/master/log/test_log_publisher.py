"""What the agreed topic is told, and in which order: also where the log is cut."""

from __future__ import annotations

import pytest

from quadlog.core.records import LoggedEntry
from quadlog.master.log import log_publisher as module
from tests.support.masters.scribes import (
    OWN,
    THEIRS,
    grown,
    sent,
    view_of,
    writer,
)


def test_who_leads_keeps_an_entry_until_it_is_acknowledged() -> None:
    one = writer(3)
    assert sent(one) == [1, 2, 3]
    assert len(one.log_publisher) == 3
    one.arrive()
    assert one.hear() == [1]
    assert (len(one.log_publisher), one.log_publisher.held) == (2, 1)


def test_who_steps_down_and_takes_over_again_says_again_what_nobody_acknowledged() -> None:
    """Twice the same entry under the same index is harmless; a gap would not be."""
    one = writer(1)
    one.log_publisher.lead(mine=False)
    one.append(OWN[1])
    one.log_publisher.lead(mine=True)
    one.append(OWN[2])
    assert sent(one) == [1, 1, 2, 3]


def test_entries_are_written_with_the_lineage_of_their_writer() -> None:
    """Not with that of the view that agreed them: who has installed another one speaks for that."""
    one = writer(1)
    one.epoch = 2
    one.append(OWN[1])
    assert [(s.epoch, s.lineage) for s, _ in one.sent if isinstance(s, LoggedEntry)] == [
        (1, view_of(1).id),
        (2, view_of(2).id),
    ]


def test_where_the_log_was_cut_that_is_said_first() -> None:
    """Behind it the other log, and what is agreed on it."""
    one = writer(8)
    for _ in range(7):
        one.arrive()
        one.hear()
    one.sent.clear()
    one.give_way(THEIRS[:8], 4)
    for line in THEIRS[8:]:
        one.append(line)
    assert sent(one) == ["cut 5", 6, 7, 8, 9, 10, 11]
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS]
    assert len(one.log_publisher) == 0


def test_the_newest_cut_is_known_before_the_topic_has_it_and_after_a_restart() -> None:
    """Of what stands before it nothing is to be evaluated."""
    one = writer(8)
    known = [one.log_publisher.newest_cut]
    one.give_way(THEIRS[:8], 4)
    known.append(one.log_publisher.newest_cut)
    one.restart()
    known.append(one.log_publisher.newest_cut)
    one.settle()
    known.append(one.log_publisher.newest_cut)
    one.log_publisher.lead(mine=True)
    one.settle()
    one.restart()
    known.append(one.log_publisher.newest_cut)
    assert known == [0, 4, 4, 4, 4]


def test_a_cut_goes_back_to_what_the_topic_is_known_to_hold() -> None:
    """An entry that both logs have, and that is under way, comes again behind the cut."""
    one = writer(8)
    one.arrive()
    one.hear()
    one.give_way(THEIRS[:7], 4)
    assert sent(one)[7:] == ["cut 1", 2, 3, 4, 5, 6, 7]
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS[:7]]


def test_what_was_said_before_a_cut_shows_nothing_of_what_stands_behind_it() -> None:
    """Its acknowledgement comes late; also that of an entry that both logs have."""
    one = writer(8)
    one.arrive()
    one.hear()
    one.give_way(THEIRS[:7], 4)
    for _ in range(7):
        one.arrive()
        assert one.hear() == []
    assert one.log_publisher.held == 1
    one.arrive()
    assert one.hear() == [], "the cut"
    one.arrive()
    assert one.hear() == [2]


def test_a_log_that_is_cut_twice_goes_back_to_the_first_cut_that_was_not_said() -> None:
    one = writer(8)
    one.settle()
    one.give_way(THEIRS, 4)
    one.sent.clear()
    third = grown(THEIRS[:9], "third", 2)
    one.give_way(third, 6)
    assert sent(one) == ["cut 5", *range(6, 12)]
    one.settle()
    assert one.topic.read().log == [line.point for line in third]


@pytest.mark.parametrize("arrived", range(9))
@pytest.mark.parametrize("noted", [False, True])
def test_who_dies_at_any_step_of_a_cut_says_what_is_missing(arrived: int, noted: bool) -> None:  # noqa: FBT001
    one = writer(8)
    one.settle()
    one.give_way(THEIRS, 4, dies=arrived == 0)
    for _ in range(arrived):
        if one.sent:
            one.arrive()
            if noted:
                one.hear()
    one.restart()
    one.log_publisher.lead(mine=True)
    before = len(one.topic.said)
    one.settle()
    assert one.topic.read().log == [line.point for line in THEIRS]
    said = len(one.topic.said) - before
    assert said <= len(THEIRS) - 5 + 1 - max(0, arrived - 1), "what the topic holds is not said again"


def test_a_long_log_goes_through_memory_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many payloads are read as may be under way; each acknowledgement lets the next one go."""
    monkeypatch.setattr(module, "FLYING", 100)
    one = writer(5)
    one.settle()
    one.asked = 0
    one.give_way(grown(OWN[:5], "long", 2000), 4)
    one.append(grown(one.log, "on", 1)[-1])
    assert (one.asked, len(one.sent)) == (100, 101)
    for _ in range(1000):
        one.arrive()
        one.hear()
        assert len(one.sent) <= 101
    one.settle()
    assert one.topic.read().log == [line.point for line in one.log]


def test_large_bodies_are_under_way_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FLYING_BYTES", 1)
    one = writer(4)
    assert sent(one) == [1]
    one.settle()
    assert one.topic.read().log == [line.point for line in OWN[:4]]


def test_what_is_not_kept_any_more_is_in_the_topic() -> None:
    """The end of the topic does not tell of it after a start."""
    one = writer(4)
    one.settle()
    one.gone = {1, 2, 3, 4}
    one.restart()
    one.log_publisher.lead(mine=True)
    assert sent(one) == []
    assert one.log_publisher.held == 4
    one.append(OWN[4])
    assert sent(one) == [5]
