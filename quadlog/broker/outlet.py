"""The outlet: where records go."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from quadlog.broker.admin import why_full
from quadlog.broker.connection import COMMON
from quadlog.broker.reading import STARTING_S
from quadlog.clock import Turns
from quadlog.errors import TopicLost

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from confluent_kafka import Message

    from quadlog.ports import Acked, Headers


log = structlog.get_logger()

BUFFER: Final = 256 * 1024 * 1024
"""Bytes that may wait for the broker; above it whoever has more to say waits."""


HELD: Final = 1024 * 1024
"""Bytes that are kept to go together: more than a request takes at once would only cost memory."""


FATAL_S: Final = 5.0
"""How long a producer that cannot go on has to tell what became of all that it was given."""

GAPLESS: Final[dict[str, Any]] = {
    # A record that is refused ends the producer; else what follows it would be taken.
    "enable.gapless.guarantee": True,
    # Of a producer that it does not know yet a broker takes any request as the first one: a later one could pass an
    # earlier one that it tells to come again.
    "max.in.flight.requests.per.connection": 1,
    # Each such producer would begin with a warning that the first of these is experimental.
    "log_level": 3,
}


@dataclass(frozen=True, slots=True)
class _Value:
    """What `KafkaOutlet.produce` is given."""

    topic: str
    key: bytes
    chunks: Sequence[bytes]
    headers: Headers
    acked: Acked | None


class _Held(threading.local):
    """What a thread says while it is `together`; None while it is not."""

    values: list[_Value] | None = None
    size = 0
    """Bytes of it."""


class KafkaOutlet:
    """An idempotent producer with a thread of its own that hears the acknowledgements."""

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
            bootstrap: one data centre's Kafka.
            client: how it knows this producer.
            failed: called with a reason when this producer can never again keep its promise; on the producer's
                thread, or on the one that says a record.
            taken: called for each record that is acknowledged; on the producer's thread.
            lost: called for each that is not, and never will be; there, or on the thread that says it.
            is_gapless: whether nothing is to be taken behind a record that was refused.

        """
        self._failed, self._taken, self._lost = failed, taken, lost
        self._bootstrap, self._is_gapless = bootstrap, is_gapless
        self._lock = threading.Lock()
        self._held = _Held()
        self._producer = Producer(
            {
                **COMMON,
                "bootstrap.servers": bootstrap,
                "client.id": client,
                "acks": "all",
                "enable.idempotence": True,
                # What a turn says comes within a millisecond, and goes in one request for each topic: without a
                # pause the first record went alone, and every reader fetched twice.
                "linger.ms": 1,
                # As many as an idempotent producer keeps in order.  With one, the requests of a turn for several
                # topics waited for each other.
                "max.in.flight.requests.per.connection": 5,
                **(GAPLESS if is_gapless else {}),
                # Retried until the broker is back: only the broker's word ends a record.
                "message.timeout.ms": 0,
                # A broker that is busy tells late of a topic that was just made.
                "topic.metadata.propagation.max.ms": round(STARTING_S * 1000),
                # Memory for records that the broker has not taken; librdkafka's own limit is a gigabyte.
                "queue.buffering.max.kbytes": BUFFER // 1024,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 500,
            }
        )
        self._closing = threading.Event()
        self.is_stopped = False
        """Whether nothing that is said is handed over any more."""
        self._thread = threading.Thread(target=self._poll, name="outlet", daemon=True)
        self._thread.start()

    def produce(
        self, topic: str, *, key: bytes, values: Sequence[bytes], headers: Headers, acked: Acked | None = None
    ) -> None:
        """Hand over the chunks of one value; see `quadlog.ports.Outlet`."""
        value = _Value(topic, key, values, headers, acked)
        if self._held.values is None:
            self._hand_over([value])
            return
        self._held.values.append(value)
        self._held.size += sum(map(len, values))
        if self._held.size > HELD:
            self._let_go()

    @contextmanager
    def together(self) -> Generator[Callable[[], None], None, None]:
        """What the calling thread says within this goes at its end; see `quadlog.ports.Together`.

        Said one by one while a turn takes its time, each would come alone to the broker and to all readers.
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
            for value in values:
                *others, last = value.chunks
                for chunk in others:
                    self._produce(value.topic, value.key, chunk, value.headers, None)
                self._produce(value.topic, value.key, last, value.headers, value.acked)

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
        """Whether somebody is told why a record was not even handed over."""
        if error.code() == KafkaError._UNKNOWN_TOPIC:  # noqa: SLF001 - librdkafka's own code
            self._failed(self._refusal(topic, size, error))
            return True
        return bool(error.code() == KafkaError._FATAL)  # noqa: SLF001 - whoever hears acknowledgements is

    def _refusal(self, topic: str, size: int, error: KafkaError) -> str:
        """Why a record was not taken.  A broker that forgot the sequence of a producer forgot its last records, too."""
        what = f"a record of {size} bytes for {topic} was not taken: {error}"
        if error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return f"TopicLost: {TopicLost(f'{what}: what was written before it is not there any more')}"
        # Of a gapless outlet somebody else asks.
        why = "" if self._is_gapless else why_full(self._bootstrap, topic)
        return f"{what}. {why}; change that with kafka-configs, and start this process again" if why else what

    def _poll(self) -> None:
        turns, told = Turns(most_ms=5, each_ms=0.2), 0
        try:
            while not self._closing.is_set():
                turns.gather(told)
                told = self._hear(0.2)
        except Exception as error:  # of who was told: without this thread nobody hears of an acknowledgement
            log.exception("acknowledgement_failed")
            self._failed(f"an acknowledgement could not be taken: {error}")

    def _hear(self, timeout: float) -> int:
        """Acknowledgements."""
        try:
            return self._producer.poll(timeout)
        except KafkaException as error:
            self._purge()
            self._flush(FATAL_S)  # which record it was that was refused is the better reason
            self._failed(f"the producer cannot go on: {error}")
            return 0

    def _purge(self) -> None:
        """It cannot go on: nothing of what waits will be sent."""
        self._producer.purge(in_flight=False)

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all that was said is acknowledged, for `timeout` seconds at most."""
        self._let_go()
        self._flush(timeout)

    def _flush(self, timeout: float) -> None:
        try:
            self._producer.flush(timeout)
        except KafkaException as error:
            self._purge()
            self._failed(f"the producer cannot go on: {error}")

    def close(self, timeout: float = 2.0) -> None:
        """Send what waits, for `timeout` seconds at most."""
        self.flush(timeout)
        self._closing.set()
        self._thread.join(timeout=1)
