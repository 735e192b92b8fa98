"""The archive on a real broker and a real Spark: what is read of archive and topic is what the topic had."""

from __future__ import annotations

import json
import random
import socket
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from quadlog.broker import records_between
from quadlog.codec import transactions
from quadlog.errors import StateError
from quadlog.quadstore.applied import Applied
from quadlog.replay import archiving, survey
from quadlog.replay.archiving import archive
from quadlog.replay.compact import source, stretches_of
from quadlog.replay.replay import CompactedRange
from quadlog.replay.survey import Surveyor
from tests.support.brokers import delete_before
from tests.support.masters.random_effects import counting_effects, random_topic, with_small_chunks
from tests.support.workers.replayed import agreed_for, compaction, produced, said

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from quadlog.ports import Record
    from quadlog.replay.bundle import BundleManifest
    from quadlog.replay.stretches import Stretch

# PySpark leaves the sockets to the collector that it talks to Java by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many runs, many chunks, many windows."""
    with_small_chunks(monkeypatch)
    monkeypatch.setattr(survey, "RUN", 16)
    monkeypatch.setattr(transactions, "CHUNK", 600)
    monkeypatch.setattr(archiving, "_WINDOW", 137)


def archived(
    spark: SparkSession,
    kafka: str,
    name: str,
    directory: Path,
    *,
    start: int = 0,
    end: int,
    entries: bool = False,
) -> Stretch:
    surveyor = Surveyor(spark)
    with source(surveyor, kafka, name) as found:
        topic = replace(found.topic, beginning=start, end=end)
        stretches = stretches_of(directory, kafka, name)
        return archive(surveyor, topic, stretches, "quadlog.Entry" if entries else "quadlog.Effect")


@dataclass(frozen=True, kw_only=True)
class History:
    """Effects with fences, chunks, rewinds and strangers, and what a bundle of them holds."""

    rng: random.Random
    topics: tuple[str, str]
    """Effects, and the agreed topic."""
    index: int
    """Of the last effect."""
    before: dict[str, list[Record]]
    """All records of each topic."""
    whole: Path
    bundle: BundleManifest


@pytest.fixture(
    scope="module", params=[(0, 30), *(pytest.param((n, 80), marks=pytest.mark.soak) for n in (2, 0, 1))]
)
def history(
    request: pytest.FixtureRequest, spark: SparkSession, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> History:
    seed, steps = request.param
    rng, path = random.Random(seed), tmp_path_factory.mktemp("history")
    with pytest.MonkeyPatch.context() as patched:
        make_small(patched)
        topic = random_topic(rng, steps=steps)
        consumer, effects = counting_effects(topic.records, Applied())
        name, agreed = produced(kafka, topic.records), agreed_for(kafka, effects)
        with compaction(spark, kafka, name, agreed) as job:
            bundle = job.write(CompactedRange(), path / "whole").proven()
    before = {one: list(records_between(kafka, one, 0, len(topic.records) + 1000)) for one in (name, agreed)}
    return History(
        rng=rng,
        topics=(name, agreed),
        index=consumer.index,
        before=before,
        whole=path / "whole",
        bundle=bundle,
    )


@pytest.fixture(scope="module")
def archive_of(
    history: History, spark: SparkSession, kafka: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Stretches of which some overlap; what stands in them is gone from Kafka."""
    directory, rng = tmp_path_factory.mktemp("archive") / "archive", history.rng
    with pytest.MonkeyPatch.context() as patched:
        make_small(patched)
        for one in history.topics:
            records = history.before[one]
            end = rng.choice([len(records), rng.randrange(60, len(records))])
            first, second = sorted(rng.sample(range(1, end), 2))
            for start, until in ((0, second), (first, second), (first, end)):
                archived(
                    spark, kafka, one, directory, start=start, end=until, entries=one == history.topics[1]
                )
            delete_before(kafka, one, rng.randrange(second, end + 1))
    return directory


@pytest.mark.long("many jobs of Spark")
def test_a_bundle_of_a_topic_goes_to_its_end(history: History) -> None:
    assert history.bundle.after.index == history.index


@pytest.mark.long("many jobs of Spark")
def test_archive_and_topic_are_read_as_one(
    history: History, archive_of: Path, spark: SparkSession, kafka: str
) -> None:
    surveyor, rng = Surveyor(spark), history.rng
    for one, before in history.before.items():
        with source(surveyor, kafka, one, archive_of) as found:
            assert found.topic.beginning == 0 < found.topic.in_kafka
            assert list(found.between(0, found.topic.end)) == before
            some = rng.randrange(len(before) - 50)
            assert list(found.between(some, some + 50)) == before[some : some + 50]


@pytest.mark.long("many jobs of Spark")
def test_a_bundle_of_archive_and_topic_is_that_of_the_topic(
    history: History, archive_of: Path, spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    with compaction(spark, kafka, *history.topics, archive_of) as job:
        assert job.follow(Applied()).index == history.index
        again = job.write(CompactedRange(), tmp_path / "again").proven()
    assert replace(again, files=()) == replace(history.bundle, files=())
    lines = [
        {word: sorted(some) for word, some in said(path, manifest).items()}
        for path, manifest in ((history.whole, history.bundle), (tmp_path / "again", again))
    ]
    assert lines[0] == lines[1]


def test_what_is_archived_is_found_by_its_index(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    topic = random_topic(random.Random(9), steps=40)
    name = produced(kafka, topic.records)
    stretch = archived(spark, kafka, name, tmp_path, end=len(topic.records))
    _, effects = counting_effects(topic.records, Applied())
    [path] = stretches_of(tmp_path, kafka, name).all()
    found = spark.read.parquet(str(path))
    index = max(effects)
    ids = {row["id"] for row in found.filter(f"index = {index}").collect()}
    assert effects[index].id.hex() in ids
    assert (stretch.first, stretch.records) == (1, len(topic.records))
    assert stretch.last is not None
    assert stretch.last >= index


def test_a_gap_between_archive_and_topic_is_told(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    """And what of a topic was archived is not of one that was made anew under its name."""
    topic = random_topic(random.Random(4), steps=40)
    _, effects = counting_effects(topic.records, Applied())
    name, agreed = produced(kafka, topic.records), agreed_for(kafka, effects)
    archived(spark, kafka, name, tmp_path / "archive", end=30)
    delete_before(kafka, name, 31)
    with (
        compaction(spark, kafka, name, agreed, tmp_path / "archive") as job,
        pytest.raises(StateError, match=r"lacks effect 1, .* it begins at offset 31"),
    ):
        job.write(CompactedRange(), tmp_path / "bundle").proven()
    admin = AdminClient({"bootstrap.servers": kafka})
    before = stretches_of(tmp_path / "archive", kafka, name)
    assert before.end == 30
    for gone in admin.delete_topics([name]).values():
        gone.result()
    produced(kafka, topic.records, name)
    assert stretches_of(tmp_path / "archive", kafka, name).end == 0


def test_what_the_disk_does_not_hold_is_not_archived(
    spark: SparkSession, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = random_topic(random.Random(4), steps=40)
    name = produced(kafka, topic.records)
    read = Surveyor.stretch

    def losing(surveyor: Surveyor, *paths: Path) -> DataFrame:
        return read(surveyor, *paths).filter("offset != 7")

    with monkeypatch.context() as patched:
        patched.setattr(Surveyor, "stretch", losing)
        with pytest.raises(StateError, match="is its disk right"):
            archived(spark, kafka, name, tmp_path, end=30)
    stretches = stretches_of(tmp_path, kafka, name)
    assert (stretches.end, stretches.all()) == (0, {})
    with subprocess.Popen(["true"]) as dead:
        pass
    left = stretches.making(0, 9).with_name(f"making.{socket.gethostname()}.{dead.pid}.0-9")
    left.mkdir(parents=True)
    archived(spark, kafka, name, tmp_path, end=30)
    [path] = stretches.all()
    assert [one.name for one in path.parent.iterdir()] == ["0-30"]
    said_of = path / "_stretch.json"
    said_of.write_text(json.dumps({"topic": name}))
    with pytest.raises(StateError, match=r"stretch.json is damaged: .*; take .*0-30 out of the archive"):
        stretches.before(30)
