"""Reading without a group: consumers that are told where to begin, and where a topic ends."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from quadlog.broker.connection import COMMON
from quadlog.errors import RecordsGone, StateError, Unavailable
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from confluent_kafka import Message

BEGINNING: Final = OFFSET_BEGINNING
END: Final = OFFSET_END
BATCH: Final = 1000
"""Records handed over at once."""
STARTING_S: Final = 60.0
"""How long a process that starts asks for the end of a topic: one that was just made has no leader yet, and with a busy
broker that lasts."""

_TAIL_BASE: Final = -2000  # librdkafka's RD_KAFKA_OFFSET_TAIL(n) is this minus n


def last(count: int) -> int:
    """The logical offset of the last `count` records."""
    return _TAIL_BASE - count


_IN_PARTS: Final = {"queued.min.messages": 2 * BATCH, "fetch.queue.backoff.ms": 10}
"""What is read ahead of a topic, and how soon more of it is asked for then.  All topics of a consumer stand in one
line: with librdkafka's 100,000 a post waits for seconds behind the effects that a data centre is catching up with."""


@contextmanager
def reading(
    bootstrap: str, client: str, *, wait_ms: int = 500, lost: Callable[[], None] = lambda: None
) -> Generator[Consumer, None, None]:
    """A consumer without a group, closed at the end; at the end of a topic the broker waits so long for more.

    `lost`: called while it is polled, before the records of later connections, when no broker is connected any more.
    """

    def note(error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - that is their public name
            lost()

    consumer = Consumer(
        {
            **COMMON,
            "bootstrap.servers": bootstrap,
            "client.id": client,
            "group.id": client,  # asked for by librdkafka; never used: offsets are ours
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
            "fetch.wait.max.ms": wait_ms,
            "error_cb": note,
            **_IN_PARTS,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


_PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - that is their public name
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


_GONE: Final = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - librdkafka's own code
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001
    }
)
"""An offset is not there."""


def batch(consumer: Consumer, timeout: float) -> list[Record]:
    """Wait for one record, then take all that are there already.

    Raises:
        RecordsGone: an offset that was asked for is not there.
        StateError: the broker does not let it be read.

    """
    first = consumer.poll(timeout)
    if first is None:
        return []
    return [
        record for m in (first, *consumer.consume(BATCH, timeout=0)) if (record := _record(m)) is not None
    ]


def _record(message: Message) -> Record | None:
    error = message.error()
    if error is not None:
        if error.code() in _PASSING or error.retriable():
            return None
        topic, offset = message.topic() or "a topic", message.offset()
        if error.code() in _GONE:
            raise RecordsGone(topic, -1 if offset is None else offset, str(error))
        why = f"{topic} cannot be read: {error}; see whether this user may read it, and the log of its broker"
        raise StateError(why)
    headers: Any = message.headers() or []
    offset = message.offset()
    return Record(
        message.topic() or "",
        0 if offset is None else offset,
        _bytes(message.key()),
        _bytes(message.value()),
        headers,
    )


def _bytes(value: str | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else (value or "").encode()


def end_of(bootstrap: str, topic: str, *, count: int = 1, timeout: float = 15.0) -> tuple[int, list[Record]]:
    """The offset behind the last record of a topic, and its last `count` records.

    Raises:
        Unavailable: no broker told within `timeout` seconds.

    """
    deadline = time.monotonic() + timeout
    with _at(bootstrap, "quadlog-end", topic, timeout) as (consumer, low, high):
        start = max(low, high - count)
        records: list[Record] = []
        if start < high:
            consumer.assign([TopicPartition(topic, 0, start)])
            while not records or records[-1].offset < high - 1:
                if time.monotonic() > deadline:
                    message = f"the end of {topic} did not arrive from {bootstrap} within {timeout:.0f} s"
                    raise Unavailable(message)
                records += batch(consumer, timeout=0.5)
        return high, records


def last_records(bootstrap: str, topic: str, *, count: int, timeout: float = 15.0) -> Generator[Record]:
    """The last `count` records that a topic has now, one after the other.

    Raises:
        Unavailable: nothing came within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-look-back", topic, timeout) as (consumer, low, high):
        yield from _passing_by(consumer, topic, max(low, high - count), high, timeout)


def records_between(
    bootstrap: str, topic: str, start: int, end: int, *, timeout: float = 15.0
) -> Generator[Record]:
    """The records of a topic from the offset `start` on and before `end`, one after the other.

    Raises:
        Unavailable: nothing came within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-read-on", topic, timeout) as (consumer, low, high):
        yield from _passing_by(consumer, topic, max(low, start), min(high, end), timeout)


@contextmanager
def ranges(
    bootstrap: str, topic: str, *, timeout: float = 15.0
) -> Generator[Callable[[int, int], Generator[Record]]]:
    """Reads the records of a topic from one offset on and before another one, again and again, by few clients.

    One that is read while another one is read, too, has a client of its own.

    What it gives raises Unavailable where nothing came within `timeout` seconds.
    """
    with ExitStack() as stack:
        idle: list[Consumer] = []

        def client() -> Consumer:
            # An assignment waits for a fetch's end.
            return stack.enter_context(reading(bootstrap, "quadlog-ranges", wait_ms=10))

        def between(start: int, end: int) -> Generator[Record]:
            # Not made before: the first assignment of one that was idle for long takes up to a second.
            consumer = idle.pop() if idle else client()
            try:
                yield from _passing_by(consumer, topic, start, end, timeout)
            finally:
                idle.append(consumer)

        yield between


def _passing_by(consumer: Consumer, topic: str, at: int, end: int, timeout: float) -> Generator[Record]:
    if at < end:
        consumer.assign([TopicPartition(topic, 0, at)])
    heard_at = time.monotonic()
    while at < end:
        for record in batch(consumer, timeout=0.5):
            at, heard_at = record.offset + 1, time.monotonic()
            if record.offset < end:
                yield record
        if time.monotonic() - heard_at > timeout:
            message = f"{topic} did not go on at offset {at} of {end} within {timeout:.0f} s"
            raise Unavailable(message)


WINDOW: Final = 64
"""Records that are read at first on the way back; then twice as many each time, as long as they are small."""
WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Of values in one window, about: all of it is in memory."""


def backwards(bootstrap: str, topic: str, end: int, *, timeout: float = 15.0) -> Generator[Record]:
    """The records of a topic before the offset `end`, the newest first, as far back as it goes.

    Raises:
        Unavailable: nothing came within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-way-back", topic, timeout) as (consumer, low, high):
        end, count = min(end, high), WINDOW
        while end > low:
            start = max(low, end - count)
            records = _window(consumer, topic, start, end, timeout)
            yield from reversed(records)
            size = sum(len(record.value) for record in records)
            count = max(1, min(2 * count, count * WINDOW_BYTES // max(size, 1)))
            end = start


def _window(consumer: Consumer, topic: str, start: int, end: int, timeout: float) -> list[Record]:
    """The records from `start` on and before `end`; fewer than that, where some were removed."""
    return list(_passing_by(consumer, topic, start, end, timeout))


def beginning_of(bootstrap: str, topic: str, *, timeout: float = 5.0) -> int:
    """Offset of the first record that a topic still has.

    Raises:
        Unavailable: no broker told within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-beginning", topic, timeout) as (_, low, _):
        return low


def offset_at(bootstrap: str, topic: str, moment: int, *, timeout: float = 5.0) -> int:
    """Offset of the first record that was written at a moment or later: milliseconds since 1970; the end: none was.

    Raises:
        Unavailable: no broker told within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-when", topic, timeout) as (consumer, _, end):
        try:
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, moment)], timeout=timeout)
        except KafkaException as error:
            raise Unavailable(f"{topic} does not tell what was written when: {error}") from error
        return end if found.offset < 0 else found.offset


@contextmanager
def _at(bootstrap: str, client: str, topic: str, timeout: float) -> Generator[tuple[Consumer, int, int]]:
    """A consumer that finds a topic, and the topic's first and next offset.

    A topic that was just made has no leader for a moment: it is asked again, each time by a new consumer.  One that
    looked while a broker was fenced may find no leader there for good (librdkafka's issue 5430).

    Raises:
        Unavailable: no broker told within `timeout` seconds.

    """
    deadline = time.monotonic() + timeout
    while True:
        with reading(bootstrap, client) as consumer:
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
            except KafkaException as error:
                if time.monotonic() > deadline:
                    message = f"the end of {topic} cannot be read: {error}; is its broker up?"
                    raise Unavailable(message) from error
            else:
                yield consumer, low, high
                return
        time.sleep(0.1)
