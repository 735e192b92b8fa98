"""The audit on a real broker and a real Spark: what is found, each once, whatever dies between two steps."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import consumers.audit
from producers.agreed import AgreedProducer
from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog.broker import Admin, KafkaOutlet
from quadlog.compare.violations import lines_of, violations_in
from quadlog.core.model import hash_of
from quadlog.core.records import Effect, Heartbeat, LoggedEntry, ViolationKind
from quadlog.errors import SetupError, SparkFailed, StateError
from quadlog.replay import audit as job
from quadlog.replay.audit import Audit, AuditOptions
from quadlog.replay.spark import SparkSettings, told
from quadlog.topics import Topics
from tests.support.brokers import never
from tests.support.whole_log import FENCE, beat, effects_of, entry, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# PySpark leaves the sockets to the collector that it talks to Java by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
DCS = ("dc1", "dc2")


class Cluster:
    """The topics of two data centres, in one Kafka."""

    def __init__(self, kafka: str, repository: str) -> None:
        """Empty."""
        self.kafka, self.repository = kafka, repository
        self.outlet = KafkaOutlet(kafka, client="writer", failed=never)
        for dc in DCS:
            topics = Topics(repository, dc)
            names = [topics.agreed, topics.effects, topics.status]
            Admin(kafka).ensure(names, replication=1, config={})

    def writes(self, dc: str, *said: LoggedEntry | Effect | Heartbeat) -> None:
        topics = Topics(self.repository, dc)
        for one in said:
            match one:
                case LoggedEntry():
                    AgreedProducer(self.outlet, topics.agreed, "m1").publish(one, lambda _: None)
                case Effect():
                    EffectsProducer(self.outlet, topics.effects, "w1", dc).publish(one, at=0)
                case Heartbeat():
                    StatusProducer(self.outlet, topics.status).publish(one)
        self.outlet.flush()

    def fences(self, dc: str) -> None:
        EffectsProducer(self.outlet, Topics(self.repository, dc).effects, "w1", dc).publish_fence(FENCE, at=0)

    def options(self, directory: Path) -> AuditOptions:
        kafkas = dict.fromkeys(DCS, self.kafka)
        return AuditOptions(
            directory=directory, kafkas=kafkas, repository=self.repository, batch=40, spark=SparkSettings()
        )

    def found(self) -> Counter[tuple[ViolationKind, str, int]]:
        """What the topic has."""
        topic = Topics(self.repository, "dc1").audit
        return Counter((one.kind, one.dc, one.index) for one in violations_in(self.kafka, topic))


@pytest.fixture
def cluster(kafka: str) -> Iterator[Cluster]:
    running = Cluster(kafka, f"audit-{uuid.uuid4().hex[:8]}")
    yield running
    running.outlet.close()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers.audit, "PATIENCE_MS", 300.0)
    monkeypatch.setattr(job, "PATIENCE_MS", 300.0)


def audited(cluster: Cluster, directory: Path, spark: SparkSession) -> int:
    """As `--once`, with a session that is there; the number of records that were compared."""
    options = cluster.options(directory)
    job.remember(options)
    with Audit(options, print) as audit, told("nothing is lost"):
        audit.to_the_end(spark)
        time.sleep(0.4)
        audit.to_the_end(spark)
        audit.finish(spark)
        return audit.records


def in_parquet(directory: Path, spark: SparkSession) -> Counter[tuple[ViolationKind, str, int]]:
    rows = spark.read.parquet(str(directory / "violations" / "*")).collect()
    return Counter((ViolationKind(row["kind"]), row["dc"], row["index"]) for row in rows)


def once(*found: tuple[ViolationKind, str, int]) -> Counter[tuple[ViolationKind, str, int]]:
    return Counter(dict.fromkeys(found, 1))


def test_each_violation_is_found_once_over_restarts(
    cluster: Cluster, tmp_path: Path, spark: SparkSession
) -> None:
    log = log_of(50)
    effects = effects_of(log)
    for dc in DCS:
        cluster.fences(dc)
        cluster.writes(dc, *log[:45], *effects[:45], *(beat(one, worker=f"{dc}-w1") for one in effects[:45]))
    assert audited(cluster, tmp_path / "audit", spark) == 2 * (3 * 45 + 1)
    assert not cluster.found()
    cluster.writes("dc1", *log[45:], beat(effects[3], signature=hash_of(b"wrong")))
    cluster.writes("dc2", replace(log[45], body=b"DROP ALL"), log[46], log[48])
    cluster.writes("dc2", replace(effects[45], inserted=("<urn:other> <urn:p> <urn:o> .",)))
    cluster.writes("dc1", effects[45], effects[47])
    assert audited(cluster, tmp_path / "audit", spark) == 12
    found = once(
        (ViolationKind.WRONG_STATE, "dc1", 4),
        (ViolationKind.FORGED_ENTRY, "dc2", 46),
        (ViolationKind.MISSING_ENTRY, "dc2", 48),
        (ViolationKind.FORGED_EFFECT, "dc2", 46),
        (ViolationKind.TWO_EFFECTS, "dc2", 46),
        (ViolationKind.MISSING_EFFECT, "dc1", 47),
    )
    assert cluster.found() == found
    assert in_parquet(tmp_path / "audit", spark) == found
    assert audited(cluster, tmp_path / "audit", spark) == 0
    assert cluster.found() == found


@pytest.mark.parametrize("step", ["_publish", "state"])
def test_a_batch_that_fails_is_repeated_and_doubles_nothing(
    cluster: Cluster, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It ends before the violations are in their topic, or after that, before the state is written."""
    log = log_of(3)
    cluster.writes("dc1", *log[:2], entry(log[1], "only here"))
    cluster.writes("dc2", *log)
    options = cluster.options(tmp_path / "audit")
    job.remember(options)
    with monkeypatch.context() as patched:
        patched.setattr(*((job, "write_durably", fails) if step == "state" else (Audit, step, fails)))
        with pytest.raises(SparkFailed), Audit(options, print) as audit, told("nothing is lost"):
            audit.to_the_end(spark)
    assert sum(cluster.found().values()) == (step == "state")
    audited(cluster, tmp_path / "audit", spark)
    found = once((ViolationKind.TWO_ENTRIES, "dc2", 3))
    assert cluster.found() == found
    assert in_parquet(tmp_path / "audit", spark) == found


def fails(*_: object) -> None:
    raise OSError("as if it had died")


def test_a_directory_that_cannot_continue(cluster: Cluster, tmp_path: Path, spark: SparkSession) -> None:
    log = log_of(2)
    cluster.writes("dc1", log[0])
    directory = tmp_path / "audit"
    audited(cluster, directory, spark)
    other = replace(cluster.options(directory), repository="another")
    with pytest.raises(SetupError, match="name another directory"):
        job.remember(other)
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("")
    with pytest.raises(SetupError, match="not empty"):
        job.remember(cluster.options(full))
    for file in (directory / "state").iterdir():
        file.write_bytes(b"of another version")
    cluster.writes("dc1", log[1])
    with pytest.raises(StateError, match="name an empty directory"):
        audited(cluster, directory, spark)
    with pytest.raises(SetupError, match="no topic"):
        Audit(replace(cluster.options(tmp_path / "no"), repository="nobody"), print)


def test_the_report_has_the_numbers_first(cluster: Cluster, tmp_path: Path, spark: SparkSession) -> None:
    cluster.writes("dc1", replace(log_of(1)[0], body=b"DROP ALL"))
    audited(cluster, tmp_path / "audit", spark)
    topic = Topics(cluster.repository, "dc1")
    lines = lines_of(violations_in(cluster.kafka, topic.audit))
    assert lines == [
        "1 FORGED_ENTRY",
        f"FORGED_ENTRY dc1 {topic.agreed}@0, entry 1: its digest is not that of its payload",
    ]
    assert lines_of([]) == ["no violations"]
