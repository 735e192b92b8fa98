"""Where entries stand, looked at in runs: always where the consumer has them that hears record by record."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from quadlog.codec import transactions
from quadlog.core.model import LogPosition, TransactionKind
from quadlog.errors import StateError
from quadlog.quadstore.applied import InAgreed
from quadlog.replay.agreed_lineage import AgreedLineage
from tests.support.agreement.random_entries import ASK, heard_from, random_agreed
from tests.support.masters.lineages import runs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quadlog.core.records import LoggedEntry
    from tests.support.agreement.random_entries import RandomAgreed

TOPICS = 60


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some entries stand in several records."""
    monkeypatch.setattr(transactions, "CHUNK", 600)


def followed(
    topic: RandomAgreed, size: int, points: Sequence[LogPosition], place: InAgreed | None = None
) -> tuple[AgreedLineage, list[InAgreed]]:
    place = place or InAgreed()
    records = topic.records
    lineage = AgreedLineage("agreed", place, lambda start, end: records[start:end])
    return lineage, lineage.follow(runs_of(records, size, place.offset), len(records), points)


def point_of(entry: LoggedEntry) -> LogPosition:
    return LogPosition(entry.index, entry.chain)


@pytest.mark.parametrize("size", [1, 2, 5, 16, 0])
@pytest.mark.parametrize("topics", [20, pytest.param(TOPICS, marks=pytest.mark.soak)])
def test_from_the_places_on_the_log_is_what_it_is(topics: int, size: int) -> None:
    counted = Counter[str]()
    for seed in range(topics):
        rng = random.Random(seed)
        topic = random_agreed(rng, steps=20)
        after, until = sorted(rng.sample(range(1, len(topic.log) + 1), 2))
        points = [point_of(topic.log[index - 1]) for index in (after, until)]
        lineage, places = followed(topic, size, points)
        for place, point in zip(places, points, strict=True):
            assert place.last == point
            rest = heard_from(topic.records[place.offset :], place.last, place.epoch)
            assert [one for one in rest if one.index > point.index] == topic.log[point.index :], seed
        configuring = [one for one in topic.log[after:until] if one.kind is TransactionKind.CONFIG]
        assert lineage.configuring(after, until) == configuring, seed
        again, [place] = followed(topic, size, points[1:], places[0])
        assert place == places[1]
        assert again.configuring(after, until) == configuring
        counted += Counter(
            alone=lineage.looked_at,
            before=places[1].offset,
            configuring=len(configuring),
            cut=topic.epoch > 1,
        )
    assert counted["cut"] > topics / 2
    assert counted["configuring"] > topics
    if size == 5:
        assert counted["alone"] < counted["before"] * 0.8, "no run ever counted as one"


def test_an_entry_that_is_not_there() -> None:
    topic = random_agreed(random.Random(1), steps=3)
    with pytest.raises(StateError, match=r"agreed has no entry 2 with the chain that its effect names"):
        followed(topic, 8, [LogPosition(2, bytes(32))])


def test_what_configures_is_read_whole() -> None:
    topic = random_agreed(random.Random(2), steps=10)
    lineage, _ = followed(topic, 16, [point_of(topic.log[-1])])
    bodies = {one.body for one in lineage.configuring(0, len(topic.log))}
    assert bodies == {ASK}
