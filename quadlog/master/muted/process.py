"""Composition root of a muted master: copies two topics, watches the workers and serves reads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from quadlog import failpoints
from quadlog.broker import BEGINNING, END, STARTING_S, Admin, KafkaOutlet, KafkaTail, Watched, end_of
from quadlog.clock import now
from quadlog.errors import TopicLost, Unavailable
from quadlog.master.muted.app import make_app
from quadlog.master.muted.followed_topics import FILE, FollowedTopics
from quadlog.master.muted.mirror import LOOK_BACK, Mirror, next_offset
from quadlog.master.muted.muted_state import MutedState
from quadlog.master.recovery.startup_checks import prepare_topics
from quadlog.master.retention.topic_monitor import TopicMonitor
from quadlog.master.seeds.fan_out import TIMEOUT
from quadlog.master.seeds.seed_transfer import SeedTransfer, files_of
from quadlog.master.workers.worker_client import WorkerClient
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.master.workers.worker_watch import LOOK_MS, WorkerActions
from quadlog.settings import Role
from quadlog.topics import Topics
from quadlog.web.http_client import new_client
from quadlog.web.server import Server

if TYPE_CHECKING:
    from quadlog.anchors import Gap
    from quadlog.master.workers.worker_registry import Worker
    from quadlog.settings import MasterSettings

log = structlog.get_logger()

ASK_S: Final = 2.0
"""Seconds between two requests for the ends of the source's topics, and timeout of each."""


class MutedProcess:
    """All parts of one muted master."""

    def __init__(self, settings: MasterSettings) -> None:
        """Check the local topics; nothing is copied yet.

        Raises:
            TopicLost: the local topics are not those that this master wrote.
            SetupError: they are copies of another data centre's, or no copies.
            Unavailable: the local Kafka does not answer.

        """
        self._settings: Final = settings
        self._server: Final = Server(settings.host, settings.port)
        self._own: Final = Topics(settings.repository, settings.dc)
        self._theirs: Final = Topics(settings.repository, settings.source)
        self._their_kafka: Final = next(p.kafka for p in settings.peer.values() if p.dc == settings.source)
        self._followed: Final = FollowedTopics(settings.data_dir / FILE)
        self._note_own_topics()
        self._outlet: Final = KafkaOutlet(settings.kafka, client=settings.node_id, failed=self._server.fail)
        self._mirrors: Final = {
            theirs: self._mirror(own)
            for theirs, own in (
                (self._theirs.agreed, self._own.agreed),
                (self._theirs.effects, self._own.effects),
            )
        }
        soon = self._server.call_soon
        worker_client = WorkerClient(soon)
        worker_actions = WorkerActions(
            knock=worker_client.knock,
            mend=worker_client.ask_to_mend,
            sow=lambda worker: soon(lambda: self._bring(worker)),
        )
        self._muted_state: Final = MutedState(
            self._own,
            WorkerRegistry(timeout_ms=settings.worker_timeout * 1000),
            worker_actions,
            source=settings.source,
            max_lag_ms=settings.max_worker_lag * 1000,
        )
        donors = [files_of(peer.url) for peer in settings.peer.values() if peer.role is Role.READ_WRITE]
        self._bringing: Final = SeedTransfer(
            self._muted_state.worker_registry, new_client(TIMEOUT), lambda: donors
        )
        self._monitor: Final = TopicMonitor(settings.kafka, self._own)
        self._ended: Final = threading.Event()

    def _note_own_topics(self) -> None:
        admin, topics = Admin(self._settings.kafka), (self._own.agreed, self._own.effects)
        self._followed.refuse_others(admin.ids(topics), topics)
        prepare_topics(self._settings)
        self._followed.note(admin.ids(topics))

    def _mirror(self, topic: str) -> Mirror:
        settings = self._settings
        _, records = end_of(settings.kafka, topic, count=LOOK_BACK, timeout=STARTING_S)
        at = next_offset(topic, records, source=settings.source)
        return Mirror(self._outlet, topic, source=settings.source, at=at, settle=self._outlet.flush)

    def run(self) -> int:
        """Serve until told to stop.  Returns the process's exit status."""
        tails = [self._tail(topic, mirror) for topic, mirror in self._mirrors.items()]
        own = KafkaTail(
            self._settings.kafka,
            name=f"{self._settings.node_id}-reads-own",
            hear=self._muted_state.on_records,
            failed=self._server.fail,
        )
        tails.append(
            own.start({self._own.status: END, self._own.agreed: BEGINNING, self._own.effects: BEGINNING})
        )
        self._monitor.start()
        for beside in (self._look, self._ask):
            threading.Thread(target=self._keep, args=(beside,), name=beside.__name__, daemon=True).start()
        log.info("muted_master_started", id=self._settings.node_id, follows=self._settings.source)
        try:
            return self._server.run(make_app(self._muted_state, self._settings))
        finally:
            self._ended.set()
            self._monitor.close()
            for tail in tails:
                tail.close()
            self._outlet.close()

    async def _bring(self, worker: Worker) -> None:
        """Have the seed brought to a worker that lacks it."""
        if (seed := self._muted_state.ledger.seed) is not None:
            await self._bringing.bring(worker, seed.signature.hex())

    def _tail(self, topic: str, mirror: Mirror) -> KafkaTail:
        """Start to copy a topic; the tail waits while the source is out of reach, and continues afterwards."""

        def recognised(topic: str, identity: str | None, is_other: bool) -> None:  # noqa: FBT001 - as `Watched` has it
            try:
                self._followed.recognise(topic, identity, is_other)
            except TopicLost as lost:
                self._stop_copying(lost)

        def lacks(topic: str, gap: Gap) -> None:
            self._stop_copying(TopicLost(f"{topic}, which is followed, {gap}"))

        watched = Watched({topic: self._followed.get(topic)}, recognised, lacks, is_vital=False)
        tail = KafkaTail(
            self._their_kafka,
            name=f"{self._settings.node_id}-copies-{topic}",
            hear=mirror.on_records,
            failed=self._server.fail,
            watched=watched,
        )
        return tail.start({topic: mirror.at})

    def _stop_copying(self, lost: TopicLost) -> None:
        """Stop copying: the local topics are no longer the beginning of the followed ones; they remain in use."""
        for mirror in self._mirrors.values():
            mirror.stop()
        self._muted_state.source_lost(str(lost))

    def _keep(self, what: object) -> None:
        assert callable(what)
        try:
            what()
        except Exception as error:
            log.exception("muted_master_failed")
            self._server.fail(f"{type(error).__name__}: {error}")

    def _look(self) -> None:
        while not self._ended.wait(LOOK_MS / 1000):
            self._muted_state.check(now(), self._monitor.troubles)

    def _ask(self) -> None:
        """Request how far the source's topics are ahead of the copies."""
        while not self._ended.wait(ASK_S):
            behind: dict[str, int] = {}
            for topic, mirror in self._mirrors.items():
                at = mirror.at
                try:
                    end, _ = end_of(self._their_kafka, topic, count=0, timeout=ASK_S)
                except Unavailable:
                    break
                if end < at:
                    self._stop_copying(
                        TopicLost(
                            f"{topic}, which is followed, ends at offset {end}, and was copied up to {at}"
                        )
                    )
                behind[topic] = max(0, end - mirror.at)
            self._muted_state.source_says(behind if len(behind) == len(self._mirrors) else None)


def run(settings: MasterSettings) -> int:
    """Run one muted master until it is told to stop."""
    failpoints.arm(settings.failpoint)
    return MutedProcess(settings).run()
