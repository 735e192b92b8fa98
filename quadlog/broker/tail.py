"""The tail: what is read, from given offsets on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from quadlog.broker.reading import batch, reading

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from quadlog.ports import Hear

log = structlog.get_logger()


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
            with reading(self._bootstrap, self._client) as consumer:
                if self._await_topics(consumer):
                    consumer.assign([TopicPartition(topic, 0, at) for topic, at in self._offsets.items()])
                while not self._closing.is_set():
                    self._hold_back(consumer)
                    if records := batch(consumer, timeout=0.02 if self._paused else 0.2):
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
