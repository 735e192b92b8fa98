"""The tail: what is read, from given offsets on."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from quadlog.broker.reading import batch, reading
from quadlog.clock import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from quadlog.ports import Hear, Record

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
        full: Callable[[], frozenset[str]] = frozenset,
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
        self._until: dict[str, int] = {}
        self._asked: queue.SimpleQueue[tuple[str, int | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"tail-{name}", daemon=True)

    def start(self, offsets: Mapping[str, int], *, until: Mapping[str, int] | None = None) -> Self:
        """Begin.

        Args:
            offsets: topic to first offset, which may be `BEGINNING`, `END` or `last(n)`.
            until: topics that are read up to an offset only, that one not included; others are passed over.

        """
        self._until = {topic: end for topic, end in (until or {}).items() if topic in offsets}
        done = {topic for topic, end in self._until.items() if end == 0 or offsets[topic] >= end}
        self._offsets = {topic: at for topic, at in offsets.items() if topic not in done}
        self._thread.start()
        return self

    def read(self, topic: str, offset: int) -> None:
        """Read a topic from an offset on, again or for the first time; what was read before may be heard first."""
        self._asked.put((topic, offset))

    def leave(self, topic: str) -> None:
        """Read a topic no more; what was read before may still be heard."""
        self._asked.put((topic, None))

    def close(self) -> None:
        """Stop reading; returns when the thread is done."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            with reading(self._bootstrap, self._client) as consumer:
                if self._await_topics(consumer):
                    consumer.assign([TopicPartition(topic, 0, at) for topic, at in self._offsets.items()])
                turns, heard = Turns(most_ms=10, each_ms=0.3), 0
                while not self._closing.is_set():
                    turns.gather(heard)
                    self._hold_back(consumer)
                    self._redirect(consumer)
                    records = batch(consumer, timeout=0.02 if self._paused else 0.2)
                    heard = len(records)
                    if records:
                        self._hear(self.name, records)
                        self._end_of_topics(consumer, records)
        except Exception as error:
            log.exception("tail failed", tail=self.name)
            self._failed(f"reading from {self.name} failed: {error}")

    def _redirect(self, consumer: Consumer) -> None:
        while not self._asked.empty():
            topic, offset = self._asked.get()
            reads = any(partition.topic == topic for partition in consumer.assignment())
            if offset is None:
                if reads:
                    consumer.incremental_unassign([TopicPartition(topic, 0)])
            elif reads:
                consumer.seek(TopicPartition(topic, 0, offset))
            else:
                consumer.incremental_assign([TopicPartition(topic, 0, offset)])

    def _end_of_topics(self, consumer: Consumer, records: Sequence[Record]) -> None:
        for topic, end in list(self._until.items()):
            if any(record.topic == topic and record.offset >= end - 1 for record in records):
                consumer.incremental_unassign([TopicPartition(topic, 0)])
                del self._until[topic]

    def _hold_back(self, consumer: Consumer) -> None:
        full = self._full()
        for topic in full.union(self._paused):
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
