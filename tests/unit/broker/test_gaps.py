"""Topics that went back, by their ends and by the last record that was read; without a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from quadlog.anchors import Anchor, Gap
from quadlog.broker.gaps import gaps
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import Consumer, TopicPartition


@dataclass
class Said:
    """As a message of a consumer's."""

    record: Record

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self.record.topic

    def offset(self) -> int:
        return self.record.offset

    def key(self) -> bytes:
        return self.record.key

    def value(self) -> bytes:
        return self.record.value

    def headers(self) -> list[tuple[str, bytes]]:
        return self.record.headers


class Topics:
    """As a consumer of topics, each with the offset of its first record."""

    def __init__(self, topics: Mapping[str, tuple[int, Sequence[Record]]]) -> None:
        self.topics = topics
        self.waiting: list[Said] = []

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        assert timeout > 0
        begins, records = self.topics[partition.topic]
        return begins, records[-1].offset + 1 if records else begins

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.waiting = [
            Said(record)
            for partition in partitions
            for record in self.topics[partition.topic][1]
            if record.offset >= partition.offset
        ]

    def poll(self, timeout: float) -> Said | None:
        assert timeout > 0
        return self.waiting.pop(0) if self.waiting else None

    def consume(self, count: int, timeout: float) -> list[Said]:
        assert (count, timeout) == (1000, 0)
        found, self.waiting = self.waiting, []
        return found

    def unassign(self) -> None:
        self.waiting = []


def records(topic: str, name: str, first: int, end: int) -> list[Record]:
    return [Record(topic, at, b"k", f"{name}{at}".encode(), [("id", b"%d" % at)]) for at in range(first, end)]


READ = records("t", "a", 0, 7)
ANCHOR = Anchor.of(READ[6])


@pytest.mark.parametrize(
    ("begins", "there", "found"),
    [
        (0, records("t", "a", 0, 7), None),
        (0, records("t", "a", 0, 20), None),
        (6, records("t", "a", 6, 20), None),
        (
            7,
            records("t", "a", 7, 20),
            None,
        ),  # what was read was deleted: nothing tells, and nothing is missing
        (4, [*records("t", "a", 4, 6), *records("t", "a", 8, 9)], None),  # compacted
        (0, records("t", "a", 0, 5), Gap(read=7, begins=0, ends=5)),
        (0, [], Gap(read=7, begins=0, ends=0)),
        (0, [*records("t", "a", 0, 5), *records("t", "b", 5, 7)], Gap(read=7, begins=0, ends=7)),
        (0, [*records("t", "a", 0, 5), *records("t", "b", 5, 90)], Gap(read=7, begins=0, ends=90)),
        (9, records("t", "a", 9, 20), Gap(read=7, begins=9, ends=20, is_front=True)),
    ],
)
def test_a_topic_that_was_read_up_to_an_offset(begins: int, there: list[Record], found: Gap | None) -> None:
    consumer = cast("Consumer", Topics({"t": (begins, there), "u": (0, records("u", "a", 0, 3))}))
    others = {"u": Anchor.of(records("u", "a", 2, 3)[0])}
    seen = gaps(consumer, {"t": 7, "u": 1}, {"t": ANCHOR, **others})
    assert seen == ({} if found is None else {"t": found})


@pytest.mark.parametrize(
    ("at", "end", "is_back"), [(3, 3, False), (4, 3, True), (-2, 0, False), (0, 0, False)]
)
def test_without_an_anchor_the_end_tells(at: int, end: int, is_back: bool) -> None:  # noqa: FBT001
    """Logical offsets ask for nothing."""
    consumer = cast("Consumer", Topics({"t": (0, records("t", "a", 0, end))}))
    assert bool(gaps(consumer, {"t": at}, {})) is is_back
