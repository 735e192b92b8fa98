"""Archiving: write the oldest records of a topic to Parquet, with PySpark, before Kafka deletes them.

A record is archived unchanged, with offset, timestamp and headers, and with the index and the id of its entry, which
can be searched for.  So `Surveyor` and `reader` present archive and topic as one, to all code that reads topics through
them.  The written files are read again as stored on disk, and compared with Kafka, before they count.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

from quadlog.errors import StateError
from quadlog.ports import Record
from quadlog.replay.stretches import Stretch
from quadlog.replay.survey import RECORD, decoded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, Row

    from quadlog.replay.lineage import Between
    from quadlog.replay.stretches import Stretches
    from quadlog.replay.survey import Surveyor, Topic

_WINDOW: Final = 1024
"""Offsets whose records are fetched at once, for a reader of single records."""
_KEPT: Final = 16 * 1024 * 1024
"""Maximum bytes of them that are kept for the next read: each fetch is a Spark job."""
_BLOCK: Final = 16 * 1024 * 1024
"""Bytes of a row group, of which a task has one in memory."""
_ABOUT: Final = frozenset({"index", "id"})


def archive(surveyor: Surveyor, topic: Topic, stretches: Stretches, subject: str) -> Stretch:
    """Archive all records of a topic, from its beginning to its end.

    `subject` is that of the records with an index, as `schemas.record_name` returns it.

    Raises:
        StateError: the files on disk differ from the records in Kafka.

    """
    making = stretches.making(topic.beginning, topic.end)
    shutil.rmtree(making, ignore_errors=True)
    try:
        records = surveyor.records(topic, topic.beginning, topic.end, headers=True)
        known = records.select(*RECORD, decoded(subject, _ABOUT).alias("about")).select(
            *RECORD,
            f.col("about.index").alias("index"),
            f.lower(f.hex("about.id")).alias("id"),
        )
        known.write.option("parquet.block.size", _BLOCK).option("compression", "zstd").parquet(str(making))
        held = _checked(surveyor.stretch(making), known, making)
        stretch = Stretch(topic=topic.name, start=topic.beginning, end=topic.end, **held)
        stretches.keep(making, stretch)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return stretch


def _digest() -> list[Column]:
    hashed = f.xxhash64("offset", "timestamp", "key", "value", "headers")
    return [
        f.count("*").alias("records"),
        f.bit_xor(hashed).alias("digest"),
        f.min("index").alias("first"),
        f.max("index").alias("last"),
    ]


def _checked(written: DataFrame, known: DataFrame, path: Path) -> dict[str, Any]:
    """Return the aggregates of the files on disk, if they equal those of Kafka, which is read a second time.

    An `Observation` of the first read would save the second, but may never arrive: Spark 4.0 reports it by an event
    that can be lost, and waits for it without a timeout (SPARK-54620).
    """
    found, there = (_row(one.agg(*_digest())) for one in (written, known))
    if found != there:
        raise StateError(f"{path} holds {found}, and Kafka {there}: is its disk right?")
    return found


def _row(frame: DataFrame) -> dict[str, Any]:
    return frame.collect()[0].asDict()


def reader(surveyor: Surveyor, topic: Topic, between: Between) -> Between:
    """Return a reader of ranges of a topic; records that Kafka no longer has are read from the archive."""
    kept: tuple[int, list[Record]] = (-1, [])

    def window(place: int) -> list[Record]:
        nonlocal kept
        if kept[0] != place:
            end = min((place + 1) * _WINDOW, topic.in_kafka)
            rows = surveyor.records(topic, place * _WINDOW, end, headers=True).orderBy("offset").collect()
            found = [record_of(topic.name, row) for row in rows]
            is_small = sum(len(record.value) for record in found) <= _KEPT
            kept = (place if is_small else -1, found if is_small else [])
            return found
        return kept[1]

    def read(start: int, end: int) -> Iterator[Record]:
        boundary = min(end, topic.in_kafka)
        if start < boundary:
            for place in range(start // _WINDOW, -(-boundary // _WINDOW)):
                yield from (record for record in window(place) if start <= record.offset < boundary)
        if end > topic.in_kafka:
            yield from between(max(start, topic.in_kafka), end)

    return read


def record_of(topic: str, row: Row) -> Record:
    """Return a record of Kafka from a row of Spark with the columns `RECORD`."""
    found: list[Any] = row["headers"] or []
    headers = [(str(one["key"]), bytes(one["value"] or b"")) for one in found]
    return Record(topic, row["offset"], bytes(row["key"] or b""), bytes(row["value"] or b""), headers)
