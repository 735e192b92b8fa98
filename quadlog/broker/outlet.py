"""The outlet: the producer for one Kafka cluster."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from quadlog.broker.admin import why_full
from quadlog.broker.connection import client_settings
from quadlog.broker.reading import STARTING_S
from quadlog.clock import Turns
from quadlog.errors import TopicLost

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from confluent_kafka import Message

    from quadlog.ports import Acked, Headers

    _Value = tuple[str, bytes, Sequence[bytes], Headers, Acked | None]
    """Topic, key, chunks, headers and `acked` of `KafkaOutlet.produce`."""

log = structlog.get_logger()

BUFFER: Final = 256 * 1024 * 1024
"""Bytes that may wait for the broker; above this, `produce` blocks."""


HELD: Final = 1024 * 1024
"""Bytes that are held back to be sent together: more than a request can carry would only cost memory."""


FATAL_S: Final = 5.0
"""Seconds that a producer with a fatal error has to report the outcome of all records that it was given."""

GAPLESS: Final[dict[str, Any]] = {
    # A refused record is fatal for the producer; otherwise the records after it would be accepted.
    "enable.gapless.guarantee": True,
    # A broker accepts any request of a producer that it does not know yet as the first one: a later request could
    # overtake an earlier one that has to be retried.
    "max.in.flight.requests.per.connection": 1,
    # Suppresses a warning of each such producer that the first of these settings is experimental.
    "log_level": 3,
}


class _Held(threading.local):
    """Values that a thread produced within `together`; None outside of it."""

    values: list[_Value] | None = None
    size = 0
    """Bytes of `values`."""


class KafkaOutlet:
    """An idempotent producer with its own thread for the acknowledgements."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client: str,
        failed: Callable[[str], None],
        taken: Callable[[], None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
        is_gapless: bool = False,
    ) -> None:
        """Connect.

        Args:
            bootstrap: bootstrap servers of one data centre's Kafka.
            client: client id of this producer.
            failed: callback with a reason, for when this producer can never again keep its guarantees; on the
                producer's thread, or on the thread that produces a record.
            taken: callback for each acknowledged record; on the producer's thread.
            lost: callback for each record that never will be acknowledged; on the same threads as `failed`.
            is_gapless: whether no record may be accepted after a refused one.

        """
        self._failed, self._taken, self._lost = failed, taken, lost
        self._bootstrap, self._is_gapless = bootstrap, is_gapless
        self._lock = threading.Lock()
        self._held = _Held()
        self._producer = Producer(
            {
                **client_settings(bootstrap),
                "client.id": client,
                "acks": "all",
                "enable.idempotence": True,
                # The records of a turn arrive within a millisecond, and go in one request per topic: without a delay
                # the first record was sent alone, and every reader fetched twice.
                "linger.ms": 1,
                # The maximum for which an idempotent producer keeps the order.  With one, the requests of a turn for
                # several topics waited for each other.
                "max.in.flight.requests.per.connection": 5,
                **(GAPLESS if is_gapless else {}),
                # Retried until the broker is back: only an answer of the broker completes a record.
                "message.timeout.ms": 0,
                # A busy broker reports a new topic late.
                "topic.metadata.propagation.max.ms": round(STARTING_S * 1000),
                # Memory for records that the broker has not accepted; librdkafka's default limit is a gigabyte.
                "queue.buffering.max.kbytes": BUFFER // 1024,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 500,
            }
        )
        self._closing = threading.Event()
        self.is_stopped = False
        """True while no records are handed over to the producer: they count as lost."""
        self._thread = threading.Thread(target=self._poll, name="outlet", daemon=True)
        self._thread.start()

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Hand over the chunks of one value; see `quadlog.ports.Outlet`."""
        value = topic, key, values, headers, acked
        if self._held.values is None:
            self._hand_over([value])
            return
        self._held.values.append(value)
        self._held.size += sum(map(len, values))
        if self._held.size > HELD:
            self._let_go()

    @contextmanager
    def together(self) -> Generator[Callable[[], None], None, None]:
        """Hold back the calling thread's records within this context; see `quadlog.ports.Together`.

        Records that are sent one by one during a turn would reach the broker and all readers separately.
        """
        self._held.values = []
        try:
            yield self._let_go
        finally:
            self._let_go()
            self._held.values = None

    def _let_go(self) -> None:
        if held := self._held.values:
            self._held.values, self._held.size = [], 0
            self._hand_over(held)

    def _hand_over(self, values: Sequence[_Value]) -> None:
        with self._lock:
            for topic, key, (*others, last), headers, acked in values:
                for chunk in others:
                    self._produce(topic, key, chunk, headers, None)
                self._produce(topic, key, last, headers, acked)

    def _produce(self, topic: str, key: bytes, value: bytes, headers: Headers, acked: Acked | None) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                if error.code() != KafkaError._PURGE_QUEUE:  # noqa: SLF001 - librdkafka's own code
                    self._failed(self._refusal(topic, len(value), error))
                self._lost()
                return
            self._taken()
            if acked is not None:
                acked(message.offset() or 0)

        while not self.is_stopped:
            try:
                self._producer.produce(
                    topic, key=key, value=value, headers=list(headers), partition=0, on_delivery=delivered
                )
            except BufferError:  # 100,000 records or BUFFER bytes wait for the broker
                self._flush(0.1)
            except KafkaException as error:
                if not self._is_told(topic, len(value), error.args[0]):
                    raise
                break
            else:
                return
        self._lost()

    def _is_told(self, topic: str, size: int, error: KafkaError) -> bool:
        """Report why a record was not even handed over; return False if the caller must raise the error."""
        if error.code() == KafkaError._UNKNOWN_TOPIC:  # noqa: SLF001 - librdkafka's own code
            self._failed(self._refusal(topic, size, error))
            return True
        return bool(error.code() == KafkaError._FATAL)  # noqa: SLF001 - `_hear` reports this one

    def _refusal(self, topic: str, size: int, error: KafkaError) -> str:
        """Return why a record was refused.  A broker that lost a producer's sequence has lost its last records, too."""
        what = f"a record of {size} bytes for {topic} was not taken: {error}"
        if error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return f"TopicLost: {TopicLost(f'{what}: what was written before it is not there any more')}"
        # The owner of a gapless outlet determines this itself.
        why = "" if self._is_gapless else why_full(self._bootstrap, topic)
        return f"{what}. {why}; change that with kafka-configs, and start this process again" if why else what

    def _poll(self) -> None:
        turns, told = Turns(most_ms=5, each_ms=0.2), 0
        try:
            while not self._closing.is_set():
                turns.gather(told)
                told = self._hear(0.2)
        except Exception as error:  # of a callback: without this thread no acknowledgement is received
            log.exception("acknowledgement_failed")
            self._failed(f"an acknowledgement could not be taken: {error}")

    def _hear(self, timeout: float) -> int:
        """Process acknowledgements and return their number."""
        try:
            return self._producer.poll(timeout)
        except KafkaException as error:
            self._purge()
            self._flush(FATAL_S)  # reports the refused record, which is the better reason
            self._failed(f"the producer cannot go on: {error}")
            return 0

    def _purge(self) -> None:
        """Drop the queued records: after a fatal error none of them will be sent."""
        self._producer.purge(in_flight=False)

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all records are acknowledged, for at most `timeout` seconds."""
        self._let_go()
        self._flush(timeout)

    def _flush(self, timeout: float) -> None:
        try:
            self._producer.flush(timeout)
        except KafkaException as error:
            self._purge()
            self._failed(f"the producer cannot go on: {error}")

    def close(self, timeout: float = 2.0) -> None:
        """Send the waiting records, for at most `timeout` seconds, and stop the thread."""
        self.flush(timeout)
        self._closing.set()
        self._thread.join(timeout=1)
