"""`quadlog dc rebuild`: re-creates the topics of a data centre whose Kafka was lost, from those of a peer.

The agreed and the effects topic are copied from the data centre with the longest log, record by record,
including cuts and rewinds: readers of the copies arrive at the same history as readers of the originals.
Payloads, rounds and status begin empty.

The last step publishes a post for each master of the data centre, which states that the master has lost its
disk, as the master itself would.  So its peers give it up at once, and the content of its disk is void: it
returns blank (`core/membership/incarnations.py`).  No master of the data centre starts before that post, so
an interrupted rebuild must be run again.
"""

from __future__ import annotations

import secrets
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

import httpx

from consumers import agreed, rounds, status
from consumers.effects import epoch_of
from producers.effects import EffectsMirror
from producers.rounds import RoundsProducer
from quadlog import codec
from quadlog.broker import Admin, KafkaOutlet, beginning_of, end_of, first_hole, records_between
from quadlog.clock import now, wall
from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.membership.incarnations import CHANCE_BYTES, new_incarnation
from quadlog.core.messages import AgreementLimits, PostingPace, RecoveredState, Tick
from quadlog.core.model import START
from quadlog.core.records import WorkerState
from quadlog.errors import SetupError, Unavailable
from quadlog.master.recovery.startup_checks import STORE, last_said, lost_topics, prepare_topics
from quadlog.master.topics.foreign_records import understood
from quadlog.master.topics.sites import Sites
from quadlog.master.topics.tails import ROUNDS_READ_BACK
from quadlog.master.workers.alarms import AlarmName
from quadlog.masterstore.store import MasterStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from quadlog.core.model import Post
    from quadlog.ports import Record
    from quadlog.settings import MasterSettings

BEATING_MS: Final = 5_000
"""Milliseconds: a worker whose last heartbeat is younger than this is running."""
SAID_AT_MOST: Final = 200
"""Maximum records that are read at the end of a topic."""
FLUSH_S: Final = 60.0
"""Seconds within which Kafka must acknowledge the last records, at most 100,000."""
PATIENCE_S: Final = 5.0
"""Timeout in seconds of a peer's Kafka."""


class TopicsRebuild:
    """Rebuild of one data centre, with the settings of one of its masters."""

    def __init__(self, settings: MasterSettings, tell: Callable[[str], None]) -> None:
        """Prepare; `tell` prints the progress, line by line."""
        self._settings, self._tell = settings, tell
        self._sites: Final = Sites(settings)
        self._admin: Final = Admin(settings.kafka)
        self._failures: Final[list[str]] = []
        """Reasons why records that were produced will not arrive."""

    def run(self, *, is_meant: bool) -> None:
        """Check all conditions first; change only lost topics, and only if `is_meant`.

        Raises:
            SetupError: nothing is lost, a master or worker of this data centre still runs, or the change is
                not confirmed.
            Unavailable: no broker answers here, or no peer's does.

        """
        own = self._sites.own
        self._refuse_while_masters_run()
        reasons, incarnation = self._lost()
        self._refuse_while_workers_run()
        source, index = self._source()
        if not is_meant:
            raise SetupError(
                f"{'; '.join(reasons)}. {own.agreed}, {own.effects} and {own.rounds} would be created again"
                f" from those of {source}, up to entry {index}, and all that masters and workers of"
                f" {self._sites.dc} have saved would be void. Say --yes if that is meant; nothing was changed"
            )
        known = self._known_incarnations(incarnation)
        self._admin.delete([own.rounds, own.agreed, own.effects])
        prepare_topics(self._settings)
        self._tell(f"restoring {self._sites.dc} from {source}, whose log goes up to entry {index}")
        self._restore(source)
        self._say_all_lost(known)
        self._tell(
            f"{own.rounds}: {len(known)} records, one for each master, which begins as one that lost its disk"
        )
        self._tell(
            f"{own.payloads}: kept as it is, {end_of(self._settings.kafka, own.payloads, count=0)[0]} records; what was"
            " agreed has its payload in the log, and what waits is taken from the copies of the peers"
        )
        self._tell(f"{self._sites.dc} is rebuilt: start its masters and workers")

    # --- checks -----------------------------------------------------------------------------------------

    def _refuse_while_masters_run(self) -> None:
        urls = {self._settings.node_id: self._settings.master_url}
        urls |= {peer.id: peer.url for peer in self._settings.peer.values() if peer.dc == self._sites.dc}
        for node, url in urls.items():
            try:
                httpx.get(f"{url}/healthz/alive", timeout=2)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue  # no process listens there
            except httpx.HTTPError as error:
                self._tell(f"master {node} does not answer: {error}")
            raise SetupError(
                f"master {node} is there at {url}: stop all masters and workers of {self._sites.dc} first"
            )

    def _refuse_while_workers_run(self) -> None:
        topic = self._sites.own.status
        if topic not in self._admin.ids([topic]):
            return
        _, records = end_of(self._settings.kafka, topic, count=SAID_AT_MOST)
        newest = {beat.worker: beat for _, beat in understood(records, status.hear) if beat is not None}
        for beat in newest.values():
            if beat.state is not WorkerState.STOPPING and wall() - beat.sent < BEATING_MS:
                raise SetupError(
                    f"worker {beat.worker} at {beat.url} was heard less than {BEATING_MS // 1000} s ago: stop"
                    f" all masters and workers of {self._sites.dc} first"
                )

    def _lost(self) -> tuple[Sequence[str], bytes | None]:
        """Return the losses that this master's store, the topics and the peers show, and its incarnation, if known.

        Raises:
            SetupError: nothing is lost.

        """
        own, kafka, node = self._sites.own, self._settings.kafka, self._sites.node
        ids = self._admin.ids(own.followed)
        reasons = gone = [f"{topic} is gone" for topic in own.followed if topic not in ids]
        incarnation, path = None, self._settings.data_dir / STORE
        if path.exists():
            with suppress(_NothingSavedError):
                store = MasterStore(path, before=_nothing_saved)
                incarnation = store.incarnation
                reasons = lost_topics(self._settings, store) or reasons
                store.close()
        said = last_said(kafka, own, node)
        if not reasons and not end_of(kafka, own.rounds, count=0)[0]:
            reasons = [f"no master has ever posted to {own.rounds}"]
        reasons = reasons or self._deleted() or self._told_by_peers()
        was_rebuilt = said is not None and incarnation is not None and said.incarnation > incarnation
        if not reasons or (was_rebuilt and not gone):
            raise SetupError(
                f"nothing of {self._sites.dc}'s topics is lost that this master knows of, or they were rebuilt"
                " already: start its masters and workers"
            )
        return reasons, incarnation

    def _told_by_peers(self) -> list[str]:
        """Return what went back here, as other masters report it: this master's disk may be an older copy."""
        reasons: list[str] = []
        for peer in self._settings.peer.values():
            with suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
                alarms = httpx.get(f"{peer.url}/cluster/status", timeout=2).json()["alarms"]
                reasons += [
                    f"{peer.id} says: {alarm['reason']}"
                    for alarm in alarms
                    if alarm["name"] == AlarmName.WENT_BACK and self._sites.own.rounds in alarm["reason"]
                ]
        return reasons

    def _deleted(self) -> list[str]:
        """Return a reason for each topic of the log that lacks records: a worker that lost its store needs them."""
        own, kafka = self._sites.own, self._settings.kafka
        log_topics = (own.agreed, own.effects)
        reasons = [
            f"{topic} begins at offset {first}: its oldest records were deleted, so a worker of {self._sites.dc} that"
            " has no store, and nobody to copy, cannot be fed (one that has a store needs no rebuild)"
            for topic in log_topics
            if (first := beginning_of(kafka, topic))
        ]
        if not reasons:
            self._tell(f"looking for missing records in {own.agreed} and {own.effects}")
        holes = () if reasons else (first_hole(kafka, topic) for topic in log_topics)
        return reasons or [f"{hole}: something removed them, compaction for one" for hole in holes if hole]

    def _source(self) -> tuple[str, int]:
        """Return the data centre with the longest log, and the index of its last entry.

        Raises:
            SetupError: there is no other data centre.
            Unavailable: none can be copied.

        """
        if not self._sites.others:
            message = f"{self._sites.dc} is the only data centre in these settings: there is nothing to restore it from"
            raise SetupError(message)
        found: dict[str, int] = {}
        obstacles: list[str] = []
        for dc in self._sites.others:
            try:
                found[dc] = self._look_at(dc)
            except Unavailable as error:
                obstacles.append(str(error))
        for obstacle in obstacles:
            self._tell(f"passed over: {obstacle}")
        if not found:
            raise Unavailable(
                f"no other data centre can be restored from: {'; '.join(obstacles)}. Nothing was changed"
            )
        longest = max(found, key=found.__getitem__)
        return longest, found[longest]

    def _look_at(self, dc: str) -> int:
        """Return the index of the last entry of a data centre that can be copied."""
        kafka, topics = self._sites.kafka_of[dc], self._sites.topics[dc]
        there = Admin(kafka).ids(topics.followed)
        for topic in (topics.agreed, topics.effects):
            if topic not in there:
                raise Unavailable(f"{dc} has no topic {topic}")
            if first := beginning_of(kafka, topic):
                raise Unavailable(f"{topic} of {dc} begins at offset {first}: what came before was deleted")
            if hole := first_hole(kafka, topic):
                raise Unavailable(
                    f"{dc} cannot be copied, {hole}: something removed them, compaction for one"
                )
        _, records = end_of(kafka, topics.agreed, count=SAID_AT_MOST)
        places = [place.index for _, place in understood(records, agreed.place_of) if place is not None]
        return places[-1] if places else 0

    def _known_incarnations(self, own: bytes | None) -> dict[str, bytes]:
        """Return the newest incarnation of each master of this data centre that reachable Kafkas know."""
        mine = self._sites.masters_in(self._sites.dc)
        known = dict.fromkeys(mine, b"")
        known[self._sites.node] = own or b""
        for dc in self._sites.kafka_of:
            try:
                for post in self._posts_in(dc):
                    for name in mine:
                        known[name] = max(known[name], *_incarnations_of(name, post))
            except Unavailable as error:
                self._tell(f"passed over: {error}")
        return known

    def _posts_in(self, dc: str) -> Iterator[Post]:
        kafka, topic = self._sites.kafka_of[dc], self._sites.topics[dc].rounds
        if topic in Admin(kafka).ids([topic]):
            _, records = end_of(kafka, topic, count=ROUNDS_READ_BACK, timeout=PATIENCE_S)
            for _, post in understood(records, rounds.hear):
                yield post

    # --- changes ------------------------------------------------------------------------------------------

    def _restore(self, dc: str) -> None:
        """Copy the agreed and the effects topic.

        Raises:
            Unavailable: a broker was lost during the copy, or did not accept all records.

        """
        kafka, theirs, own = self._sites.kafka_of[dc], self._sites.topics[dc], self._sites.own
        with closing(self._outlet()) as outlet:
            mirror = EffectsMirror(outlet, own.effects, self._sites.node)
            for topic, copy in ((theirs.agreed, own.agreed), (theirs.effects, own.effects)):
                end, _ = end_of(kafka, topic, count=0)
                count = 0
                for record, epoch in understood(records_between(kafka, topic, 0, end), _epoch_of_ours):
                    if topic == theirs.effects:
                        mirror.copy(record, origin=dc, epoch=epoch)
                    else:
                        outlet.produce(copy, key=record.key, values=[record.value], headers=record.headers)
                    count += 1
                self._await(outlet, copy, count)
                self._tell(f"{copy}: {count} records")

    def _outlet(self) -> KafkaOutlet:
        client = f"{self._sites.node}-rebuild"
        return KafkaOutlet(self._settings.kafka, client=client, failed=self._failures.append)

    def _await(self, outlet: KafkaOutlet, topic: str, count: int) -> None:
        """Wait until all produced records are in the topic, to which nobody else writes."""
        outlet.flush(FLUSH_S)
        end, _ = end_of(self._settings.kafka, topic, count=0)
        if self._failures or end != count:
            reason = self._failures[0] if self._failures else f"{topic} has {end} of {count} records"
            raise Unavailable(f"{reason}; {self._sites.dc} is rebuilt in part: run this again")

    def _say_all_lost(self, known: dict[str, bytes]) -> None:
        """Complete the rebuild: publish a first post of each master, as one that has lost its disk."""
        with closing(self._outlet()) as outlet:
            posts = RoundsProducer(outlet, self._sites.own.rounds)
            with outlet.together():
                for node, before in known.items():
                    posts.publish(self._first_post(node, before), at=wall())
            self._await(outlet, self._sites.own.rounds, len(known))

    def _first_post(self, node: str, before: bytes) -> Post:
        agreement = Agreement(
            node=node,
            incarnation=new_incarnation(before or None, wall(), secrets.token_bytes(CHANCE_BYTES)),
            masters=self._sites.dc_of,
            durable=RecoveredState(counter=0, sequence=0, last=START, queue=(), acquired=(), blank=True),
            logged={},
            settings=ClusterSettings(),
            pace=PostingPace(),
            limits=AgreementLimits(),
        )
        agreement.step(Tick(), now())
        ready = agreement.ready()
        assert ready is not None, "the first thing that a master does is to speak"
        assert ready.post is not None, "the first thing that a master does is to speak"
        return ready.post


class _NothingSavedError(Exception):
    """The store exists, but its master never took part: opening it must not make it look as if it had."""


def _nothing_saved() -> bytes | None:
    raise _NothingSavedError


def _epoch_of_ours(record: Record) -> int:
    """Return the epoch of the writer's view; raise ForeignRecord if the record is not quadlog's."""
    if not codec.is_ours(record.value):
        raise record.foreign("it is no record of quadlog's")
    return epoch_of(record)


def _incarnations_of(name: str, post: Post) -> list[bytes]:
    views = [view for view in (post.view, post.ballot) if view is not None]
    return [post.incarnation if post.node == name else b"", *(view.incarnation(name) for view in views)]
