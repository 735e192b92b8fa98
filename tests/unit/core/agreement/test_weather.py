"""The core in bad weather: see `tests/support/agreement/weather.py`.  A failing seed replays exactly."""

from __future__ import annotations

import pytest

from tests.support.agreement.coverage import FAULTS, STEPS
from tests.support.agreement.sim import some


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
