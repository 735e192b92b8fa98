"""Kafka stops here: one outlet and any number of tails per Kafka cluster.

`acks=all` is replication, not fsync: what is acknowledged is in the page cache of all in-sync
brokers.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self, cast

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from quadlog.errors import SetupError, StateError, Unavailable
from quadlog.ports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from types import TracebackType

    from confluent_kafka import Message

    from quadlog.ports import Acked, Headers, Hear

log = structlog.get_logger()

BEGINNING: Final = OFFSET_BEGINNING
END: Final = OFFSET_END
BATCH: Final = 1000
"""Records handed over at once."""

_TAIL_BASE: Final = -2000  # librdkafka's RD_KAFKA_OFFSET_TAIL(n) is this minus n

_COMMON: Final[dict[str, Any]] = {
    # A broker that was killed and started again must be found within a second, not ten.
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "socket.keepalive.enable": True,
    "log.connection.close": False,
}


def last(count: int) -> int:
    """The logical offset of the last `count` records."""
    return _TAIL_BASE - count


class KafkaOutlet:
    """An idempotent producer with a thread of its own that hears the acknowledgements."""

    def __init__(self, bootstrap: str, *, client: str, failed: Callable[[str], None]) -> None:
        """`failed` is called with a reason when this producer can never again keep its promise."""
        self._failed = failed
        self._lock = threading.Lock()
        self._producer = Producer(
            {
                **_COMMON,
                "bootstrap.servers": bootstrap,
                "client.id": client,
                "acks": "all",
                "enable.idempotence": True,
                # No waiting for company; but what comes while a request is under way goes together in the
                # next one.  So batches grow with the load, and a lone record is sent at once.
                "linger.ms": 0,
                "max.in.flight.requests.per.connection": 1,
                # Retried until the broker is back: only the broker's word ends a record.
                "message.timeout.ms": 0,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 500,
                "error_cb": self._on_error,
            }
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="outlet", daemon=True)
        self._thread.start()

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Hand over the chunks of one value; see `quadlog.ports.Outlet`."""
        with self._lock:
            for value in values[:-1]:
                self._produce(topic, key, value, headers, None)
            self._produce(topic, key, values[-1], headers, acked)

    def _produce(self, topic: str, key: bytes, value: bytes, headers: Headers, acked: Acked | None) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed(f"a record for {topic} was not taken: {error}")
            elif acked is not None:
                acked(message.offset() or 0)

        while True:
            try:
                self._producer.produce(
                    topic, key=key, value=value, headers=list(headers), partition=0, on_delivery=delivered
                )
            except BufferError:  # 100,000 records wait for the broker
                self._producer.flush(0.1)
            else:
                return

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(0.2)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed(f"the producer cannot go on: {error}")

    def close(self, timeout: float = 2.0) -> None:
        """Send what waits, for `timeout` seconds at most."""
        self._producer.flush(timeout)
        self._closing.set()
        self._thread.join(timeout=1)


class KafkaTail:
    """Reads partitions of one cluster from given offsets on, in a thread of its own."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client: str,
        name: str,
        hear: Hear,
        failed: Callable[[str], None],
        full: Callable[[], Container[str]] = frozenset,
    ) -> None:
        """Nothing is read before `start`.

        Args:
            bootstrap: the cluster.
            client: name for the broker's logs.
            name: name for ours.
            hear: is given every batch.
            failed: is given a reason why reading can never go on.
            full: topics whose reader wants no more for now.

        """
        self.name: Final = name
        self._full = full
        self._paused: set[str] = set()
        self._bootstrap, self._client, self._hear, self._failed = bootstrap, client, hear, failed
        self._closing = threading.Event()
        self._offsets: Mapping[str, int] = {}
        self._thread = threading.Thread(target=self._run, name=f"tail-{name}", daemon=True)

    def start(self, offsets: Mapping[str, int]) -> Self:
        """Begin: topic to first offset, which may be `BEGINNING`, `END` or `last(n)`."""
        self._offsets = offsets
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop reading; returns when the thread is done."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            with _Reading(self._bootstrap, self._client) as consumer:
                if self._await_topics(consumer):
                    consumer.assign([TopicPartition(topic, 0, at) for topic, at in self._offsets.items()])
                while not self._closing.is_set():
                    self._hold_back(consumer)
                    if records := _batch(consumer, timeout=0.02 if self._paused else 0.2):
                        self._hear(self.name, records)
        except Exception as error:
            log.exception("tail failed", tail=self.name)
            self._failed(f"reading from {self.name} failed: {error}")

    def _hold_back(self, consumer: Consumer) -> None:
        full = self._full()
        for topic in self._offsets:
            partition = [TopicPartition(topic, 0)]
            if topic in full and topic not in self._paused:
                consumer.pause(partition)
                self._paused.add(topic)
            elif topic not in full and topic in self._paused:
                consumer.resume(partition)
                self._paused.discard(topic)

    def _await_topics(self, consumer: Consumer) -> bool:
        """A peer's topics may be made later than this consumer: asking is quicker than librdkafka's refresh."""
        while not self._closing.is_set():
            try:
                known: dict[str, Any] = consumer.list_topics(timeout=2).topics
            except KafkaException:
                known = {}
            if all(topic in known and known[topic].partitions for topic in self._offsets):
                return True
            self._closing.wait(0.1)
        return False


class _Reading:
    """A consumer without a group, closed at the end."""

    def __init__(self, bootstrap: str, client: str) -> None:
        self._consumer = Consumer(
            {
                **_COMMON,
                "bootstrap.servers": bootstrap,
                "client.id": client,
                "group.id": client,  # asked for by librdkafka; never used: offsets are ours
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": False,
            }
        )

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()


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


def _batch(consumer: Consumer, timeout: float) -> list[Record]:
    """Wait for one record, then take all that are there already."""
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
        text = (
            f"{message.topic() or 'a topic'} at offset {message.offset()}: {error}. If its records were deleted"
            " (retention, DeleteRecords, a new topic of that name), this node has to be fed again from a peer"
        )
        raise StateError(text)
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


class Admin:
    """Topics of one cluster: made when missing, looked at before they are trusted."""

    def __init__(self, bootstrap: str) -> None:
        """Connects when first asked."""
        self._bootstrap = bootstrap
        # Kept as long as its futures live: they are lost with it.
        self._client = AdminClient({**_COMMON, "bootstrap.servers": bootstrap})

    def ensure(self, topics: Sequence[str], *, replication: int, config: Mapping[str, str]) -> list[str]:
        """Make what is missing.  Returns warnings on what is there but should be set otherwise.

        Raises:
            Unavailable: no broker answers.
            SetupError: a topic has more than one partition, so it has no one order.

        """
        known = self._topics()
        missing = [topic for topic in topics if topic not in known]
        new = [NewTopic(topic, 1, replication, config=dict(config)) for topic in missing]
        client = cast("Any", self._client)  # futures without a type
        futures: dict[str, Any] = client.create_topics(new, operation_timeout=10) if new else {}
        for topic, future in futures.items():
            try:
                future.result(timeout=15)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    message = f"topic {topic} could not be made at {self._bootstrap}: {error}"
                    raise SetupError(message) from error
        return self._check([topic for topic in topics if topic in known])

    def _topics(self) -> dict[str, Any]:
        try:
            topics: dict[str, Any] = self._client.list_topics(timeout=5).topics
        except KafkaException as error:
            message = f"no Kafka broker answers at {self._bootstrap}: {error}; start it or correct 'kafka'"
            raise Unavailable(message) from error
        return topics

    def _check(self, topics: Sequence[str]) -> list[str]:
        known = self._topics()
        for topic in topics:
            if (count := len(known[topic].partitions)) != 1:
                message = (
                    f"topic {topic} has {count} partitions; an order needs exactly 1: make it anew with 1"
                )
                raise SetupError(message)
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        warnings: list[str] = []
        client = cast("Any", self._client)  # futures without a type
        futures: dict[Any, Any] = client.describe_configs(resources) if resources else {}
        for resource, future in futures.items():
            values: dict[str, str | None] = {
                name: entry.value for name, entry in future.result(timeout=10).items()
            }
            replicas = len(known[resource.name].partitions[0].replicas)
            warnings += [f"topic {resource.name}: {warning}" for warning in _doubts(values, replicas)]
        return warnings


SAFE_REPLICATION: Final = 3
NEEDED_MESSAGE_BYTES: Final = 1_000_000


def _doubts(config: Mapping[str, str | None], replicas: int) -> list[str]:
    doubts: list[str] = []
    if replicas < SAFE_REPLICATION:
        doubts.append(f"replication factor {replicas}: a lost disk loses what was acknowledged; use 3")
    if replicas >= SAFE_REPLICATION and int(config.get("min.insync.replicas") or 1) < SAFE_REPLICATION - 1:
        doubts.append("min.insync.replicas below 2: acks=all may mean one broker; set it to 2")
    if config.get("unclean.leader.election.enable") == "true":
        doubts.append("unclean.leader.election.enable=true may drop acknowledged records; set it to false")
    if int(config.get("max.message.bytes") or NEEDED_MESSAGE_BYTES) < NEEDED_MESSAGE_BYTES:
        doubts.append(
            f"max.message.bytes below {NEEDED_MESSAGE_BYTES}: large transactions will not fit; raise it"
        )
    return doubts


def end_of(bootstrap: str, topic: str, *, count: int = 1, timeout: float = 15.0) -> tuple[int, list[Record]]:
    """The offset behind the last record of a topic, and its last `count` records.

    Raises:
        Unavailable: no broker told within `timeout` seconds.

    """
    deadline = time.monotonic() + timeout
    with _Reading(bootstrap, "quadlog-end") as consumer:
        low, high = _watermarks(consumer, topic, deadline)
        start = max(low, high - count)
        records: list[Record] = []
        if start < high:
            consumer.assign([TopicPartition(topic, 0, start)])
            while not records or records[-1].offset < high - 1:
                if time.monotonic() > deadline:
                    message = f"the end of {topic} did not arrive from {bootstrap} within {timeout:.0f} s"
                    raise Unavailable(message)
                records += _batch(consumer, timeout=0.5)
        return high, records


def _watermarks(consumer: Consumer, topic: str, deadline: float) -> tuple[int, int]:
    """First and next offset.  A topic that was just made has no leader for a moment: it is asked again."""
    while True:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
        except KafkaException as error:
            if time.monotonic() > deadline:
                message = f"the end of {topic} cannot be read: {error}; is its broker up?"
                raise Unavailable(message) from error
            time.sleep(0.1)
        else:
            return low, high
