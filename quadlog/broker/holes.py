"""Holes: records that are missing in the middle of a topic, as compaction leaves them.

Kafka numbers the records of a partition without gaps, except for the marker after each transaction; quadlog uses no
transactions.
"""

from __future__ import annotations

from dataclasses import dataclass

from quadlog.broker.reading import beginning_of, end_of, records_between


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
    at, (end, _) = beginning_of(kafka, topic), end_of(kafka, topic, count=0)
    for record in records_between(kafka, topic, at, end):
        if at < record.offset:
            return Hole(topic=topic, first=at, end=record.offset)
        at = record.offset + 1
    return Hole(topic=topic, first=at, end=end) if at < end else None
