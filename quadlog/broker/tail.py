"""The tail: what is read, from given offsets on."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from quadlog.broker.identity import Identities
from quadlog.broker.reading import BEGINNING, batch, reading
from quadlog.clock import Turns
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from quadlog.ports import Hear, Record

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Watched:
    """Topics that may be deleted and made anew while they are read, or while nobody reads them."""

    known: Mapping[str, str | None]
    """Topic to the id that it had when offsets in it were noted; None: that is not known."""
    told: Callable[[str, str | None, bool], None]
    """Given a topic, its id, and whether it was another one before, in which no offset means anything now: before
    anything of it is read, or read again from its beginning.  Without an id it is gone."""


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
        watched: Watched | None = None,
    ) -> None:
        """Nothing is read before `start`.

        Args:
            bootstrap: the cluster.
            client: name for the broker's logs.
            name: name for ours.
            hear: is given every batch.
            failed: is given a reason why reading can never go on.
            full: topics whose reader wants no more for now.
            watched: topics of which it is to be told that they were made anew; None: none.

        """
        self.name: Final = name
        self._full = full
        self._paused: set[str] = set()
        self._bootstrap, self._client, self._hear, self._failed = bootstrap, client, hear, failed
        self._watched = watched
        self._identities: Identities | None = None
        self._closing = threading.Event()
        self._offsets: dict[str, int] = {}
        """From where on a consumer begins to read each topic."""
        self._own: frozenset[str] = frozenset()
        """Topics that nobody has to ask for."""
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
        self._own = frozenset(offsets)
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
            if self._watched is not None:
                self._identities = Identities(self._bootstrap, self._watched.known)
            while not self._closing.is_set():
                with reading(self._bootstrap, self._client) as consumer:
                    self._read_on(consumer)
        except Exception as error:
            log.exception("tail failed", tail=self.name)
            self._failed(f"reading from {self.name} failed: {error}")

    def _read_on(self, consumer: Consumer) -> None:
        """Read until it is closed, or a topic was made anew: then all is to be read by a new consumer."""
        if self._await_topics(consumer):
            self._recognise()
            consumer.assign([TopicPartition(topic, 0, at) for topic, at in self._offsets.items()])
        self._paused.clear()
        turns, heard = Turns(most_ms=10, each_ms=0.3), 0
        while not self._closing.is_set():
            turns.gather(heard)
            self._hold_back(consumer)
            self._redirect(consumer)
            if remade := self._look():
                self._begin_again(consumer, remade)
                return
            try:
                records = batch(consumer, timeout=0.02 if self._paused else 0.2)
            except StateError:  # an offset that is not there: is it another topic?
                if not (remade := self._look_now()):
                    raise
                self._begin_again(consumer, remade)
                return
            heard = len(records)
            if records:
                self._hear(self.name, records)
                self._end_of_topics(consumer, records)

    def _recognise(self) -> None:
        """Before anything is read: are these the topics in which the offsets were noted?"""
        while self._identities is not None and not self._closing.is_set():
            self._read_anew(self._look_now())
            if self._identities.knows(self._offsets):
                return

    def _read_anew(self, remade: set[str]) -> None:
        self._offsets |= dict.fromkeys(remade & self._offsets.keys(), BEGINNING)

    def _look_now(self) -> set[str]:
        """Ask, wait for the answer, and tell of it."""
        identities = self._identities
        if identities is None:
            return set()
        remade = self._look()
        identities.ask()
        while identities.is_asking and not self._closing.wait(0.02):
            remade |= self._look()
        return remade

    def _look(self) -> set[str]:
        """Tell of topics that were not known, or are not those that were; the latter."""
        if self._identities is None or self._watched is None:
            return set()
        found = self._identities.look()
        for topic, (identity, is_other) in found.items():
            self._watched.told(topic, identity, is_other)
        return {topic for topic, (identity, is_other) in found.items() if is_other and identity is not None}

    def _begin_again(self, consumer: Consumer, remade: Collection[str]) -> None:
        """Note where the other topics are to be read on; those made anew are read from their beginning."""
        log.warning("topics were made anew", tail=self.name, topics=sorted(remade))
        offsets: dict[str, int] = {}
        for partition in consumer.position(consumer.assignment()):
            topic, at = partition.topic, partition.offset
            if topic not in remade:
                offsets[topic] = at if at >= 0 else self._offsets[topic]
            elif topic in self._own:  # whoever asked for another one looks again for where to begin
                offsets[topic] = BEGINNING
        self._offsets = offsets

    def _redirect(self, consumer: Consumer) -> None:
        while not self._asked.empty():
            topic, offset = self._asked.get()
            reads = any(partition.topic == topic for partition in consumer.assignment())
            if offset is not None:
                self._offsets[topic] = offset
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
            self._read_anew(self._look())
            self._closing.wait(0.1)
        return False
