"""A tail reads topics of a real broker as they grow."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from quadlog.broker import (
    BEGINNING,
    END,
    Admin,
    KafkaOutlet,
    KafkaTail,
    last,
)
from quadlog.errors import StateError
from tests.support.brokers import fill, until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog.ports import Record


class Listener:
    """What a tail gave."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failures: list[str] = []

    def hear(self, records: Sequence[Record]) -> None:
        assert records
        self.records += records

    def offsets(self, topic: str) -> list[int]:
        return [record.offset for record in self.records if record.topic == topic]


def tail_of(kafka: str, listener: Listener, full: Callable[[], frozenset[str]] = frozenset) -> KafkaTail:
    return KafkaTail(kafka, name="t", hear=listener.hear, failed=listener.failures.append, full=full)


def test_a_tail_begins_where_it_is_told_and_goes_on(kafka: str, outlet: KafkaOutlet) -> None:
    topics = [f"test.{uuid.uuid4()}" for _ in range(5)]
    Admin(kafka).ensure(topics, replication=1, config={})
    for topic in topics:
        fill(outlet, topic, 10)
    from_start, from_seven, last_three, last_fifty, from_end = topics
    listener = Listener()
    tail = tail_of(kafka, listener).start(
        {from_start: BEGINNING, from_seven: 7, last_three: last(3), last_fifty: last(50), from_end: END}
    )
    until(lambda: len(listener.records) >= 10 + 3 + 3 + 10)
    time.sleep(0.5)  # END is where the topic ends once the tail is there
    for topic in topics:
        fill(outlet, topic, 2)
    until(lambda: all(listener.offsets(topic)[-2:] == [10, 11] for topic in topics))
    tail.close()
    assert listener.offsets(from_start) == list(range(12))
    assert listener.offsets(from_seven) == list(range(7, 12))
    assert listener.offsets(last_three) == list(range(7, 12))
    assert listener.offsets(last_fifty) == list(range(12))
    assert listener.offsets(from_end) == [10, 11]
    assert [record.value for record in listener.records if record.topic == from_seven][:3] == [
        b"7",
        b"8",
        b"9",
    ]
    assert listener.failures == []


def test_a_tail_waits_for_topics_that_are_made_later(kafka: str, outlet: KafkaOutlet) -> None:
    topic, listener = f"test.{uuid.uuid4()}", Listener()
    tail = tail_of(kafka, listener).start({topic: BEGINNING})
    time.sleep(0.3)
    assert (listener.records, listener.failures) == ([], [])
    Admin(kafka).ensure([topic], replication=1, config={})
    fill(outlet, topic, 3)
    until(lambda: len(listener.records) >= 3)
    tail.close()
    assert listener.offsets(topic) == [0, 1, 2]
    assert listener.failures == []


def test_a_tail_takes_up_and_leaves_topics_while_it_reads(
    kafka: str, outlet: KafkaOutlet, topic: str
) -> None:
    other = f"test.{uuid.uuid4()}"
    Admin(kafka).ensure([other], replication=1, config={})
    fill(outlet, topic, 3)
    fill(outlet, other, 5)
    listener = Listener()
    tail = tail_of(kafka, listener).start({topic: BEGINNING})
    until(lambda: listener.offsets(topic) == [0, 1, 2])
    assert listener.offsets(other) == [], "nobody asked for it"
    tail.read(other, 2)
    until(lambda: listener.offsets(other) == [2, 3, 4])
    tail.read(other, 4)
    until(lambda: listener.offsets(other) == [2, 3, 4, 4])
    tail.leave(other)
    tail.leave("one that it does not read")
    tail.read(topic, 1)  # asked for in order: when this one is heard, the other was left
    until(lambda: listener.offsets(topic) == [0, 1, 2, 1, 2])
    fill(outlet, other, 2)
    fill(outlet, topic, 1)
    until(lambda: listener.offsets(topic)[-1] == 3)
    assert listener.offsets(other) == [2, 3, 4, 4]
    tail.read(other, 5)
    until(lambda: listener.offsets(other) == [2, 3, 4, 4, 5, 6])
    tail.close()
    assert listener.failures == []


def test_a_topic_whose_reader_is_full_waits_and_the_others_do_not(
    kafka: str, outlet: KafkaOutlet, topic: str
) -> None:
    other, full = f"test.{uuid.uuid4()}", set[str]()
    Admin(kafka).ensure([other], replication=1, config={})
    listener = Listener()
    asked: list[frozenset[str]] = []

    def is_full() -> frozenset[str]:
        asked.append(frozenset(full))
        return asked[-1]

    tail = tail_of(kafka, listener, is_full).start({topic: BEGINNING, other: BEGINNING})
    fill(outlet, topic, 3)
    until(lambda: len(listener.offsets(topic)) == 3)
    full.add(topic)
    count = len(asked)
    until(lambda: len(asked) >= count + 3)  # with the second one it is paused at the latest
    fill(outlet, topic, 2000)
    fill(outlet, other, 2000)
    until(lambda: len(listener.offsets(other)) == 2000)
    time.sleep(0.3)
    assert len(listener.offsets(topic)) == 3
    full.clear()
    until(lambda: len(listener.offsets(topic)) == 2003)
    tail.close()
    assert listener.offsets(topic) == list(range(2003)), "nothing is lost and nothing comes twice"


def test_records_that_are_gone_end_a_tail_with_a_reason(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    """Never silently from somewhere else."""
    fill(outlet, topic, 3)
    listener = Listener()
    tail = tail_of(kafka, listener).start({topic: 1000})
    until(lambda: bool(listener.failures))
    tail.close()
    assert topic in listener.failures[0]
    assert "set retention.ms to -1" in listener.failures[0]
    assert listener.records == []


def test_a_reader_that_fails_ends_its_tail_with_a_reason(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    failures: list[str] = []

    def hear(records: Sequence[Record]) -> None:
        del records
        raise StateError("not a quadlog record")

    tail = KafkaTail(kafka, name="t", hear=hear, failed=failures.append).start({topic: BEGINNING})
    fill(outlet, topic, 1)
    until(lambda: bool(failures))
    tail.close()
    assert failures == ["reading from t failed: not a quadlog record"]
