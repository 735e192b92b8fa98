"""The outlet: where records go."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, Producer

from quadlog.broker.connection import COMMON
from quadlog.clock import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

    from quadlog.ports import Acked, Headers


BUFFER: Final = 256 * 1024 * 1024
"""Bytes that may wait for the broker; above it whoever has more to say waits."""


class KafkaOutlet:
    """An idempotent producer with a thread of its own that hears the acknowledgements."""

    def __init__(self, bootstrap: str, *, client: str, failed: Callable[[str], None]) -> None:
        """`failed` is called with a reason when this producer can never again keep its promise."""
        self._failed = failed
        self._lock = threading.Lock()
        self._producer = Producer(
            {
                **COMMON,
                "bootstrap.servers": bootstrap,
                "client.id": client,
                "acks": "all",
                "enable.idempotence": True,
                # What a turn says comes within a millisecond, and goes in one request: without a pause the
                # first record went alone, and every reader fetched twice.  What comes while a request is
                # under way goes together in the next one, so batches grow with the load.
                "linger.ms": 1,
                "max.in.flight.requests.per.connection": 1,
                # Retried until the broker is back: only the broker's word ends a record.
                "message.timeout.ms": 0,
                # Memory for records that the broker has not taken; librdkafka's own limit is a gigabyte.
                "queue.buffering.max.kbytes": BUFFER // 1024,
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
            except BufferError:  # 100,000 records or BUFFER bytes wait for the broker
                self._producer.flush(0.1)
            else:
                return

    def _poll(self) -> None:
        turns, told = Turns(most_ms=5, each_ms=0.2), 0
        while not self._closing.is_set():
            turns.gather(told)
            told = self._producer.poll(0.2)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed(f"the producer cannot go on: {error}")

    def flush(self, timeout: float = 5.0) -> None:
        """Wait until all that was handed over is acknowledged, for `timeout` seconds at most."""
        self._producer.flush(timeout)

    def close(self, timeout: float = 2.0) -> None:
        """Send what waits, for `timeout` seconds at most."""
        self.flush(timeout)
        self._closing.set()
        self._thread.join(timeout=1)
