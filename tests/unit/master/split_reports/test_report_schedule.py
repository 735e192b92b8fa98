"""When reports are tried: soon, after growing pauses, a limited number of times, and what of it survives a restart."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from quadlog.master.split_reports.report_request import EndedSide
from quadlog.master.split_reports.report_schedule import FRESH_MS, PAUSES_S, REMEMBERED, ReportSchedule

SIDE = EndedSide("dc3-m1", "dc3", 1_000, 7)
OTHER = EndedSide("dc2-m1", "dc2", 2_000, 7)


def noted(*sides: EndedSide) -> ReportSchedule:
    schedule = ReportSchedule()
    assert schedule.note(sides, moment=0.0, wall=3_000)
    return schedule


def test_the_first_attempt_waits_for_effects() -> None:
    schedule = noted(SIDE)
    assert not schedule.due(PAUSES_S[0] * 1000 - 1)
    [one] = schedule.due(PAUSES_S[0] * 1000)
    assert (one.side, one.attempts, one.is_last) == (SIDE, 0, False)


def test_a_side_is_noted_once() -> None:
    schedule = noted(SIDE)
    assert not schedule.note([SIDE], moment=1.0, wall=3_000)
    schedule.settle(SIDE)
    assert not schedule.note([SIDE], moment=2.0, wall=3_000)
    assert not schedule.pending


def test_the_same_master_may_give_way_again() -> None:
    schedule = noted(SIDE)
    schedule.settle(SIDE)
    assert schedule.note([SIDE._replace(at=2_500, fork=9)], moment=2.0, wall=3_000)


def test_what_was_long_ago_is_not_new() -> None:
    schedule = ReportSchedule()
    assert not schedule.note([SIDE], moment=0.0, wall=SIDE.at + FRESH_MS)
    assert schedule.note([SIDE], moment=0.0, wall=SIDE.at + FRESH_MS - 1)


def test_pauses_grow_and_attempts_end() -> None:
    assert all(one < other for one, other in pairwise(PAUSES_S))
    assert sum(PAUSES_S) * 1000 < FRESH_MS
    schedule, moment = noted(SIDE, OTHER), 0.0
    for number, pause in enumerate(PAUSES_S):
        assert SIDE not in [one.side for one in schedule.due(moment + pause * 1000 - 1)]
        moment += pause * 1000
        one = next(one for one in schedule.due(moment) if one.side == SIDE)
        assert one.is_last == (number == len(PAUSES_S) - 1)
        assert schedule.fail(SIDE, "not there yet", moment, is_failure=False) is one
    assert one.is_given_up
    assert one.is_failure, "a report that never came is one"
    assert one.as_json(moment) == {
        "node": "dc3-m1",
        "dc": "dc3",
        "fork": 7,
        "attempts": len(PAUSES_S),
        "reason": "not there yet",
        "again_in_s": None,
    }
    assert [one.side for one in schedule.due(1e12)] == [OTHER]


def test_a_restart_remembers_all_of_it() -> None:
    schedule = noted(SIDE, OTHER, last := OTHER._replace(at=2_001))
    schedule.settle(SIDE)
    schedule.fail(OTHER, "no Java", 0.0, is_failure=True)
    for _ in PAUSES_S:
        schedule.fail(last, "no Java", 0.0, is_failure=True)
    state = json.loads(json.dumps(schedule.state()))
    again = ReportSchedule.restored(state, 50_000.0)
    assert again.state() == schedule.state()
    assert not again.note([SIDE, OTHER, last], moment=50_000.0, wall=3_000)
    [one] = again.due(50_000.0 + PAUSES_S[0] * 1000)
    assert (one.side, one.attempts, one.reason, one.is_failure) == (OTHER, 1, "no Java", True)


def test_a_damaged_memory_is_none() -> None:
    damaged: list[dict[str, Any]] = [
        {"settled": 7},
        {"settled": [[1]]},
        {"pending": [{}]},
        {"pending": ["x"]},
    ]
    for state in damaged:
        schedule = ReportSchedule.restored(state, 0.0)
        assert schedule.note([SIDE], moment=0.0, wall=3_000)


def test_the_memory_is_bounded() -> None:
    sides = [SIDE._replace(at=at) for at in range(3 * REMEMBERED)]
    schedule = noted(*sides)
    for one in sides[: REMEMBERED + 50]:
        for _ in PAUSES_S:
            schedule.fail(one, "", 0.0, is_failure=True)
    for one in sides[REMEMBERED + 50 :]:
        schedule.settle(one)
    state = schedule.state()
    assert (len(state["settled"]), len(state["pending"])) == (REMEMBERED, REMEMBERED)
    assert EndedSide(*state["settled"][-1]) == sides[-1]
