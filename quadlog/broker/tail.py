"""The tail, which reads topics from given offsets on."""

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
"""Seconds after which a topic that went back is checked again: a newly elected leader may report an earlier end."""
AGAIN_S: Final = 1.0
"""Seconds until a topic that cannot be read is read again, unless the error ends the tail."""

STEADY_S: Final = 10.0
"""Seconds within which an error that recurs, with no record read in between, was not cured by checking the topics."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Topics that may be deleted and re-created, or go back, also while they are not being read."""

    known: Mapping[str, str | None]
    """The id that each topic had when offsets in it were stored; None if unknown."""
    told: Callable[[str, str | None, bool], None]
    """Callback with a topic, its id, and whether it replaces another topic, so that no stored offset is valid in it.

    Called before any of it is read, or read again from its beginning.  Without an id the topic is gone.
    """
    lacks: Callable[[str, Gap], None]
    """Callback with a topic that does not continue where it was read up to; called before any of it is read again."""
    anchors: Mapping[str, Anchor] = field(default_factory=dict[str, Anchor])
    """The last record of each topic that was read when offsets in it were stored."""
    again: Mapping[str, int] = field(default_factory=dict[str, int])
    """Offset, by topic, from which a topic that went back is read again; other topics are read from their beginning."""
    is_vital: bool = True
    """True if the tail ends when a topic cannot be read; otherwise the topic is retried, and the error is logged."""


class KafkaTail:
    """Reader of partitions of one cluster, from given offsets on, with its own thread.

    At its start, and whenever no broker was connected, the `Watched` topics are checked before reading continues.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        name: str,
        hear: Hear,
        failed: Callable[[str], None],
        full: Callable[[], frozenset[str]] = frozenset,
        watched: Watched | None = None,
    ) -> None:
        """Prepare to read; nothing is read before `start`.

        Args:
            bootstrap: bootstrap servers of the cluster.
            name: name of the tail for quadlog's logs, and client id for the broker's.
            hear: callback for every batch.
            failed: callback with the reason why reading can never continue.
            full: function that returns the topics whose reader accepts no more records for now.
            watched: topics that are checked for being re-created or going back; None: no topics.

        """
        self.name: Final = name
        self._full = full
        self._paused: set[str] = set()
        self._bootstrap, self._hear, self._failed = bootstrap, hear, failed
        self._watched = watched
        self._identities: Identities | None = None
        self._closing = threading.Event()
        self._offsets: dict[str, int] = {}
        """Next offset of each topic that is read."""
        self._anchors: dict[str, Anchor] = dict(watched.anchors) if watched is not None else {}
        self._last: dict[str, Record] = {}
        """The last record that was read of each topic; anchors are made of these records on demand."""
        self._is_lost = False
        """True if the connection to all brokers was lost since the topics were checked."""
        self._fault, self._met_at = "", float("-inf")
        """The error that prevents reading, until a record is read, and the time at which it was noticed."""
        self._own: frozenset[str] = frozenset()
        """Topics that were passed to `start`, and need no call of `read`."""
        self._until: dict[str, int] = {}
        self._asked: queue.SimpleQueue[tuple[str, int | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"tail-{name}", daemon=True)

    def start(self, offsets: Mapping[str, int], *, until: Mapping[str, int] | None = None) -> Self:
        """Start reading.

        `offsets`: first offset of each topic, which may be `BEGINNING`, `END` or `last(n)`.  `until`: end offset,
        exclusive, of topics that are read only up to there; those not in `offsets` are ignored.
        """
        self._until = {topic: end for topic, end in (until or {}).items() if topic in offsets}
        done = {topic for topic, end in self._until.items() if end == 0 or offsets[topic] >= end}
        self._offsets = {topic: at for topic, at in offsets.items() if topic not in done}
        self._own = frozenset(offsets)
        self._thread.start()
        return self

    def read(self, topic: str, offset: int) -> None:
        """Read a topic from an offset on, again or for the first time.

        Records that were read before may still be delivered first.
        """
        self._asked.put((topic, offset))

    def leave(self, topic: str) -> None:
        """Stop reading a topic; records that were already read may still be delivered."""
        self._asked.put((topic, None))

    def close(self) -> None:
        """Stop reading; return when the thread has ended."""
        self._closing.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout=5)

    def _run(self) -> None:
        try:
            if self._watched is not None:
                self._identities = Identities(self._bootstrap, self._watched.known)
            while not self._closing.is_set():
                with reading(self._bootstrap, self.name, lost=self._lose) as consumer:
                    self._read_on(consumer)
        except Exception as error:
            log.exception("tail_failed", tail=self.name)
            self._failed(f"reading from {self.name} failed: {error}")

    def _lose(self) -> None:
        self._is_lost = self._watched is not None

    def _read_on(self, consumer: Consumer) -> None:
        """Read until the tail is closed, or the topics must be checked and read by a new consumer."""
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
            except StateError as error:  # the offset does not exist: the topic may have gone back
                self._meet(error)
                return
            if self._is_lost:
                return  # the records may be from an older copy of the topic
            heard = len(records)
            if records:
                self._fault = ""
                self._hear(records)
                self._note(records)
                self._end_of_topics(consumer, records)

    def _note(self, records: Sequence[Record]) -> None:
        for record in records:
            topic = record.topic
            if topic not in self._offsets:
                continue  # left meanwhile
            self._offsets[topic] = record.offset + 1
            last = self._last.get(topic)
            if last is None or record.offset > last.offset:
                self._last[topic] = record

    def _meet(self, error: StateError) -> None:
        """Let the topics be checked after a read error, and report an error that this does not explain.

        Raises:
            StateError: the topics are not watched, or they are vital and were checked since the last error.

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
        """Check, before anything is read, that these are the topics in which the offsets were stored.

        Returns False if the tail is closed, or if this consumer cannot tell.  Another consumer may: one that asked
        while a broker was fenced never finds a leader there (librdkafka's issue 5430).
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
        """Report topics that do not continue where they were read up to; return False if the broker does not answer."""
        while consumer.poll(0) is not None:
            pass  # drops errors from the search for the first broker
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
        # Includes topics that `read` may request later, with offsets that were stored elsewhere.
        nexts = {topic: anchor.offset + 1 for topic, anchor in anchors.items()} | self._offsets
        return gaps(consumer, nexts, anchors)

    def _tell(self, topic: str, gap: Gap) -> None:
        """Report a gap.

        A topic that went back is read from its beginning or `Watched.again`; one that was requested by `read` is left
        until it is requested again.
        """
        watched = self._watched
        assert watched is not None, "only watched topics are looked at"
        watched.lacks(topic, gap)
        if gap.is_front and topic in self._offsets:
            self._offsets[topic] = gap.begins
        else:
            self._begin_again({topic}, watched.again.get(topic, BEGINNING))

    def _look_now(self) -> set[str]:
        """Request the ids, wait for the answer and report it; return the re-created topics."""
        identities = self._identities
        if identities is None:
            return set()
        remade = self._look()
        identities.ask()
        while identities.is_asking and not self._closing.wait(0.02):
            remade |= self._look()
        return remade

    def _look(self) -> set[str]:
        """Report topics that were unknown, or that have changed; return the re-created ones."""
        if self._identities is None or self._watched is None:
            return set()
        found = self._identities.poll()
        for topic, (identity, is_other) in found.items():
            self._watched.told(topic, identity, is_other)
        return {topic for topic, (identity, is_other) in found.items() if is_other and identity is not None}

    def _begin_again(self, topics: Collection[str], at: int = BEGINNING) -> None:
        """Discard the state of these topics, and read those that were passed to `start` again from `at`."""
        for topic in topics:
            self._last.pop(topic, None)
            self._anchors.pop(topic, None)
            if topic in self._own and topic in self._offsets:
                self._offsets[topic] = at
            else:  # its reader determines again where to begin
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
        """Wait until all topics exist; return False if the tail is closed.

        A peer's topics may be created after this consumer: polling is faster than librdkafka's refresh.
        """
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
