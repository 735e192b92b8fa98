"""The tail: what is read, from given offsets on."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from quadlog.anchors import Anchor
from quadlog.broker.gaps import gaps
from quadlog.broker.identity import Identities
from quadlog.broker.reading import BEGINNING, batch, reading
from quadlog.clock import Turns
from quadlog.errors import StateError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from quadlog.anchors import Gap
    from quadlog.ports import Hear, Record

log = structlog.get_logger()


SURE_S: Final = 1.0
"""A topic that went back is looked at again after that: a leader that was just elected may tell an earlier end."""
AGAIN_S: Final = 1.0
"""Until a topic is read again that cannot be read, where that does not end the tail."""

STEADY_S: Final = 10.0
"""An error that comes again within that, with nothing read in between, was not mended by looking at the topics."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Topics that may be deleted and made anew, or go back, while they are read, or while nobody reads them."""

    known: Mapping[str, str | None]
    """Topic to the id that it had when offsets in it were noted; None: that is not known."""
    told: Callable[[str, str | None, bool], None]
    """Given a topic, its id, and whether it was another one before, in which no offset means anything now: before
    anything of it is read, or read again from its beginning.  Without an id it is gone."""
    lacks: Callable[[str, Gap], None]
    """Given a topic that does not go on where it was read up to: before anything of it is read again."""
    anchors: Mapping[str, Anchor] = field(default_factory=dict[str, Anchor])
    """Topic to the last record that was read when offsets in it were noted."""
    again: Mapping[str, int] = field(default_factory=dict[str, int])
    """Topic that went back to where it is read again from; others from their beginning."""
    is_vital: bool = True
    """Whether the reader ends where a topic cannot be read; else it is tried again, and told in the log."""


class KafkaTail:
    """Reads partitions of one cluster from given offsets on, in a thread of its own.

    Whenever no broker was connected, and when it starts, `Watched` topics are looked at before they are read on.
    """

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
            watched: topics of which it is to be told that they were made anew, or went back; None: none.

        """
        self.name: Final = name
        self._full = full
        self._paused: set[str] = set()
        self._bootstrap, self._client, self._hear, self._failed = bootstrap, client, hear, failed
        self._watched = watched
        self._identities: Identities | None = None
        self._closing = threading.Event()
        self._offsets: dict[str, int] = {}
        """Of each topic that is read: where to read on."""
        self._anchors: dict[str, Anchor] = dict(watched.anchors) if watched is not None else {}
        self._last: dict[str, Record] = {}
        """Of each topic the last record that was read; anchors are made of them when they are needed."""
        self._is_lost = False
        """Whether no broker was connected since the topics were looked at."""
        self._fault, self._met_at = "", float("-inf")
        """Why nothing can be read, until something is, and when that was met."""
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
                with reading(self._bootstrap, self._client, lost=self._lose) as consumer:
                    self._read_on(consumer)
        except Exception as error:
            log.exception("tail_failed", tail=self.name)
            self._failed(f"reading from {self.name} failed: {error}")

    def _lose(self) -> None:
        self._is_lost = self._watched is not None

    def _read_on(self, consumer: Consumer) -> None:
        """Read until it is closed, or all is to be looked at and read by a new consumer."""
        if not (self._await_topics(consumer) and self._recognise(consumer)):
            return
        consumer.assign([TopicPartition(topic, 0, at) for topic, at in self._offsets.items()])
        self._paused.clear()
        turns, heard = Turns(most_ms=10, each_ms=0.3), 0
        while not self._closing.is_set():
            turns.gather(heard)
            self._hold_back(consumer)
            self._redirect(consumer)
            if remade := self._look():
                self._begin_again(remade)
                return
            try:
                records = batch(consumer, timeout=0.02 if self._paused else 0.2)
            except StateError as error:  # an offset that is not there: did the topic go back?
                self._meet(error)
                return
            if self._is_lost:
                return  # the records may be of an older copy
            heard = len(records)
            if records:
                self._fault = ""
                self._hear(self.name, records)
                self._note(records)
                self._end_of_topics(consumer, records)

    def _note(self, records: Sequence[Record]) -> None:
        for record in records:
            topic = record.topic
            if topic not in self._offsets:
                continue  # it was left
            self._offsets[topic] = record.offset + 1
            last = self._last.get(topic)
            if last is None or record.offset > last.offset:
                self._last[topic] = record

    def _meet(self, error: StateError) -> None:
        """Nothing can be read: the topics are looked at, and where that does not explain it, it is told.

        Raises:
            StateError: they were looked at since, and are vital.

        """
        watched, fault, moment = self._watched, str(error), time.monotonic()
        is_met_again = bool(self._fault) and moment - self._met_at < STEADY_S
        if watched is None or (watched.is_vital and is_met_again):
            raise error
        if self._fault != fault:
            self._fault = fault
            log.warning("topic_read_failed", tail=self.name, reason=fault)
        self._closing.wait(AGAIN_S)
        self._met_at = time.monotonic()

    def _recognise(self, consumer: Consumer) -> bool:
        """Before anything is read: are these the topics in which the offsets were noted?

        False: it is closed, or this consumer cannot tell.  Another one may: who looked while a broker was fenced finds
        no leader there for good (librdkafka's issue 5430).
        """
        while self._identities is not None and not self._closing.is_set():
            self._is_lost = False
            self._begin_again(self._look_now())
            if not self._identities.knows(self._offsets):
                continue
            if not self._find_gaps(consumer):
                return False
            if not self._is_lost:
                break
        return not self._closing.is_set()

    def _find_gaps(self, consumer: Consumer) -> bool:
        """Tell of topics that do not go on where they were read up to; False: the broker does not answer."""
        while consumer.poll(0) is not None:
            pass  # what was told while its first broker was looked for
        self._is_lost = False
        try:
            found = self._gaps(consumer)
            if any(not gap.is_front for gap in found.values()):
                self._closing.wait(SURE_S)
                found = {topic: gap for topic, gap in self._gaps(consumer).items() if topic in found}
        except (KafkaException, StateError, Unavailable) as error:
            log.warning("topic_lookup_failed", tail=self.name, reason=str(error))
            self._closing.wait(AGAIN_S)
            return False
        for topic, gap in found.items():
            self._tell(topic, gap)
        return True

    def _gaps(self, consumer: Consumer) -> dict[str, Gap]:
        anchors = {**self._anchors, **{topic: Anchor.of(record) for topic, record in self._last.items()}}
        # Also of topics that somebody may ask for: by offsets that were noted elsewhere.
        nexts = {topic: anchor.offset + 1 for topic, anchor in anchors.items()} | self._offsets
        return gaps(consumer, nexts, anchors)

    def _tell(self, topic: str, gap: Gap) -> None:
        """A topic that went back is read from its beginning, unless whoever asked for it looks for another place."""
        watched = self._watched
        assert watched is not None, "only watched topics are looked at"
        watched.lacks(topic, gap)
        if gap.is_front and topic in self._offsets:
            self._offsets[topic] = gap.begins
        else:
            self._begin_again({topic}, watched.again.get(topic, BEGINNING))

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

    def _begin_again(self, topics: Collection[str], at: int = BEGINNING) -> None:
        """Nothing that was noted of these means anything now."""
        for topic in topics:
            self._last.pop(topic, None)
            self._anchors.pop(topic, None)
            if topic in self._own and topic in self._offsets:
                self._offsets[topic] = at
            else:  # whoever asked for it looks again for where to begin
                self._offsets.pop(topic, None)

    def _redirect(self, consumer: Consumer) -> None:
        while not self._asked.empty():
            topic, offset = self._asked.get()
            reads = any(partition.topic == topic for partition in consumer.assignment())
            if offset is not None:
                self._offsets[topic] = offset
            if offset is None:
                self._offsets.pop(topic, None)
                self._last.pop(topic, None)
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
                del self._offsets[topic]

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
            self._begin_again(self._look())
            self._closing.wait(0.1)
        return False
