"""The core in bad weather: see `tests/core/weather.py`.  A failing seed replays exactly."""

from __future__ import annotations

import pytest

from quadlog.core.messages import Limits
from tests.core.weather import TINY, Weather

SEEDS = 60


@pytest.mark.parametrize("masters", [1, 2, 3, 5])
@pytest.mark.parametrize("limits", [Limits(), TINY], ids=["usual", "tiny"])
def test_weather(masters: int, limits: Limits) -> None:
    for seed in range(SEEDS):
        weather = Weather(seed, masters=masters, limits=limits)
        try:
            weather.run()
        except AssertionError as error:
            error.add_note(f"Weather({seed}, masters={masters}, limits={limits}).run()")
            raise
