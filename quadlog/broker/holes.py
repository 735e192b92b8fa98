"""Holes: records that are missing in the middle of a topic, as compaction leaves them.

Kafka numbers the records of a partition without gaps, except for the marker after each transaction; quadlog uses no
transactions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from quadlog.broker.reading import batch, beginning_of, end_of, reading
from quadlog.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """Offsets of a topic at which there are no records."""

    topic: str
    first: int
    """Offset of the first missing record."""
    end: int
    """Offset of the next existing record, or the end of the topic."""

    def __str__(self) -> str:
        """Return a sentence for messages."""
        return f"{self.topic} has no records at offsets {self.first} to {self.end - 1}"


def first_hole(kafka: str, topic: str) -> Hole | None:
    """Return the first hole in a topic; None after all of it was read without finding one.

    Raises:
        Unavailable: no broker answers.

    """
    return next(_holes(kafka, topic), None)


def _holes(kafka: str, topic: str) -> Iterator[Hole]:
    at, (end, _) = beginning_of(kafka, topic), end_of(kafka, topic, count=0)
    heard_at = time.monotonic()
    with reading(kafka, "quadlog-holes") as consumer:
        consumer.assign([TopicPartition(topic, 0, at)])
        while at < end:
            for record in batch(consumer, timeout=0.5):
                heard_at = time.monotonic()
                if at < record.offset:
                    yield Hole(topic=topic, first=at, end=record.offset)
                at = record.offset + 1
            if time.monotonic() - heard_at > PATIENCE_S:
                raise Unavailable(f"{topic} did not go on at offset {at} of {end} within {PATIENCE_S:.0f} s")
