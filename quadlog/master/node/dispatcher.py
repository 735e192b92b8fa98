"""Dispatcher: dispatches the records that tails read.  Posts and heartbeats do not wait for earlier records."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from consumers import agreed, rounds, status
from quadlog.anchors import Anchor
from quadlog.clock import now
from quadlog.codec.envelope import SOURCE
from quadlog.core.messages import PostReceived
from quadlog.core.records import Heartbeat
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.master.effects.effects_follower import EffectsFollower
    from quadlog.master.log.duplicate_node import DuplicateNodeDetector
    from quadlog.master.log.joining import Joining
    from quadlog.master.node.leader_tasks import LeaderTasks
    from quadlog.master.node.state_writer import StateWriter
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.master.payloads.relay import PayloadRelay
    from quadlog.master.workers.worker_registry import WorkerRegistry
    from quadlog.ports import Record

log = structlog.get_logger()

SLICE: Final = 100
"""Number of records between two checks of the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRoles:
    """Meaning of each topic; `Acquiring` and `EffectsFollower` recognise those of payloads and of the own effects."""

    rounds: Mapping[str, str]
    """Data centre of each topic of posts."""
    agreed: str
    """The own agreed topic, heard only if other masters of the data centre write to it, too."""
    sources: Mapping[str, str]
    """Data centre of each topic of other data centres' effects, which may be copied from."""
    sides: Mapping[str, str]
    """Data centre of each of their agreed topics, which may be read by `Joining`."""
    own: Collection[str]
    """Topics of the own data centre without which the node cannot continue."""
    needed: Collection[str] = ()
    """Those own topics of which no record may be skipped."""
    status: str
    payloads: Mapping[str, str] = field(default_factory=dict[str, str])
    """Data centre of each topic of other data centres' payloads."""

    def dc_of(self, topic: str) -> str:
        """Return the data centre of a topic of another data centre."""
        found = (names.get(topic) for names in (self.rounds, self.sources, self.sides, self.payloads))
        return next(dc for dc in found if dc is not None)


class RecordDispatcher:
    """Dispatches records.  Owned by the node's thread."""

    def __init__(
        self,
        topic_roles: TopicRoles,
        *,
        dc: str,
        agreement: Agreement,
        acquiring: Acquiring,
        effects_follower: EffectsFollower,
        state_writer: StateWriter,
        joining: Joining,
        relay: PayloadRelay,
        duplicate_detector: DuplicateNodeDetector,
        worker_registry: WorkerRegistry,
        leader_tasks: LeaderTasks,
        heard: Callable[[], None],
    ) -> None:
        """`heard`: called when a batch was processed completely."""
        self.unreadable: Final[Counter[str]] = Counter()
        """Number of records of other programs, by topic."""
        self._topic_roles, self._dc = topic_roles, dc
        self._agreement, self._acquiring = agreement, acquiring
        self._effects_follower, self._state_writer = effects_follower, state_writer
        self._joining, self._relay = joining, relay
        self._worker_registry, self._leader_tasks = worker_registry, leader_tasks
        self._duplicate_detector, self._heard = duplicate_detector, heard
        self._prompt: Final = frozenset((*topic_roles.rounds, topic_roles.status))
        self._last: dict[str, Record] = {}
        """Last record that was read of each topic since anchors were last requested."""
        self._later: deque[Sequence[Record]] = deque()
        """Batches that tails read, without the records that were processed at once."""

    @property
    def has_more(self) -> bool:
        """True if records were read that are still to process."""
        return bool(self._later)

    def on_records(self, records: Sequence[Record]) -> None:
        """Process the posts and heartbeats of a batch at once, and queue its other records."""
        for record in records:
            self._last[record.topic] = record
            if record.topic in self._prompt:
                self._hear_if_ours(record)
        self._later.append([record for record in records if record.topic not in self._prompt])

    def anchors(self) -> dict[str, Anchor]:
        """Return the anchor of each topic with a saved offset of which records were read since the last call."""
        last, self._last = self._last, {}
        return {
            topic: Anchor.of(record) for topic, record in last.items() if topic != self._topic_roles.status
        }

    def forget(self, topic: str) -> None:
        """Discard what was read of a topic as an anchor."""
        self._last.pop(topic, None)

    def hear_the_rest(self, *, until: float) -> None:
        """Process queued records until `until`, at least a slice of them: others wait for this master's posts."""
        while self._later:
            records = self._later.popleft()
            for record in records[:SLICE]:
                self._hear_if_ours(record)
            if len(records) > SLICE:
                self._later.appendleft(records[SLICE:])
            else:
                self._heard()
            if now().steady >= until:
                return

    def _hear_if_ours(self, record: Record) -> None:
        """Process a record; skip and count it if another program wrote it: such a record must not stop the order."""
        try:
            self._hear(record)
        except ForeignRecord as error:
            self.unreadable[record.topic] += 1
            log.warning("record_skipped", topic=record.topic, offset=record.offset, error=str(error))

    def _hear(self, record: Record) -> None:
        topic, topic_roles = record.topic, self._topic_roles
        if dc := topic_roles.rounds.get(topic):
            post, moment = rounds.hear(record), now()
            self._duplicate_detector.on_post(post, record.value)
            self._relay.on_post(post, record, dc, moment.steady)
            self._agreement.step(PostReceived(post=post), moment)
        elif topic in self._acquiring.topics:
            self._acquiring.on_record(record, leads=self._leader_tasks.leads)
        elif topic == topic_roles.status:
            beat = status.hear(record)
            if isinstance(beat, Heartbeat) and self._worker_registry.on_heartbeat(beat, now().steady):
                self._leader_tasks.look_soon()
        elif topic == topic_roles.agreed:
            self._joining.on_record(self._dc, record)
            if place := agreed.place_of(record):
                mine = record.header(SOURCE) == self._agreement.node.encode()
                self._state_writer.published(place, record.offset, mine=mine)
        elif source := topic_roles.sources.get(topic):
            self._leader_tasks.copying.on_record(source, record)
        elif side := topic_roles.sides.get(topic):
            self._joining.on_record(side, record)
        elif topic == self._effects_follower.topic:
            self._hear_own_effects(record)

    def _hear_own_effects(self, record: Record) -> None:
        self._leader_tasks.topic_health.heard()
        if self._effects_follower.on_record(record, agreed=self._agreement.last.index):
            self._leader_tasks.look_soon()
