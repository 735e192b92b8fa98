"""`quadlog audit`: a stream of all that the data centres write, compared by `consumers/audit.py`.

    DIRECTORY/offsets/                 Spark's checkpoint: which records each batch has
    DIRECTORY/state/<batch>            the auditor behind that batch; the last two are kept
    DIRECTORY/violations/<batch>/      Parquet; a batch that is repeated replaces its own

Spark repeats the last batch with the same records if a process ends within it.  The auditor continues from the state
behind the batch before, so no record is skipped and none is read twice.  A violation that the topic for violations has
already is not written there again.
"""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from consumers.audit import PATIENCE_MS, Auditor
from producers.audit import ViolationProducer, key_of
from quadlog.broker import Admin, KafkaOutlet, beginning_of, end_of, last_records
from quadlog.broker.topic_settings import AUDIT, config_of
from quadlog.core.records import Violation
from quadlog.errors import QuadlogError, SetupError, StateError, Unavailable
from quadlog.quadstore.quaddir import sync
from quadlog.replay.archiving import record_of
from quadlog.replay.spark import SparkSettings, session, told
from quadlog.replay.survey import kafka_options
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH: Final = 5_000
"""Default of the maximum number of records of one data centre in a batch."""
KNOWN: Final = 10_000
"""Number of the newest violations in the topic that a start reads, so as not to write them again."""
AGAIN_S: Final = 5.0
"""Seconds after which a stream that failed begins again."""
ACKED_S: Final = 60.0
"""Seconds within which Kafka must have taken the violations of a batch."""
_COLUMNS: Final = "kind string, dc string, topic string, offset long, index long, explanation string"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Options of the commands."""

    directory: Path
    kafkas: Mapping[str, str]
    """Bootstrap servers, by data centre; violations are written to the first one's topic."""
    repository: str = "main"
    batch: int = BATCH
    """Maximum number of records of one data centre in a batch."""
    once: bool = False
    """True: end when everything that is there now was compared."""
    spark: SparkSettings


def run_audit(wanted: AuditOptions, say: Callable[[str], None]) -> int:
    """Compare all records, from where the directory says; return 1 if it ends and has found violations.

    A stream that fails, as one whose Kafka does not answer, begins again until this process is told to stop.

    Raises:
        SetupError: the directory is of another audit, or a data centre has no such topics.
        SparkFailed: with `once`, a stream failed.

    """
    remember(wanted)
    with Audit(wanted, say) as audit, session(wanted.spark, say) as spark:
        if wanted.once:
            with told("nothing is lost: run it again"):
                audit.to_the_end(spark)
                # Nothing is missing before it is late: what is written meanwhile may explain what waits.
                time.sleep(PATIENCE_MS / 1000)
                audit.to_the_end(spark)
                audit.finish(spark)
            say(f"{audit.records} records compared, {audit.found} violations")
        else:
            audit.without_end(spark)
        return int(audit.found > 0)


def remember(wanted: AuditOptions) -> None:
    """Note in the directory what it audits: offsets and states mean nothing for other topics."""
    asked = {"repository": wanted.repository, "dcs": sorted(wanted.kafkas)}
    file = wanted.directory / "audit.json"
    try:
        wanted.directory.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            if any(wanted.directory.iterdir()):
                raise SetupError(
                    f"{wanted.directory} is not empty, and no directory of an audit; name another one"
                )
            write_durably(file, json.dumps(asked).encode())
        there = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise SetupError(f"{wanted.directory} cannot be the directory of an audit: {error}") from error
    if there != asked:
        raise SetupError(f"{wanted.directory} audits {there}, asked for was {asked}; name another directory")


class Audit(AbstractContextManager["Audit"]):
    """One process that audits: the batches of its streams, one after the other.  A context manager."""

    def __init__(self, wanted: AuditOptions, say: Callable[[str], None]) -> None:
        """Open the topic for violations, and make it where it is missing.

        Raises:
            SetupError: a data centre has no such topics, or a broker refuses to make that one.
            Unavailable: the Kafka of a data centre does not answer.

        """
        self._wanted, self._say = wanted, say
        self._states: Final = wanted.directory / "state"
        self._auditor = Auditor(wanted.repository, wanted.kafkas)
        self._topics: Final = {dc: self._auditor.topics_of(dc) for dc in wanted.kafkas}
        for dc, kafka in wanted.kafkas.items():
            own = self._topics[dc]
            if missing := set(own).difference(Admin(kafka).ids(own)):
                raise SetupError(
                    f"the Kafka at {kafka} has no topic {min(missing)}: correct --repository, or the name {dc}"
                )
        self._states.mkdir(parents=True, exist_ok=True)
        first, self._kafka = next(iter(wanted.kafkas.items()))
        self._topic: Final = Topics(wanted.repository, first).audit
        admin = Admin(self._kafka)
        [agreed] = admin.describe([Topics(wanted.repository, first).agreed])
        config = config_of(AUDIT, replication=agreed.replicas)
        admin.ensure([self._topic], replication=agreed.replicas, config=config)
        self._known: Final = _known(self._kafka, self._topic)
        self._failure = ""
        self._outlet: Final = KafkaOutlet(self._kafka, client="quadlog-audit", failed=self._note_failure)
        self._producer: Final = ViolationProducer(self._outlet, self._topic)
        self._behind: int | None = None
        """Number of the batch behind which `_auditor` is; None: it is behind none, as a batch has failed."""
        self._error: StateError | None = None
        """Why no stream of this directory can continue."""
        self.found = 0
        """Number of violations that this process has found."""
        self.records = 0
        """Number of records that it has compared."""

    def __exit__(self, *error: object) -> None:
        """Close the connection to Kafka."""
        self._outlet.close()

    def _note_failure(self, why: str) -> None:
        self._failure = why

    def to_the_end(self, spark: SparkSession) -> None:
        """Compare everything that is there now."""
        try:
            self._stream(spark).trigger(availableNow=True).start().awaitTermination()
        except PySparkException:
            self._give_up()
            raise

    def without_end(self, spark: SparkSession) -> None:
        """Compare everything that comes, until this process is told to stop."""
        while True:
            query: StreamingQuery = self._stream(spark).start()
            try:
                query.awaitTermination()
            except PySparkException as error:
                self._give_up()
                self._say(f"the stream has failed and begins again in {AGAIN_S:g} s: {self._why(error)}")
                time.sleep(AGAIN_S)
                continue
            return

    def _give_up(self) -> None:
        if self._error is not None:
            raise self._error

    def _why(self, error: Exception) -> str:
        """Return what an operator has to know of a failure: most often a Kafka does not answer."""
        for dc, kafka in self._wanted.kafkas.items():
            try:
                beginning_of(kafka, Topics(self._wanted.repository, dc).agreed)
            except QuadlogError as why:
                return f"{dc}: {why}"
        return str(error).partition("\n")[0]

    def _stream(self, spark: SparkSession) -> Any:  # noqa: ANN401 - PySpark does not export its type
        """Return the stream of the topics of all data centres, each in the order of its offsets."""
        frames = [self._topics_of(spark, dc, kafka) for dc, kafka in self._wanted.kafkas.items()]
        union = reduce(DataFrame.union, frames)
        records = union.select("topic", "offset", "key", "value", "headers")
        return records.writeStream.foreachBatch(self.on_batch).option(
            "checkpointLocation", str(self._wanted.directory / "offsets")
        )

    def _topics_of(self, spark: SparkSession, dc: str, kafka: str) -> DataFrame:
        """Return the stream of one data centre's topics."""
        options = {
            **kafka_options(kafka),
            "assign": json.dumps({topic: [0] for topic in self._topics[dc]}),
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self._wanted.batch),
            # At the end of a topic a fetch waits for more records.
            "kafka.fetch.max.wait.ms": "10",
            "includeHeaders": "true",
            # Records that were deleted before they were read are a gap, which the auditor reports.
            "failOnDataLoss": "false",
        }
        return spark.readStream.format("kafka").options(**options).load()

    def on_batch(self, batch: DataFrame, number: int) -> None:
        """Compare the records of a batch, write what was found, then the state behind it."""
        auditor, found = self._take_auditor(number - 1), list[Violation]()
        counts = Counter[str]()
        now = time.monotonic() * 1000
        # One task, and one job, for all topics: most batches have a second of heartbeats.
        for row in batch.coalesce(1).toLocalIterator():
            record = record_of(row["topic"], row)
            counts[record.topic] += 1
            found += auditor.on_record(record, now)
        if all(sum(counts[topic] for topic in own) < self._wanted.batch for own in self._topics.values()):
            # It has all that there was.
            found += auditor.on_time(now)
        self.records += sum(counts.values())
        self._keep(batch.sparkSession, found, number, name=str(number))

    def finish(self, spark: SparkSession) -> None:
        """Report what is overdue, when everything that is there was compared."""
        if (number := self._behind) is None:
            return  # there was no record since the start
        found = self._take_auditor(number).on_time(time.monotonic() * 1000)
        self._keep(spark, found, number, name=f"{number}-end")

    def _keep(self, spark: SparkSession, found: list[Violation], number: int, *, name: str) -> None:
        """Write what was found, then the state behind it."""
        if found:
            self._publish(found)
            rows = [tuple((asdict(one) | {"kind": one.kind.value}).values()) for one in found]
            path = self._wanted.directory / "violations" / name
            made: Any = spark  # the types of PySpark name those of pandas, which is not there
            made.createDataFrame(rows, _COLUMNS).coalesce(1).write.mode("overwrite").parquet(str(path))
        write_durably(self._states / str(number), pickle.dumps(self._auditor))
        for old in self._states.iterdir():
            if old.name.isdecimal() and int(old.name) < number - 1:
                old.unlink()
        self._behind = number
        self.found += len(found)
        for one in found:
            self._say(f"{one.kind}: {one.topic} at {one.offset}, entry {one.index}: {one.explanation}")

    def _take_auditor(self, number: int) -> Auditor:
        """Return the auditor behind a batch; -1: before the first one."""
        if self._behind != number:
            self._auditor = self._saved(number)
        self._behind = None
        return self._auditor

    def _saved(self, number: int) -> Auditor:
        if number < 0:
            return Auditor(self._wanted.repository, self._wanted.kafkas)
        file = self._states / str(number)
        try:
            auditor = pickle.loads(file.read_bytes())  # noqa: S301 - our own file
        except (
            OSError,
            pickle.UnpicklingError,
            ArithmeticError,
            AttributeError,
            EOFError,
            ImportError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            self._error = StateError(
                f"{file} is missing or of another version ({error}): name an empty directory, the audit then begins"
                " with the oldest records"
            )
            raise self._error from error
        assert isinstance(auditor, Auditor)
        auditor.resume(time.monotonic() * 1000)
        return auditor

    def _publish(self, found: Iterable[Violation]) -> None:
        """Write violations to their topic, but those that it has."""
        new = {key_of(one): one for one in found if key_of(one) not in self._known}
        left, done = len(new), threading.Event()

        def acked(_: int) -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()

        for one in new.values():
            self._producer.publish(one, acked, at=time.time_ns() // 1_000_000)
        if new and not done.wait(ACKED_S):
            raise Unavailable(f"{self._topic} has not taken the violations: {self._failure or self._kafka}")
        self._known.update(new)


def _known(kafka: str, topic: str) -> set[str]:
    """Return the keys of the newest violations in the topic."""
    if not end_of(kafka, topic, count=0)[0]:
        return set()
    return {record.key.decode(errors="replace") for record in last_records(kafka, topic, count=KNOWN)}


def write_durably(file: Path, content: bytes) -> None:
    """Write a file that is whole and durable, or not there."""
    making = file.with_name(f"{file.name}.making")
    with making.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    making.rename(file)
    sync(file.parent)
