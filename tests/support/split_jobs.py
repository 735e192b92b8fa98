"""Reports of splits that tests have made, each compared with the plain reader's."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import pytest

from quadlog.replay.spark import SparkSettings
from quadlog.splits.html import html_of
from quadlog.splits.plan import PlanHash
from quadlog.splits.rdf import turtle_of
from quadlog.splits.report import Report
from quadlog.splits.topics import WORK, SplitOptions
from quadlog.worker.evaluate.limits import EvaluationLimits
from tests.support import plain_splits
from tests.support.json_schema import SPLIT_REPORT, errors_in
from tests.support.plain_splits import read_topics

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.split_logs import SplitTopics


LIMITS: Final = EvaluationLimits(seconds=60, memory=1 << 30)


def options(topics: SplitTopics, directory: Path, **more: Any) -> SplitOptions:  # noqa: ANN401
    given: dict[str, Any] = {
        "kafkas": topics.kafkas,
        "directory": directory,
        "repository": topics.repository,
        "is_over": False,
        "limits": LIMITS,
        "spark": SparkSettings(),
    }
    return SplitOptions(**{**given, **more})


def made(
    spark: SparkSession,
    topics: SplitTopics,
    directory: Path,
    *,
    is_over: bool = False,
    **more: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Make a report; without options but dropped updates, the plain reader must have the same plan."""
    (directory / WORK).mkdir(parents=True)
    wanted = options(topics, directory, is_over=is_over, **more)
    lines = list[str]()
    with pytest.MonkeyPatch.context() as patched:
        original = PlanHash._add

        def add(self: PlanHash, line: dict[str, Any]) -> None:
            lines.append(json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
            original(self, line)

        patched.setattr(PlanHash, "_add", add)
        report = Report(wanted, spark, lambda _: nullcontext()).make()
    assert json.loads(json.dumps(report)) == report
    assert not [*errors_in(report, SPLIT_REPORT, SPLIT_REPORT)]
    assert report["plan"] in html_of(report)
    assert report["plan"] in turtle_of(report)
    if not {*more} - {"drop"}:
        read = read_topics(topics.repository, topics.kafkas)
        drop = frozenset(map(bytes.fromhex, more.get("drop", ())))
        found = (
            plain_splits.report(topics.repository, read)
            if is_over
            else plain_splits.preview(topics.repository, read, drop=drop)
        )
        assert lines == found.lines()
        assert found.hash == report["plan"]
        assert [one.name for one in found.branches] == [one["name"] for one in report["branches"]]
    return report
