"""Identity of topics: those that were re-created, or went back, since they were last read.

No record that is read again counts twice: posts have incarnations, payloads have ids, entries and effects
have chains.

Masters whose own rounds went back may have forgotten what they posted there, as after the loss of a disk:
their incarnations are void from then on (decision 47).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.core.messages import Voided
from quadlog.errors import TopicLost
from quadlog.master.workers.alarms import AlarmName, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from quadlog.anchors import Gap
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.master.events import TopicIdentified, TopicShortened
    from quadlog.master.log.joining import Joining
    from quadlog.master.node.dispatcher import TopicRoles
    from quadlog.master.node.leader_tasks import LeaderTasks
    from quadlog.master.node.state_writer import StateWriter
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.masterstore.store import MasterStore

log = structlog.get_logger()


class PeerMasters:
    """The masters of other data centres, as known to the agreement."""

    def __init__(self, agreement: Agreement, store: MasterStore, dc_of: Mapping[str, str]) -> None:
        """`dc_of`: data centre of every master."""
        self._agreement, self._store, self._dc_of = agreement, store, dc_of

    def heard(self, dc: str) -> dict[str, bytes]:
        """Return the accepted or saved incarnation of each master of a data centre; empty if it is void."""
        return {name: self._incarnation(name) for name, where in self._dc_of.items() if where == dc}

    def void(self, dc: str) -> None:
        """Make the incarnations of a data centre's masters void: what they promised is no longer reliable."""
        for name, incarnation in self.heard(dc).items():
            if incarnation:
                log.warning("incarnation_voided", node=name, incarnation=incarnation.hex())
                self._agreement.step(Voided(node=name, incarnation=incarnation), now())

    def _incarnation(self, name: str) -> bytes:
        member = self._agreement.members.get(name)
        return (self._store.heard(name) or b"") if member is None else member.incarnation


@dataclass(frozen=True, slots=True)
class _ShortenedTopics:
    """A data centre whose topics do not continue where they were read up to."""

    gaps: dict[str, Gap]
    heard: Mapping[str, bytes]
    """Incarnation of each of its masters that was heard before."""


class TopicIdentity:
    """Handles topics that were re-created or went back.  Owned by the node's thread."""

    def __init__(
        self,
        topic_roles: TopicRoles,
        state_writer: StateWriter,
        acquiring: Acquiring,
        leader_tasks: LeaderTasks,
        joining: Joining,
        *,
        masters: PeerMasters,
    ) -> None:
        self._topic_roles: Final = topic_roles
        self._state_writer, self._acquiring = state_writer, acquiring
        self._leader_tasks, self._joining = leader_tasks, joining
        self._masters = masters
        self._lacking: dict[str, _ShortenedTopics] = {}
        """Gaps of other data centres' topics."""

    def recognise(self, seen: TopicIdentified) -> None:
        """Process the identity of a topic that is read.  A peer's topic that was re-created is read from its beginning.

        Raises:
            TopicLost: a topic of this data centre was re-created or is gone.

        """
        topic, topic_roles = seen.topic, self._topic_roles
        if seen.is_other and topic in topic_roles.own:
            raise TopicLost(f"{topic} is {'gone' if seen.identity is None else 'another topic now'}")
        if seen.identity is None:
            return  # until it is created again
        self._state_writer.recognise(topic, seen.identity)
        if not seen.is_other:
            return
        log.warning("peer_topic_recreated", topic=topic)
        self._state_writer.forget(topic)
        self._begin_again(topic)

    def lacks(self, seen: TopicShortened) -> None:
        """Process a topic that does not continue where it was read up to.  A peer's topic is read again.

        Raises:
            TopicLost: the topic is one of this data centre, and the missing records are needed.

        """
        topic, gap, topic_roles = seen.topic, seen.gap, self._topic_roles
        is_own = topic in topic_roles.own or topic == topic_roles.status
        if topic in topic_roles.needed or (is_own and not gap.is_front):
            raise TopicLost(f"{topic} {gap}")
        log.error(
            "records_deleted" if gap.is_front else "peer_topic_went_back",
            topic=topic,
            read=gap.read,
            begins=gap.begins,
            ends=gap.ends,
        )
        if is_own:
            return
        self._state_writer.forget(topic)
        self._begin_again(topic)
        if gap.is_front:
            return
        dc = topic_roles.dc_of(topic)
        self._lacking.setdefault(dc, _ShortenedTopics({}, self._masters.heard(dc))).gaps[topic] = gap
        if topic in topic_roles.rounds:
            self._masters.void(dc)

    def troubles(self) -> Iterator[Trouble]:
        """Yield what an operator must know, until all masters of the affected data centres have a later incarnation."""
        for dc in [dc for dc, lacking in self._lacking.items() if self._has_begun_anew(dc, lacking)]:
            log.info("peer_topics_recovered", dc=dc, topics=sorted(self._lacking.pop(dc).gaps))
        gaps = sorted(
            (found for lacking in self._lacking.values() for found in lacking.gaps.items()), key=itemgetter(0)
        )
        if gaps:
            reason = "; ".join(f"{topic} {gap}" for topic, gap in gaps)
            yield Trouble(name=AlarmName.WENT_BACK, reason=reason)

    def _has_begun_anew(self, dc: str, lacking: _ShortenedTopics) -> bool:
        heard = self._masters.heard(dc)
        return all(heard.get(name, b"") > before for name, before in lacking.heard.items())

    def _begin_again(self, topic: str) -> None:
        topic_roles = self._topic_roles
        if topic in self._acquiring.topics:
            for other, offset in self._acquiring.begin_again(topic).items():
                self._leader_tasks.read(other, offset)
        elif source := topic_roles.sources.get(topic):
            self._leader_tasks.copying.begin_again(source)
        elif side := topic_roles.sides.get(topic):
            self._joining.begin_again(side)
