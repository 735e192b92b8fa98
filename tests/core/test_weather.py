"""The core in bad weather: see `tests/core/weather.py`.  A failing seed replays exactly."""

from __future__ import annotations

import pytest

from tests.core.weather import Weather, limits_of


@pytest.mark.parametrize("first", range(0, 80, 10))
def test_weather(first: int) -> None:
    for seed in range(first, first + 10):
        weather = Weather(seed, limits=limits_of(seed))
        try:
            weather.run()
        except AssertionError as error:
            error.add_note(f"Weather({seed}, limits=limits_of({seed})).run()")
            raise


def test_one_master_alone() -> None:
    for seed in range(20):
        Weather(seed, masters=1, limits=limits_of(seed)).run()
