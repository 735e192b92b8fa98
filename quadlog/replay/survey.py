"""Topics as Spark reads them, and the survey: which of their records are runs.

Whether records follow from each other depends on their order, but Spark works in parallel.  So it aggregates values
that do not depend on order: the number of records, the least and the greatest difference of index and offset, the
writer, and an exclusive or of hashes of the values before and after each record, in which all but the two at the ends
cancel each other.  A run has exactly 1,024 records, with no other record between them.

All values are numbers of 64 bits, also the signatures at the ends: Spark aggregates them without an object per record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

import schemas
from consumers.agreed import AgreedRun
from consumers.effects import Run
from quadlog.broker.connection import credentials_for
from quadlog.codec.envelope import EPOCH
from quadlog.core.model import TransactionKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import Column, Row, SparkSession

    from quadlog.replay.stretches import StretchPart

RUN: Final = 1024
"""Records of a run.  A fence causes that many to be read one by one; each run is one row in memory."""
TASK: Final = 100_000
"""Records that one task reads, in about a second."""
SHORT: Final = 5_000
"""Records below which another task, with a Kafka client of its own, takes longer than it saves."""
FETCH: Final = 2 * 1024 * 1024
"""Bytes of one fetch of Kafka's client.  Spark requests the ends of the topic after each fetch: smaller fetches take
longer, larger ones fill the heap of a small session."""

_HEADER: Final = 5
_WORD: Final = 8
"""Bytes of a number."""
ALL: Final = 1 << 30
"""Length to pass for the whole rest of a value."""
_EFFECT: Final = frozenset(
    {"index", "term", "attempt", "signature_before", "signature_after", "chunk", "chunks"}
)
RECORD: Final = ("offset", "timestamp", "key", "value", "headers")
"""Columns of a Kafka record."""
_ARCHIVED: Final = (
    "offset long, timestamp timestamp, key binary, value binary, headers array<struct<key: string, value: binary>>,"
    " index long, id string"
)
"""The same, with the index and the id of the entry that the record belongs to."""
_IDS: Final = frozenset({"index", "kind", "id", "epoch", "chunk", "chunks"})
_ENTRY: Final = frozenset({"index", "kind", "previous", "chain", "epoch", "chunk", "chunks"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of one partition, up to its present end."""

    kafka: str
    name: str
    beginning: int
    """Offset of the first record, in Kafka or archived."""
    end: int
    """Offset after its last record."""
    archived: tuple[StretchPart, ...] = ()
    """Records that Kafka no longer has; in order, without a gap."""

    @property
    def in_kafka(self) -> int:
        """Offset of the first record that is read from Kafka."""
        return self.archived[-1].end if self.archived else self.beginning


class Surveyor:
    """Reads topics with one session of Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark: Final = spark
        self._cores: Final = spark.sparkContext.defaultParallelism

    def tasks_for(self, records: int, most: int = TASK) -> int:
        """Return the number of tasks for so many records: two for each core, fewer if there are few records.

        `most`: records of one task, at most.
        """
        return max(min(2 * self._cores, -(-records // SHORT)), -(-records // most), 1)

    def effects(self, topic: Topic, start: int, *, knows_epochs: bool) -> list[Run]:
        """Return the runs of effects from an offset to the topic's end, in order.

        With `knows_epochs`, the epoch of each record is read from its headers; that takes as long as everything else.
        """
        if topic.end - start < RUN:
            return []
        records = self.records(topic, start, topic.end, headers=knows_epochs)
        epoch = _epoch() if knows_epochs else f.lit(1)
        heads = _heads(records, decoded("quadlog.Effect", _EFFECT), epoch=epoch)
        writer = ("epoch", "term", "attempt")
        return [
            Run(
                **_place(row),
                epoch=row["epoch"],
                term=_bytes(row, "term"),
                attempt=row["attempt"],
                before=_bytes(row, "signature_before"),
                after=_bytes(row, "signature_after"),
            )
            for row in self._runs(
                heads,
                writer,
                before="signature_before",
                after="signature_after",
                tasks=self.tasks_for(topic.end - start),
            )
        ]

    def entries(self, topic: Topic, start: int) -> list[AgreedRun]:
        """Return the runs of entries that configure nothing, from an offset to the topic's end, in order."""
        if topic.end - start < RUN:
            return []
        heads = _heads(self.records(topic, start, topic.end), decoded("quadlog.Entry", _ENTRY))
        return [
            AgreedRun(
                **_place(row),
                epoch=row["epoch"],
                previous=_bytes(row, "previous"),
                chain=_bytes(row, "chain"),
            )
            for row in self._runs(
                heads.filter(f.col("kind") != TransactionKind.CONFIG.value),
                ("epoch",),
                before="previous",
                after="chain",
                tasks=self.tasks_for(topic.end - start),
            )
        ]

    def ids(self, topic: Topic, start: int, end: int) -> DataFrame:
        """Return index and id (hexadecimal) of all TX entries in the records between two offsets, also of void ones."""
        heads = _heads(self.records(topic, start, end), decoded("quadlog.Entry", _IDS), where="chunk = 0")
        return heads.filter(f.col("kind") == TransactionKind.TX.value).select(
            "index", f.lower(f.hex("id")).alias("id")
        )

    def _runs(
        self, heads: DataFrame, writer: Sequence[str], *, before: str, after: str, tasks: int
    ) -> list[Row]:
        """Return one row for each `RUN` offsets that are a run, in order.

        `writer`: columns that identify the writer of a record.  `before` and `after`: columns with the value of 32
        bytes that a record continues, and that the next one continues.
        """
        self.spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
        numbers = [name for name in writer if name != "term"]
        place, at = f.expr(f"offset div {RUN}"), f.expr(f"offset % {RUN}")
        hashed = heads.select(
            place.alias("place"),
            at.alias("at"),
            f.expr("index - offset").alias("shift"),
            f.xxhash64(*writer).alias("writer"),
            # Inside a run, the `after` of one record and the `before` of the next cancel each other.
            f.expr(f"xxhash64(index - 1, {before})").alias("behind"),
            f.expr(f"xxhash64(index, {after})").alias("ahead"),
            *numbers,
            *_words(before, at == 0),
            *_words(after, at == RUN - 1),
            *(_words("term", at == 0) if "term" in writer else ()),
        )
        found = hashed.groupBy("place").agg(
            f.count("*").alias("records"),
            *(
                end(name).alias(f"{end.__name__}_{name}")
                for end in (f.min, f.max)
                for name in ("shift", "writer")
            ),
            f.expr("bit_xor(behind ^ ahead)").alias("links"),
            f.max(f.when(f.col("at") == 0, f.col("behind"))).alias("first"),
            f.max(f.when(f.col("at") == RUN - 1, f.col("ahead"))).alias("last"),
            *(f.max(name).alias(name) for name in hashed.columns if name in numbers or "/" in name),
        )
        is_run = (
            f"records = {RUN} and min_shift = max_shift and min_writer = max_writer and links = first ^ last"
        )
        return sorted(found.filter(is_run).collect(), key=lambda row: row["place"])

    def records(self, topic: Topic, start: int, end: int, *, headers: bool = False) -> DataFrame:
        """Return the records between two offsets, with the columns `RECORD`; `headers` only on request."""
        names = [name for name in RECORD if headers or name != "headers"]
        pieces = [piece for piece in topic.archived if piece.end > start and piece.start < end]
        parts = [
            self.stretch(piece.path).filter(f"offset < {piece.end}") for piece in pieces if not piece.is_whole
        ]
        if whole := [piece.path for piece in pieces if piece.is_whole]:
            parts.append(self.stretch(*whole))
        parts = [part.filter(f"offset >= {start} and offset < {end}") for part in parts]
        if end > topic.in_kafka or not parts:
            parts.append(self._in_kafka(topic, max(start, topic.in_kafka), end, headers=headers))
        return reduce(DataFrame.union, (part.select(*names) for part in parts))

    def stretch(self, *paths: Path) -> DataFrame:
        """Return the records archived in these directories, with the columns `RECORD`, index and id."""
        return self.spark.read.schema(_ARCHIVED).parquet(*map(str, paths))

    def _in_kafka(self, topic: Topic, start: int, end: int, *, headers: bool) -> DataFrame:
        options = {
            **kafka_options(topic.kafka),
            "assign": json.dumps({topic.name: [0]}),
            "startingOffsets": json.dumps({topic.name: {"0": start}}),
            "endingOffsets": json.dumps({topic.name: {"0": end}}),
            "minPartitions": str(self.tasks_for(end - start)),
            "includeHeaders": str(headers).lower(),
            "kafka.max.partition.fetch.bytes": str(FETCH),
            "kafka.fetch.max.bytes": str(FETCH),
            # At the end of the topic a fetch waits for more records, and all requests after it wait, too.
            "kafka.fetch.max.wait.ms": "10",
            "kafka.receive.buffer.bytes": str(FETCH // 2),
            # All records of a fetch: Spark fetches the rest again.
            "kafka.max.poll.records": str(FETCH // 16),
        }
        return self.spark.read.format("kafka").options(**options).load()


def kafka_options(kafka: str) -> dict[str, str]:
    """Return Spark's options for a Kafka: its address, and how to log in."""
    credentials = credentials_for(kafka)
    properties = {} if credentials is None else credentials.java()
    return {
        "kafka.bootstrap.servers": kafka,
        **{f"kafka.{name}": text for name, text in properties.items()},
    }


def decoded(subject: str, names: frozenset[str], value: Column | None = None) -> Column:
    """Return a column with some decoded fields of a record; null for records of another subject.

    `subject` is a name as `schemas.record_name` returns it; `value` is the column `value` by default.
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


def _heads(
    records: DataFrame, said: Column, *, where: str = "chunk = 0 and chunks = 1", **more: Column
) -> DataFrame:
    """Return the fields of all records that could be decoded, of complete ones unless `where` says otherwise."""
    return (
        # Spark does not move a filter below a column that is not deterministic.  Otherwise it would decode each record
        # once more for each condition of the filter.
        records.select(
            "offset",
            *(column.alias(name) for name, column in more.items()),
            said.alias("said"),
            f.monotonically_increasing_id().alias("row"),
        )
        .select("offset", *more, "said.*", "row")
        .filter(f"row >= 0 and index is not null and epoch is not null and {where}")
    )


def _words(name: str, where: Column) -> list[Column]:
    """Return 32 bytes as four numbers; null for records that `where` excludes."""
    return [
        f.when(where, f.conv(f.hex(f.substring(name, 1 + at, _WORD)), 16, -10).cast("long")).alias(
            f"{name}/{at}"
        )
        for at in range(0, 4 * _WORD, _WORD)
    ]


def _bytes(row: Row, name: str) -> bytes:
    return b"".join(
        row[f"{name}/{at}"].to_bytes(_WORD, "big", signed=True) for at in range(0, 4 * _WORD, _WORD)
    )


def _place(row: Row) -> dict[str, int]:
    start = row["place"] * RUN
    first = start + row["min_shift"]
    return {"offset": start, "first": first, "last": first + RUN - 1}


def _epoch() -> Column:
    """Return the epoch of the writer's view, 1 without a header; null if another program wrote the record."""
    said = f.element_at(f.filter("headers", lambda header: header["key"] == EPOCH), -1)["value"]
    return f.when(said.isNull(), 1).otherwise(said.cast("string").try_cast("long"))
