"""What a worker measures of its ways to catch up, and what it does without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from quadlog.core.catchup import Rates, Way, choose
from quadlog.worker.rates import LEAST, RatesFile, Stretch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> RatesFile:
    return RatesFile(tmp_path / "rates.json")


def test_each_way_is_kept_by_itself(file: RatesFile) -> None:
    assert file.read() == Rates()
    file.keep(incremental=7.0)
    file.keep(compacted=8.0)
    assert file.read() == Rates(incremental=7.0, compacted=8.0)


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


def test_a_stretch_is_measured_from_its_first_batch_to_its_last(file: RatesFile) -> None:
    stretch = Stretch(file)
    for index, moment, goes_on in ((100, 1_000.0, True), (3_100, 1_500.0, True), (6_100, 2_000.0, True)):
        stretch.note(index, moment, goes_on=goes_on)
    assert file.read() == Rates()
    stretch.note(6_100, 2_000.0, goes_on=False)
    assert file.read().incremental == 6_000.0


def test_a_short_one_says_nothing(file: RatesFile) -> None:
    stretch = Stretch(file)
    stretch.note(1, 1.0, goes_on=True)
    stretch.note(LEAST, 1_000.0, goes_on=False)
    stretch.note(LEAST, 9_000.0, goes_on=False)
    stretch.note(2 * LEAST, 10_000.0, goes_on=False)
    assert file.read() == Rates()


@pytest.mark.parametrize(
    ("behind", "rates", "way"),
    [
        (0, Rates(), Way.INCREMENTAL),
        (599_999, Rates(incremental=1_000.0), Way.INCREMENTAL),  # 600 s at the most
        (601_000, Rates(incremental=1_000.0), Way.COMPACTED),
        (601_000, Rates(incremental=1_000.0, compacted=1_500.0), Way.COMPACTED),  # 601 > 1.3 * 415.7
        (601_000, Rates(incremental=1_000.0, compacted=1_300.0), Way.INCREMENTAL),  # 601 < 1.3 * 477.3
        (601_000, Rates(incremental=1_000.0, start_s=500.0), Way.INCREMENTAL),
        (6_000_000, Rates(), Way.INCREMENTAL),
        (6_001_000, Rates(), Way.COMPACTED),
        (10_000_000, Rates(incremental=20_000.0), Way.INCREMENTAL),
        (100_000_000, Rates(incremental=20_000.0), Way.COMPACTED),
    ],
)
def test_the_documented_rule(behind: int, rates: Rates, way: Way) -> None:
    assert choose(behind, rates).way is way
