"""Reports that a master has made, on a real broker and a real Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from quadlog.master.split_reports.report_files import ReportFiles
from quadlog.master.split_reports.report_request import EndedSide, ReportOutcome, ReportRequest
from quadlog.splits.unattended.missing_reports import MissingReports
from tests.support.plain_splits import read_topics
from tests.support.plain_splits import report as plain_report
from tests.support.split_logs import AGAIN, MAJORITY, MINORITY, SideLog, SplitTopics, quad

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

FORK = 3
SIDE = EndedSide("dc3-m1", "dc3", 1, FORK)
NAME = f"{FORK}-{MINORITY.id.hex()[:12]}"


@pytest.fixture
def topics(kafka: str) -> Iterator[SplitTopics]:
    made = SplitTopics(kafka)
    yield made
    made.close()


def made(spark: SparkSession, topics: SplitTopics, files: ReportFiles, **more: Any) -> ReportOutcome:  # noqa: ANN401
    """What one process does."""
    given: dict[str, Any] = {
        "directory": files.path,
        "repository": topics.repository,
        "kafkas": topics.kafkas,
        "credentials": {},
        "archive": None,
        "spark_master": "local[2]",
        "spark_memory": 512,
        "scratch": files.scratch,
        "sides": (SIDE,),
        "urgent": (),
        "known": (),
    }
    return MissingReports(ReportRequest(**given | more), spark).make()


@pytest.mark.long("two processes with Spark, one after the other")
def test_a_report_is_made_when_all_of_it_is_there_and_once(
    spark: SparkSession, topics: SplitTopics, tmp_path: Path
) -> None:
    base, files = SideLog(), ReportFiles(tmp_path)
    for name in ("urn:a", "urn:b", "urn:c"):
        base.agree(f'INSERT DATA {{ <{name}> <urn:p> "1" }}', inserted=[quad(name)])
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    ours.agree('INSERT DATA { <urn:w> <urn:p> "1" }', inserted=[quad("urn:w")])
    theirs.agree('INSERT DATA { <urn:x> <urn:p> "1" }', inserted=[quad("urn:x")])
    theirs.agree('INSERT DATA { <urn:y> <urn:p> "1" }', inserted=[quad("urn:y")])
    topics.apart(ours, theirs)
    files.begin()

    outcome = made(spark, topics, files)
    assert outcome.missing == ((SIDE, f"the agreed topic of dc3 has no branch after {FORK}"),)

    then = ours.fork(AGAIN)
    then.agree_again(theirs.entries[FORK], inserted=[quad("urn:x")])
    topics.together(FORK, ours, then)
    outcome = made(spark, topics, files)
    assert outcome.missing == ((SIDE, f"1 updates of {NAME} are not evaluated again yet"),)
    assert files.summaries() == []

    lost = {**topics.kafkas, "dc4": "127.0.0.1:1"}
    [(side, reason)] = made(spark, topics, files, kafkas=lost).missing
    assert side == SIDE
    assert reason.startswith("dc4 is not reached: ")

    both = SIDE, SIDE._replace(node="dc3-m2")
    outcome = made(spark, topics, files, sides=both, urgent=both)
    assert outcome == ReportOutcome(made=(NAME,))
    [summary] = files.summaries()
    assert (summary["name"], summary["classes"], summary["dcs"]) == (
        NAME,
        {"commutes": 1, "waits": 1},
        ["dc3"],
    )
    plan = plain_report(topics.repository, read_topics(topics.repository, topics.kafkas))
    assert summary["plan"] == plan.hash == json.loads(files.file(NAME, "json").read_text())["plan"]
    assert plan.hash in files.file(NAME, "html").read_text()
    assert plan.hash in files.file(NAME, "ttl").read_text()
    assert files.file(NAME, "rdfp").read_text().splitlines() == [
        f'H branch "{NAME}" .',
        *("TX .", f"A {quad('urn:x')}", f"A {quad('urn:y')}", "TC ."),
    ]
    assert sorted(path.name for path in (files.path / NAME).iterdir()) == [
        "report.html",
        "report.json",
        "report.rdfp",
        "report.ttl",
        "summary.json",
    ]

    assert made(spark, topics, files, sides=both, known=(NAME,)) == ReportOutcome()


def test_a_report_that_fails_is_said(spark: SparkSession, topics: SplitTopics, tmp_path: Path) -> None:
    base, files = SideLog(), ReportFiles(tmp_path)
    base.agree('INSERT DATA { <urn:a> <urn:p> "1" }', inserted=[quad("urn:a")])
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    ours.agree('INSERT DATA { <urn:w> <urn:p> "1" }', inserted=[quad("urn:w")])
    theirs.agree('INSERT DATA { <urn:x> <urn:p> "1" }', inserted=[quad("urn:x")])
    topics.apart(ours, theirs)
    then = ours.fork(AGAIN)
    then.agree_again(theirs.entries[1], inserted=[quad("urn:x")])
    topics.together(1, ours, then)
    side = SIDE._replace(fork=1)
    files.path.write_text("no directory")
    [(failed, reason)] = made(spark, topics, files, sides=(side,)).failed
    assert failed == side
    assert reason.startswith("NotADirectoryError: ")
