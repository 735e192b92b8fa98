"""Gaps: topics that do not continue where they were read up to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException, TopicPartition

from quadlog.anchors import Anchor, Gap, digest_of
from quadlog.broker.reading import batch
from quadlog.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import Consumer

PATIENCE_S: Final = 5.0
"""Seconds within which a broker must report where a topic ends, or deliver one record of each topic."""


def gaps(consumer: Consumer, nexts: Mapping[str, int], anchors: Mapping[str, Anchor]) -> dict[str, Gap]:
    """Return the topics that do not continue where they were read up to.  Leaves the consumer without an assignment.

    Args:
        consumer: a consumer of the topics' cluster, without an assignment.
        nexts: offset of the next record to read, by topic; a logical offset requires no record.
        anchors: the last record that was read, by topic, where it is known.

    Raises:
        Unavailable: the broker does not report an end, or delivers no record in time.

    """
    found: dict[str, Gap] = {}
    asked: dict[str, Anchor] = {}
    ends: dict[str, tuple[int, int]] = {}
    for topic, at in nexts.items():
        anchor = anchors.get(topic)
        read = max(at, 0 if anchor is None else anchor.offset + 1)
        if read < 0:
            continue
        begins, end = ends[topic] = _ends(consumer, topic)
        if end < read:
            found[topic] = Gap(read=read, begins=begins, ends=end)
        elif anchor is not None and anchor.offset >= begins:
            asked[topic] = anchor
        elif 0 <= at < begins:
            found[topic] = Gap(read=at, begins=begins, ends=end, is_front=True)
    for topic in _others(consumer, asked):
        begins, end = ends[topic]
        found[topic] = Gap(read=asked[topic].offset + 1, begins=begins, ends=end)
    return found


def _ends(consumer: Consumer, topic: str) -> tuple[int, int]:
    try:
        begins, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
    except KafkaException as error:
        raise Unavailable(f"the end of {topic} cannot be read: {error}") from error
    return begins, end


def _others(consumer: Consumer, anchors: Mapping[str, Anchor]) -> list[str]:
    """Return the topics that have a different record at the offset of their anchor."""
    if not anchors:
        return []
    consumer.assign([TopicPartition(topic, 0, anchor.offset) for topic, anchor in anchors.items()])
    waiting, others, deadline = dict(anchors), list[str](), time.monotonic() + PATIENCE_S
    while waiting:
        if time.monotonic() > deadline:
            raise Unavailable(f"no record came of {', '.join(sorted(waiting))} within {PATIENCE_S:.0f} s")
        for record in batch(consumer, timeout=0.1):
            anchor = waiting.pop(record.topic, None)
            # Compaction may have removed that record: then nothing is known.
            if anchor is not None and record.offset == anchor.offset and digest_of(record) != anchor.digest:
                others.append(record.topic)
    consumer.unassign()
    return others
