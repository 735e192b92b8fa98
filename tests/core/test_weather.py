"""The core in bad weather: see `tests/core/weather.py`.  A failing seed replays exactly."""

from __future__ import annotations

import pytest

from tests.core.weather import Weather

SEEDS = 60


@pytest.mark.parametrize("masters", [1, 2, 3, 5])
def test_weather(masters: int) -> None:
    for seed in range(SEEDS):
        weather = Weather(seed, masters=masters)
        try:
            weather.run()
        except AssertionError as error:
            error.add_note(f"Weather({seed}, masters={masters}).run()")
            raise


def test_weather_with_posts_that_hold_a_part_of_the_queue_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quadlog.core.agreement.POST_LIMIT", 3)
    for seed in range(SEEDS):
        weather = Weather(seed, masters=3)
        try:
            weather.run()
        except AssertionError as error:
            error.add_note(f"POST_LIMIT 3, Weather({seed}, masters=3).run()")
            raise
