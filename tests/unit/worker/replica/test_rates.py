"""What a worker measures of its ways to catch up, and what it does without."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quadlog.core.catchup import CatchUpMethod, Rates, choose
from quadlog.worker.replica.rates import IDLE_MS, LEAST, LEAST_START_S, TELLING, RatesFile, StartMeter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> RatesFile:
    return RatesFile(tmp_path / "rates.json")


GIGABYTE = 1_000_000_000

RATES = Rates(incremental=10_000.0, compacted=40_000.0, start_s=15.0)
"""Such as a machine may have measured."""


@pytest.mark.parametrize(
    ("behind", "size", "least_s", "factor", "way"),
    [
        # What takes no more than the minimum is heard, whatever else there is.
        (5_999_999, 1, 600.0, 1.3, CatchUpMethod.INCREMENTAL),
        (6_000_000, 1, 600.0, 1.3, CatchUpMethod.INCREMENTAL),
        (6_000_100, 1, 600.0, 1.3, CatchUpMethod.FULL),
        (6_000_100, None, 600.0, 1.3, CatchUpMethod.COMPACTED),
        # Both have to be exceeded: a store of 60 GB takes 4,579 s.
        (10_000_000, 60 * GIGABYTE, 600.0, 1.3, CatchUpMethod.COMPACTED),
        (1_000, 60 * GIGABYTE, 0.0, 1.3, CatchUpMethod.INCREMENTAL),
        # 77 s, times 1.3 is 101; a bundle would take 40.
        (1_000_000, GIGABYTE, 99.0, 1.3, CatchUpMethod.COMPACTED),
        (1_000_000, GIGABYTE // 3, 99.0, 1.3, CatchUpMethod.FULL),
        (200_000, GIGABYTE, 0.0, 1.0, CatchUpMethod.INCREMENTAL),
        (200_001, GIGABYTE, 0.0, 1.0, CatchUpMethod.COMPACTED),
        (200_001, GIGABYTE, 0.0, 1.1, CatchUpMethod.INCREMENTAL),
        # However small it is, a copy takes 0.2 s.
        (1_999, 1, 0.0, 1.0, CatchUpMethod.INCREMENTAL),
        (2_001, 1, 0.0, 1.0, CatchUpMethod.FULL),
    ],
)
def test_the_documented_rule(
    behind: int, size: int | None, least_s: float, factor: float, way: CatchUpMethod
) -> None:
    """At 10,000 effects/s, by a bundle 40,000 after 15 s, over 104,857,600 bits/s."""
    assert choose(behind, RATES, size=size, least_s=least_s, factor=factor).way is way


def test_each_way_is_kept_by_itself(file: RatesFile) -> None:
    assert file.read() == Rates()
    file.keep(incremental=7.0)
    file.keep(compacted=8.0)
    assert file.read() == Rates(incremental=7.0, compacted=8.0)
    file.keep(copied=9.0)
    assert file.read() == Rates(incremental=7.0, compacted=8.0, copied=9.0)


def test_what_is_set_holds_until_it_is_measured(tmp_path: Path) -> None:
    for speed in (5.0, 6.0):
        file = RatesFile(tmp_path / "rates.json", speed=speed)
        file.keep(incremental=7.0)
        assert file.read() == Rates(incremental=7.0, copied=speed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"speed": 1}',
        '{"incremental": "fast"}',
        '{"incremental": null}',
        '{"compacted": 0}',
    ],
)
def test_what_cannot_be_read_is_guessed(tmp_path: Path, text: str) -> None:
    (tmp_path / "rates.json").write_text(text)
    assert RatesFile(tmp_path / "rates.json").read() == Rates()


def test_a_start_is_measured_with_all_its_waits(file: RatesFile) -> None:
    stretch = StartMeter(file, until=30_100)
    for index, moment in ((100, 1_000.0), (100, 1_500.0), (20_100, 2_000.0), (30_099, 3_500.0)):
        stretch.note(index, moment)
    assert file.read() == Rates()
    stretch.note(30_200, 4_010.0)
    assert file.read().incremental == pytest.approx(10_000.0)


def test_what_comes_later_is_not_of_a_start(file: RatesFile) -> None:
    stretch = StartMeter(file, until=LEAST)
    stretch.note(0, 1_000.0)
    stretch.note(LEAST, 2_000.0)
    stretch.note(9 * LEAST, 2_001.0)
    assert file.read().incremental == LEAST


def test_a_start_that_waits_for_others_says_nothing(file: RatesFile) -> None:
    stretch = StartMeter(file, until=2 * LEAST)
    for index, moment in ((0, 0.0), (LEAST, 6_000.0), (LEAST, 6_001.0 + IDLE_MS), (2 * LEAST, 20_000.0)):
        stretch.note(index, moment)
    assert file.read() == Rates()


def test_a_start_that_goes_on_slowly_is_measured(file: RatesFile) -> None:
    stretch = StartMeter(file, until=2 * LEAST)
    for index, moment in ((0, 0.0), (LEAST, 6_000.0), (LEAST, 10_000.0), (2 * LEAST, 20_000.0)):
        stretch.note(index, moment)
    assert file.read().incremental == LEAST / 10


def test_a_short_one_says_nothing(file: RatesFile) -> None:
    stretch = StartMeter(file, until=LEAST)
    stretch.note(1, 1.0)
    stretch.note(LEAST, 1_000.0)
    stretch.note(2 * LEAST, 10_000.0)
    assert file.read() == Rates()


def test_a_large_bundle_tells_the_rate_and_a_small_one_the_start(file: RatesFile) -> None:
    file.keep(start_s=15.0)
    file.keep_bundle(10 * TELLING, 65.0)
    assert file.read() == Rates(compacted=TELLING / 5, start_s=15.0)
    file.keep_bundle(TELLING // 5, 8.0)
    assert file.read() == Rates(compacted=TELLING / 5, start_s=7.0)
    file.keep_bundle(TELLING // 5, 21.0)
    assert file.read() == Rates(compacted=TELLING / 5, start_s=20.0), (
        "it took longer than the start was known to take"
    )


@pytest.mark.parametrize(("effects", "seconds"), [(10, 0.1), (2 * TELLING, 7.0)])
def test_a_bundle_that_is_there_at_once_needs_no_start(file: RatesFile, effects: int, seconds: float) -> None:
    """Not less than nothing, and no rate without an end."""
    file.keep(start_s=7.0)
    file.keep_bundle(effects, seconds)
    assert file.read() == Rates(start_s=LEAST_START_S)


@pytest.mark.parametrize(
    ("behind", "rates", "way"),
    [
        (0, RATES, CatchUpMethod.INCREMENTAL),
        (599_999, replace(RATES, incremental=1_000.0), CatchUpMethod.INCREMENTAL),  # 600 s at the most
        (601_000, replace(RATES, incremental=1_000.0), CatchUpMethod.COMPACTED),
        (
            601_000,
            replace(RATES, incremental=1_000.0, compacted=1_500.0),
            CatchUpMethod.COMPACTED,
        ),  # 601 > 1.3 * 415.7
        (
            601_000,
            replace(RATES, incremental=1_000.0, compacted=1_300.0),
            CatchUpMethod.INCREMENTAL,
        ),  # 601 < 1.3 * 477.3
        (601_000, replace(RATES, incremental=1_000.0, start_s=500.0), CatchUpMethod.INCREMENTAL),
        (6_000_000, RATES, CatchUpMethod.INCREMENTAL),
        (6_001_000, RATES, CatchUpMethod.COMPACTED),
        (10_000_000, replace(RATES, incremental=20_000.0), CatchUpMethod.INCREMENTAL),
        (100_000_000, replace(RATES, incremental=20_000.0), CatchUpMethod.COMPACTED),
    ],
)
def test_what_was_measured_decides(behind: int, rates: Rates, way: CatchUpMethod) -> None:
    assert choose(behind, rates).way is way
