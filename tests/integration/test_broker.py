"""What is said to a real broker, and what is read of it at once."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from quadlog.broker import (
    Admin,
    KafkaOutlet,
    backwards,
    end_of,
    ranges,
    reading,
)
from quadlog.broker import outlet as outlet_module
from quadlog.broker import reading as reading_module
from quadlog.broker.outlet import HELD
from quadlog.broker.reading import BATCH
from quadlog.errors import Unavailable
from quadlog.kafka.ports import free_ports
from tests.support.brokers import delete_before, fill, until

if TYPE_CHECKING:
    from quadlog.ports import Record


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


def test_where_a_topic_ends(kafka: str, outlet: KafkaOutlet, topic: str) -> None:
    assert end_of(kafka, topic) == (0, [])
    fill(outlet, topic, 5)
    end, records = end_of(kafka, topic, count=2)
    assert (end, [record.offset for record in records]) == (5, [3, 4])
    assert end_of(kafka, topic, count=0) == (5, [])
    assert [record.offset for record in end_of(kafka, topic, count=99)[1]] == [0, 1, 2, 3, 4]


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
    window = reading._passing_by

    def counted(*args: Any) -> list[Record]:  # noqa: ANN401
        found = list(window(*args))
        windows.append(len(found))
        return found

    monkeypatch.setattr(reading, "_passing_by", counted)
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


def test_who_finds_no_leader_is_replaced(
    kafka: str, outlet: KafkaOutlet, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As librdkafka's consumers may that looked while a broker was fenced: `test_fenced_broker.py` has real ones."""
    fill(outlet, topic, 3)
    begun: list[Consumer] = []

    class Deaf(Consumer):
        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            begun.append(self)

        def get_watermark_offsets(self, *arguments: Any, **named: Any) -> tuple[int, int]:  # noqa: ANN401
            if self is begun[0]:
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            low, high = super().get_watermark_offsets(*arguments, **named)
            return low, high

    monkeypatch.setattr(reading_module, "Consumer", Deaf)
    end, records = end_of(kafka, topic, count=2, timeout=5)
    assert (end, [record.value for record in records]) == (3, [b"1", b"2"])
    assert len(begun) == 2


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


def test_a_topic_that_stays_unknown_is_named(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """First by the record's acknowledgement, then where a record is handed over."""
    monkeypatch.setattr(outlet_module, "STARTING_S", 1.0)
    reasons: list[str] = []
    lost: list[int] = []
    outlet = KafkaOutlet(kafka, client="test", failed=reasons.append, lost=lambda: lost.append(1))
    try:
        for count in (1, 2):
            outlet.produce("test.nowhere", key=b"k", values=[b"1"], headers=[])
            until(lambda: len(lost) == count)  # noqa: B023 - it is waited for here
    finally:
        outlet.close()
    assert len(reasons) == 2
    assert all("for test.nowhere was not taken" in reason for reason in reasons)
    assert all("there is no such topic" in reason for reason in reasons)
