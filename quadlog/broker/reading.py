"""Reading without a consumer group: consumers with explicit start offsets, and the ends of topics."""

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

from quadlog.broker.connection import client_settings, note_refusal, unanswered
from quadlog.errors import RecordsGone, StateError, Unavailable
from quadlog.kafka.acls import GROUP
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from confluent_kafka import Message

BEGINNING: Final = OFFSET_BEGINNING
END: Final = OFFSET_END
BATCH: Final = 1000
"""Maximum number of records that are handed over at once."""
STARTING_S: Final = 60.0
"""Seconds for which a starting process retries to read the end of a topic.

A new topic has no leader yet, and with a busy broker this takes long.
"""

_TAIL_BASE: Final = -2000  # librdkafka's RD_KAFKA_OFFSET_TAIL(n) is this minus n


def last(count: int) -> int:
    """Return the logical offset of the last `count` records."""
    return _TAIL_BASE - count


_IN_PARTS: Final = {"queued.min.messages": 2 * BATCH, "fetch.queue.backoff.ms": 10}
"""How many records of a topic are read ahead, and how soon more are fetched after that.

All topics of a consumer share one queue: with librdkafka's default of 100,000, a post waits for seconds while the
effects before it are processed by a data centre that catches up.
"""


@contextmanager
def reading(
    bootstrap: str, client: str, *, wait_ms: int = 500, lost: Callable[[], None] | None = None
) -> Generator[Consumer, None, None]:
    """Open a consumer without a group, and close it at the end of the context.

    At the end of a topic the broker waits `wait_ms` for more records.  `lost` is called during a poll, before the
    records of later connections are returned, when no broker is connected any more; None: for a short look.
    """

    def note(error: KafkaError) -> None:
        note_refusal(bootstrap, error)
        if lost is not None and error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - a public name of the client
            lost()

    consumer = Consumer(
        {
            **client_settings(bootstrap),
            "client.id": client,
            "group.id": GROUP,  # required by librdkafka, but unused: offsets are stored by quadlog
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
            "fetch.wait.max.ms": wait_ms,
            "error_cb": note,
            # A short look ends while connections are made, and logged these as failed; what matters is raised.
            **({"log_level": 0} if lost is None else {}),
            **_IN_PARTS,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


_PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - a public name of the client
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # the group is not used
    }
)


_GONE: Final = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - librdkafka's own code
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001
    }
)
"""Errors that mean that an offset does not exist."""


def batch(consumer: Consumer, timeout: float) -> list[Record]:
    """Wait for one record, and return it with all that have already arrived.

    Raises:
        RecordsGone: a requested offset does not exist.
        StateError: the broker does not allow the topic to be read.

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
    """Return the offset after the last record of a topic, and its last `count` records.

    Raises:
        Unavailable: no broker answered within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-end", topic, timeout) as (consumer, low, high):
        return high, list(_passing_by(consumer, topic, max(low, high - count), high, timeout))


def last_records(bootstrap: str, topic: str, *, count: int, timeout: float = 15.0) -> Generator[Record]:
    """Yield the last `count` records that a topic has now.

    Raises:
        Unavailable: no record arrived within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-look-back", topic, timeout) as (consumer, low, high):
        yield from _passing_by(consumer, topic, max(low, high - count), high, timeout)


def records_between(
    bootstrap: str, topic: str, start: int, end: int, *, timeout: float = 15.0
) -> Generator[Record]:
    """Yield the records of a topic from the offset `start` up to the offset `end`, exclusive.

    Raises:
        Unavailable: no record arrived within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-read-on", topic, timeout) as (consumer, low, high):
        yield from _passing_by(consumer, topic, max(low, start), min(high, end), timeout)


@contextmanager
def ranges(
    bootstrap: str, topic: str, *, timeout: float = 15.0
) -> Generator[Callable[[int, int], Generator[Record]]]:
    """Provide a function that yields the records of a topic between two offsets, with few clients for many calls.

    A range that is read while another one is being read has its own client.

    The function raises Unavailable if no record arrives within `timeout` seconds.
    """
    with ExitStack() as stack:
        idle: list[Consumer] = []

        def client() -> Consumer:
            # A new assignment waits for the end of the running fetch.
            return stack.enter_context(reading(bootstrap, "quadlog-ranges", wait_ms=10))

        def between(start: int, end: int) -> Generator[Record]:
            # Created on demand: the first assignment of a client that was idle for long takes up to a second.
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
            raise Unavailable(f"{topic} did not go on at offset {at} of {end} within {timeout:.0f} s")


WINDOW: Final = 64
"""Records in the first window of a backward read; each further window has twice as many, as long as they are small."""
WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Approximate limit for the bytes of values in one window, which is held in memory."""


def backwards(bootstrap: str, topic: str, end: int, *, timeout: float = 15.0) -> Generator[Record]:
    """Yield the records of a topic before the offset `end`, newest first, back to its beginning.

    Raises:
        Unavailable: no record arrived within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-way-back", topic, timeout) as (consumer, low, high):
        end, count = min(end, high), WINDOW
        while end > low:
            start = max(low, end - count)
            records = list(_passing_by(consumer, topic, start, end, timeout))  # fewer if some were removed
            yield from reversed(records)
            size = sum(len(record.value) for record in records)
            count = max(1, min(2 * count, count * WINDOW_BYTES // max(size, 1)))
            end = start


def beginning_of(bootstrap: str, topic: str, *, timeout: float = 5.0) -> int:
    """Return the offset of the first record that a topic still has.

    Raises:
        Unavailable: no broker answered within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-beginning", topic, timeout) as (_, low, _):
        return low


def offset_at(bootstrap: str, topic: str, moment: int, *, timeout: float = 5.0) -> int:
    """Return the offset of the first record written at `moment` (milliseconds since 1970) or later, else the end.

    Raises:
        Unavailable: no broker answered within `timeout` seconds.

    """
    with _at(bootstrap, "quadlog-when", topic, timeout) as (consumer, _, end):
        try:
            [found] = consumer.offsets_for_times([TopicPartition(topic, 0, moment)], timeout=timeout)
        except KafkaException as error:
            raise Unavailable(f"{topic} does not tell what was written when: {error}") from error
        return end if found.offset < 0 else found.offset


@contextmanager
def _at(bootstrap: str, client: str, topic: str, timeout: float) -> Generator[tuple[Consumer, int, int]]:
    """Open a consumer that finds a topic, and yield it with the topic's first and next offset.

    A new topic has no leader for a moment: the request is repeated, each time by a new consumer.  One that asked
    while a broker was fenced may never find a leader there (librdkafka's issue 5430).

    Raises:
        Unavailable: no broker answered within `timeout` seconds.

    """
    deadline = time.monotonic() + timeout
    while True:
        with reading(bootstrap, client) as consumer:
            try:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
            except KafkaException as error:
                consumer.poll(0)  # errors of connections
                if time.monotonic() > deadline:
                    reason = unanswered(bootstrap, error)
                    raise Unavailable(f"the end of {topic} cannot be read: {reason}") from error
            else:
                yield consumer, low, high
                return
        time.sleep(0.1)
