"""Previews of random splits have the plan of the plain reader."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.support.plain_updates import Updates
from tests.support.split_jobs import made
from tests.support.split_logs import DCS, MAJORITY, MINORITY, SECOND, SideLog, SplitTopics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# PySpark leaves the sockets to the collector that it talks to Java by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def topics(kafka: str) -> Iterator[SplitTopics]:
    made = SplitTopics(kafka)
    yield made
    made.close()


def random_text(random: Random) -> str:
    """An update about a few subjects and graphs: two sides often concern the same lines."""
    one, other = (f"<urn:s{random.randrange(4)}>" for _ in range(2))
    value, graph = random.randrange(3), f"<urn:g{random.randrange(2)}>"
    return random.choice(
        [
            f"INSERT DATA {{ {one} <urn:p> {value} }}",
            f"DELETE DATA {{ {one} <urn:p> {value} }}",
            f"DELETE {{ {one} <urn:p> ?o }} INSERT {{ {one} <urn:p> {value} }} WHERE {{ {one} <urn:p> ?o }}",
            f"INSERT {{ {one} <urn:p> ?o }} WHERE {{ {other} <urn:p> ?o }}",
            f"INSERT {{ {one} <urn:n> ?n }} WHERE {{ SELECT (COUNT(*) AS ?n) {{ ?s <urn:p> ?o }} }}",
            f"DELETE WHERE {{ {one} ?p ?o }}",
            f"INSERT DATA {{ GRAPH {graph} {{ {one} <urn:p> {value} }} }}",
            f"DELETE WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }}",
            f"CREATE SILENT GRAPH {graph}",
            f"CLEAR SILENT GRAPH {graph}",
            f"DROP SILENT GRAPH {graph}",
            f"CREATE GRAPH {graph}",
            "INSERT DATA { no update",
        ]
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30))
def test_random_sides_have_the_plan_of_the_plain_reader(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path, seed: int
) -> None:
    """Two branches beside the winner; what became of them is what was foreseen."""
    random = Random(seed)
    base, store = SideLog(), Updates([])
    for number in range(10):
        base.evaluate(f"{random_text(random)} # {number}", store)
    shared = [f"{random_text(random)} # both" for _ in range(2)]
    sides = [base.fork(MAJORITY), *(base.fork(view) for view in (MINORITY, SECOND))]
    for side in sides:
        store = Updates(side.effects)
        texts = [
            f"{random_text(random)} # {side.view.id.hex()[:8]} {number}"
            for number in range(random.randrange(15))
        ]
        texts += [text for text in dict.fromkeys(shared) if random.random() < 0.5]
        random.shuffle(texts)
        for text in texts:
            side.evaluate(text, store)
    for dc, side, epoch in zip(DCS, sides, (2, 1, 1), strict=True):
        topics.write(dc, side.entries, side.effects)
        topics.post(dc, side.view, side.last, epoch=epoch)
    report = made(spark, topics, tmp_path / "p")
    assert len(report["sides"]) >= 1
