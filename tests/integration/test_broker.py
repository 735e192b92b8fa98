"""Outlet and tail against a real broker."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from quadlog.broker import (
    BEGINNING,
    END,
    Admin,
    KafkaOutlet,
    KafkaTail,
    backwards,
    end_of,
    last,
    ranges,
    reading,
)
from quadlog.broker.outlet import HELD
from quadlog.broker.reading import BATCH
from quadlog.errors import StateError, Unavailable
from quadlog.kafka.ports import free_ports
from tests.support.brokers import fill, never, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from quadlog.ports import Record


@pytest.fixture
def outlet(kafka: str) -> Iterator[KafkaOutlet]:
    outlet = KafkaOutlet(kafka, client="test", failed=never)
    yield outlet
    outlet.close()


class Listener:
    """What a tail gave."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failures: list[str] = []

    def hear(self, tail: str, records: Sequence[Record]) -> None:
        assert tail == "t"
        assert records
        self.records += records

    def offsets(self, topic: str) -> list[int]:
        return [record.offset for record in self.records if record.topic == topic]


def tail_of(kafka: str, listener: Listener, full: Callable[[], frozenset[str]] = frozenset) -> KafkaTail:
    return KafkaTail(
        kafka, client="test", name="t", hear=listener.hear, failed=listener.failures.append, full=full
    )


def test_records_stand_in_the_order_they_were_given(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    acked: list[tuple[int, int]] = []
    headers = [("a", b"1"), ("b", b"\xff"), ("a", b"2")]
    for number in range(500):
        values = [f"{number}/{chunk}".encode() for chunk in range(1 + number % 3)]
        outlet.produce(
            topic,
            key=str(number).encode(),
            values=values,
            headers=headers,
            acked=lambda offset, number=number: acked.append((number, offset)),  # type: ignore[misc]
        )
    until(lambda: len(acked) == 500)
    end, records = end_of(kafka, topic, count=10_000)
    expected = [f"{n}/{chunk}".encode() for n in range(500) for chunk in range(1 + n % 3)]
    assert end == len(expected)
    assert [record.value for record in records] == expected
    assert [record.offset for record in records] == list(range(end))
    assert records[0].headers == headers
    assert records[0].header("a") == b"2"
    assert records[0].header("none") is None
    # Each acknowledged once, in order, with the offset of its last chunk.
    last_of = {int(record.key): record.offset for record in records}
    assert acked == [(number, last_of[number]) for number in range(500)]


def test_chunks_of_many_threads_stand_together(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # as often as can be, between two chunks too

    def say(name: int) -> None:
        for number in range(200):
            outlet.produce(topic, key=f"{name}.{number}".encode(), values=[b"x"] * 5, headers=[])

    threads = [threading.Thread(target=say, args=(name,)) for name in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    fill(outlet, topic, 1)
    _, records = end_of(kafka, topic, count=10_000)
    keys = [record.key for record in records[:-1]]
    assert len(keys) == 4 * 200 * 5
    for at in range(0, len(keys), 5):
        assert len(set(keys[at : at + 5])) == 1


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


def test_what_is_said_together_goes_at_the_end(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    """In the order in which it was said; another thread is not held up by it, and a flush lets it go."""
    acked: list[int] = []

    def say(value: bytes) -> None:
        outlet.produce(topic, key=b"k", values=[value], headers=[], acked=acked.append)

    with outlet.together():
        say(b"one")
        say(b"two")
        thread = threading.Thread(target=say, args=(b"of another thread",))
        thread.start()
        until(lambda: acked == [0])
        outlet.flush()
        until(lambda: acked == [0, 1, 2])
        say(b"three")
        time.sleep(0.2)
        assert acked == [0, 1, 2]
    until(lambda: acked == [0, 1, 2, 3])
    thread.join()
    with outlet.together():
        say(b"x" * (HELD // 2))
        assert len(acked) == 4
        say(b"x" * (HELD // 2 + 1))
        until(lambda: len(acked) == 6)  # so much is not kept
    assert [record.value for record in end_of(kafka, topic, count=9)[1]][:4] == [
        b"of another thread",
        b"one",
        b"two",
        b"three",
    ]
    with suppress(ZeroDivisionError), outlet.together():
        say(b"before it failed")
        _ = 1 / 0
    until(lambda: acked == [0, 1, 2, 3, 4, 5, 6])


def test_a_topic_whose_reader_is_full_waits_and_the_others_do_not(
    kafka: str, outlet: KafkaOutlet, topic: str
) -> None:
    other, full = f"test.{uuid.uuid4()}", set[str]()
    Admin(kafka).ensure([other], replication=1, config={})
    listener = Listener()
    tail = tail_of(kafka, listener, lambda: frozenset(full)).start({topic: BEGINNING, other: BEGINNING})
    fill(outlet, topic, 3)
    until(lambda: len(listener.offsets(topic)) == 3)
    full.add(topic)
    time.sleep(0.5)  # longer than a poll: from the next one on it is paused
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

    def hear(tail: str, records: Sequence[Record]) -> None:
        del tail, records
        raise StateError("not a quadlog record")

    tail = KafkaTail(kafka, client="test", name="t", hear=hear, failed=failures.append).start(
        {topic: BEGINNING}
    )
    fill(outlet, topic, 1)
    until(lambda: bool(failures))
    tail.close()
    assert failures == ["reading from t failed: not a quadlog record"]


def test_where_a_topic_ends(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    assert end_of(kafka, topic) == (0, [])
    fill(outlet, topic, 5)
    end, records = end_of(kafka, topic, count=2)
    assert (end, [record.offset for record in records]) == (5, [3, 4])
    assert end_of(kafka, topic, count=0) == (5, [])
    assert [record.offset for record in end_of(kafka, topic, count=99)[1]] == [0, 1, 2, 3, 4]


def delete_before(kafka: str, topic: str, offset: int) -> None:
    client = AdminClient({"bootstrap.servers": kafka})
    for deleted in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        deleted.result(timeout=20)


def test_a_topic_is_read_backwards_in_windows(
    kafka: str, outlet: KafkaOutlet, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any offset down to the first record that is still there, each once, however large they are."""
    fill(outlet, topic, 1000)
    for end, newest in ((1000, 999), (5000, 999), (731, 730), (1, 0)):
        assert [record.offset for record in backwards(kafka, topic, end)] == list(range(newest, -1, -1))
    assert list(backwards(kafka, topic, 0)) == []
    [record] = islice(backwards(kafka, topic, 500), 1)
    assert (record.offset, record.value) == (499, b"499")
    done = threading.Event()
    outlet.produce(
        topic, key=b"k", values=[bytes(500_000)] * 20, headers=[("h", b"x")], acked=lambda _: done.set()
    )
    assert done.wait(60)
    monkeypatch.setattr(reading, "WINDOW_BYTES", 1_000_000)
    windows: list[int] = []
    window = reading._window

    def counted(*args: Any) -> list[Record]:  # noqa: ANN401
        found = window(*args)
        windows.append(len(found))
        return found

    monkeypatch.setattr(reading, "_window", counted)
    found = list(backwards(kafka, topic, 1020))
    assert [record.offset for record in found] == list(range(1019, -1, -1))
    assert found[0].header("h") == b"x"
    assert windows[0] == reading.WINDOW
    assert windows[1] < reading.WINDOW < max(windows)
    delete_before(kafka, topic, 800)
    assert [record.offset for record in backwards(kafka, topic, 900)] == list(range(899, 799, -1))


def test_ranges_are_read_one_within_another(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    """Who reads on from a record may have to look at an earlier one before it goes on."""
    fill(outlet, topic, 5 * BATCH)
    with ranges(kafka, topic, timeout=5) as between:
        for record in between(0, 5 * BATCH):
            if record.offset % 100 == 0:
                assert [inner.offset for inner in between(record.offset // 2, record.offset // 2 + 3)] == [
                    record.offset // 2 + at for at in range(3)
                ]
        assert record.offset == 5 * BATCH - 1
        assert [record.offset for record in between(7, 9)] == [7, 8]


def test_no_broker_is_said_so() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unavailable, match="no Kafka broker answers"):
        Admin(f"127.0.0.1:{port}").ensure(["t"], replication=1, config={})


def test_an_acknowledgement_that_cannot_be_taken_ends_the_process(kafka: str, topic: str) -> None:
    """It is told on a thread that nothing else watches: all that is said later would wait for ever."""

    def refuse(offset: int) -> None:
        raise ValueError(offset)

    failures: list[str] = []
    outlet = KafkaOutlet(kafka, client="test", failed=failures.append)
    outlet.produce(topic, key=b"k", values=[b"v"], headers=[], acked=refuse)
    until(lambda: bool(failures))
    assert failures == ["an acknowledgement could not be taken: 0"]
    outlet.close()
