"""Topics as Spark reads them, and the survey: which of their records are runs.

What follows from what is a question of order, and Spark answers in parallel.  So it looks at what does not depend on
order: how many records there are, the least and the greatest distance of index and offset, who wrote them, and an
exclusive or of hashes of what is before and after each of them, in which all but the two at the ends take each other
away.  Nothing of this is believed beyond 1,024 records, nor where anything else stands between them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

import schemas
from consumers.agreed import AgreedRun
from consumers.agreed_lineage import Configuring
from consumers.effects import Run
from quadlog.core.model import Kind
from quadlog.envelope import EPOCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row, SparkSession

RUN: Final = 1024
"""Records that are one run at most.  A fence makes so many be heard one by one, and each run is a line in memory."""
TASK: Final = 100_000
"""Records that one task reads: a second of work."""
FETCH: Final = 2 * 1024 * 1024
"""Bytes that Kafka's client fetches at once.  Spark asks for the ends of the topic after each fetch: less takes longer,
and more fills the heap of a small session."""

_HEADER: Final = 5
ALL: Final = 1 << 30
"""Length of what is behind a prefix."""
_EFFECT: Final = frozenset(
    {"index", "term", "attempt", "signature_before", "signature_after", "chunk", "chunks"}
)
_ENTRY: Final = frozenset({"index", "kind", "previous", "chain", "epoch", "chunk", "chunks"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of one partition, as far as it goes now."""

    kafka: str
    name: str
    beginning: int
    end: int
    """Offset behind its last record."""


class Surveyor:
    """Reads topics with one session of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is read yet."""
        self._spark = spark
        self.tasks: Final = 2 * spark.sparkContext.defaultParallelism
        """At the least: two for each core."""

    def effects(self, topic: Topic, start: int, *, knows_epochs: bool) -> list[Run]:
        """Runs of effects from an offset to the topic's end, in order.

        `knows_epochs`: headers are read, and say of which epoch a record is; that takes as long as all else.
        """
        records = self.records(topic, start, topic.end, headers=knows_epochs)
        epoch = _epoch() if knows_epochs else f.lit(1)
        heads = _heads(records, decoded("quadlog.Effect", _EFFECT), epoch=epoch)
        rows = self._runs(
            heads, ("epoch", "term", "attempt"), before="signature_before", after="signature_after"
        )
        return [
            Run(
                **_place(row),
                epoch=row["writers"][0]["epoch"],
                term=bytes(row["writers"][0]["term"]),
                attempt=row["writers"][0]["attempt"],
                before=bytes(row["before"]),
                after=bytes(row["after"]),
            )
            for row in rows
        ]

    def entries(self, topic: Topic, start: int) -> list[Configuring]:
        """Runs of entries from an offset to the topic's end, in order, and which of them configure something."""
        heads = _heads(self.records(topic, start, topic.end), decoded("quadlog.Entry", _ENTRY))
        configuring = f.collect_list(f.when(f.col("kind") == Kind.CONFIG.value, f.col("offset")))
        rows = self._runs(
            heads, ("epoch",), configuring.alias("configuring"), before="previous", after="chain"
        )
        return [
            Configuring(
                AgreedRun(
                    **_place(row),
                    epoch=row["writers"][0]["epoch"],
                    previous=bytes(row["before"]),
                    chain=bytes(row["after"]),
                ),
                sorted(row["configuring"]),
            )
            for row in rows
        ]

    def _runs(
        self, heads: DataFrame, writer: Sequence[str], *more: Column, before: str, after: str
    ) -> list[Row]:
        """Of each `RUN` offsets, where they are a run; in order.

        Args:
            heads: whole records of one kind.
            writer: columns that say who wrote a record.
            more: to be known of a run.
            before: column with what a record stands on.
            after: with what the next one does.

        """
        self._spark.conf.set("spark.sql.shuffle.partitions", str(self.tasks))
        found = heads.groupBy(f.expr(f"offset div {RUN}").alias("place")).agg(
            f.count("*").alias("records"),
            f.min("offset").alias("start"),
            f.max("offset").alias("last"),
            f.min(f.expr("index - offset")).alias("shift"),
            f.max(f.expr("index - offset")).alias("other_shift"),
            f.collect_set(f.struct(*writer)).alias("writers"),
            f.min_by(before, "offset").alias("before"),
            f.max_by(after, "offset").alias("after"),
            # What is in between is one record's after and the next one's before: these take each other away.
            f.expr(f"bit_xor(xxhash64(index - 1, {before}) ^ xxhash64(index, {after}))").alias("links"),
            *more,
        )
        linked = "links = xxhash64(start + shift - 1, before) ^ xxhash64(last + shift, after)"
        runs = found.filter(
            f"records = last - start + 1 and shift = other_shift and size(writers) = 1 and {linked}"
        )
        return sorted(runs.collect(), key=lambda row: row["start"])

    def records(self, topic: Topic, start: int, end: int, *, headers: bool = False) -> DataFrame:
        """The records between two offsets."""
        tasks = max(self.tasks, -(-(end - start) // TASK))
        options = {
            "kafka.bootstrap.servers": topic.kafka,
            "assign": json.dumps({topic.name: [0]}),
            "startingOffsets": json.dumps({topic.name: {"0": start}}),
            "endingOffsets": json.dumps({topic.name: {"0": end}}),
            "minPartitions": str(tasks),
            "includeHeaders": str(headers).lower(),
            "kafka.max.partition.fetch.bytes": str(FETCH),
            "kafka.fetch.max.bytes": str(FETCH),
            "kafka.receive.buffer.bytes": str(FETCH // 2),
            # All that was fetched: Spark has the rest fetched again.
            "kafka.max.poll.records": str(FETCH // 16),
        }
        return self._spark.read.format("kafka").options(**options).load()


def decoded(subject: str, names: frozenset[str], value: Column | None = None) -> Column:
    """Some fields of a record of ours; nothing of what is none of this subject.

    Args:
        subject: as `schemas.record_name` has it.
        names: of the fields.
        value: of the Kafka record; None: the column of that name.

    """
    value = f.col("value") if value is None else value
    versions = schemas.versions(subject)
    options = {"mode": "PERMISSIVE", "avroSchema": schemas.part(versions[-1], names)}
    found = f.lit(None)
    for schema_id in versions:
        prefix = f.lit(bytearray(b"\0" + schema_id.to_bytes(_HEADER - 1, "big")))
        avro = from_avro(f.substring(value, _HEADER + 1, ALL), schemas.text(schema_id), options)
        found = f.when(f.substring(value, 1, _HEADER) == prefix, avro).otherwise(found)
    return found


def _heads(records: DataFrame, said: Column, **more: Column) -> DataFrame:
    """What whole records say, of those that say it."""
    return (
        # Not below a column that is not deterministic does Spark move a filter: it would decode once more for each of
        # its conditions.
        records.select(
            "offset",
            *(column.alias(name) for name, column in more.items()),
            said.alias("said"),
            f.monotonically_increasing_id().alias("row"),
        )
        .select("offset", *more, "said.*", "row")
        .filter("row >= 0 and index is not null and chunk = 0 and chunks = 1 and epoch is not null")
    )


def _place(row: Row) -> dict[str, int]:
    start, last, shift = row["start"], row["last"], row["shift"]
    return {"offset": start, "first": start + shift, "last": last + shift}


def _epoch() -> Column:
    """Of the view of a record's writer; null where another program wrote it."""
    said = f.element_at(f.filter("headers", lambda header: header["key"] == EPOCH), -1)["value"]
    return f.when(said.isNull(), 1).otherwise(said.cast("string").try_cast("long"))
