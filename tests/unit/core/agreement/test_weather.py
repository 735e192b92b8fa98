"""The core in bad weather: see `tests/support/agreement/weather.py`.  A failing seed replays exactly."""

from __future__ import annotations

import pytest

from tests.support.agreement.coverage import FAULTS, STEPS
from tests.support.agreement.sim import limits_of, some
from tests.support.agreement.weather import APPROVING, TWINS, Weather


@pytest.mark.parametrize("first", range(0, 84, 28))
def test_weather(first: int) -> None:
    """Of 28 seeds each kind of weather has some."""
    report = some(range(first, first + 28))
    assert report.failure == "", report.failure
    assert report.seeds == 28
    faults, steps = zip(*report.met, strict=True)
    assert (set(faults), set(steps)) == (set(FAULTS), set(STEPS))


def test_one_master_alone() -> None:
    report = some(range(20), masters=1)
    assert report.failure == "", report.failure
    assert report.seeds == 20
    assert report.met["crash", "add"] > 0


def test_no_side_gives_way_unapproved() -> None:
    gave_way = dropped = 0
    for seed in range(APPROVING, APPROVING + 20):
        weather = Weather(seed, limits=limits_of(seed))
        weather.run()
        gave_way += weather.world.safety.approvals.gave_way
        dropped += weather.world.safety.approvals.dropped
    assert gave_way > 20
    assert dropped > 5


def test_an_id_that_is_used_twice_holds_nobody_up() -> None:
    """One side of a split agrees on one update, and another one of the same id waits on the other side."""
    twins = 0
    for seed in (*range(TWINS, TWINS + 20), TWINS + 179):
        weather = Weather(seed, limits=limits_of(seed))
        weather.run()
        given = [transaction.id for transaction in weather.world.transactions]
        twins += len(given) - len(set(given))
    assert twins > 50
