"""Composition root of a worker: builds the running process from its settings."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog import failpoints
from quadlog.broker import KafkaOutlet, KafkaTail, RenewableOutlet, Watched, backwards, end_of, why_full
from quadlog.damage import is_damage
from quadlog.errors import StoreDamaged
from quadlog.quadstore.quadstore import QuadStore
from quadlog.topics import Topics
from quadlog.web.server import Server
from quadlog.worker.app import make_app
from quadlog.worker.catchup.catch_up import CatchUp
from quadlog.worker.catchup.donor import Donor
from quadlog.worker.catchup.startup_status import StartupStatus
from quadlog.worker.catchup.store_transfer import StoreTransfer
from quadlog.worker.evaluate.dry_runs import DryRuns
from quadlog.worker.evaluate.publish_health import PublishHealth
from quadlog.worker.reads.feed import Feed
from quadlog.worker.reads.process_pool import ReadingProcessPool
from quadlog.worker.reads.reads import Reads
from quadlog.worker.reads.scheduler import Scheduler
from quadlog.worker.reexec import begin_anew
from quadlog.worker.repair.fork_backups import ForkBackups, finish_return
from quadlog.worker.repair.health import Health
from quadlog.worker.repair.kept_branch import saved_branch
from quadlog.worker.repair.mender import GIVEN, QUADS, SCRUB, Mender, empty, set_damaged_aside, tidy
from quadlog.worker.repair.scrub import Scrubber
from quadlog.worker.replica.host import Host, Publishers
from quadlog.worker.replica.out_of_log import missing_after
from quadlog.worker.replica.rates import RatesFile, StartMeter
from quadlog.worker.replica.replica import Replica
from quadlog.worker.replica.source_topics import SourceTopics
from quadlog.worker.seeds.seed_door import SeedDoor
from quadlog.worker.seeds.seedbed import Seedbed

if TYPE_CHECKING:
    from quadlog.settings import WorkerSettings

log = structlog.get_logger()

RATES: Final = "rates.json"
"""Name of the file with the measured rates, in a worker's data-dir."""
SOON_S: Final = 2.0
"""Seconds that Kafka has to report where a topic ends; then the worker does other work, and tries again."""


class WorkerProcess:
    """One worker and its components, in the order in which they are opened."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Bind the port, open the files on disk, and catch up; topics are followed and queries served only by `run`."""
        self._settings = settings
        self._server: Final = Server(settings.host, settings.port)
        finish_return(settings.data_dir)
        tidy(settings.data_dir)
        store = QuadStore.open(settings.data_dir / QUADS)
        self._topics: Final = Topics(settings.repository, settings.dc)
        self._rates: Final = RatesFile(settings.data_dir / RATES)
        self._outlet: Final = KafkaOutlet(settings.kafka, client=settings.node_id, failed=self._server.fail)
        self._effects: Final = RenewableOutlet(settings.kafka, client=f"{settings.node_id}-effects")
        self._publish_health: Final = PublishHealth(
            self._effects,
            topic=self._topics.effects,
            why=lambda: why_full(settings.kafka, self._topics.effects),
        )
        self._status: Final = StatusProducer(
            self._outlet, self._topics.status, lambda _: self._publish_health.beat_taken()
        )
        with StartupStatus(settings, store, self._server, self._status.publish) as early:
            catching_up = CatchUp(settings, self._topics, store, self._rates, early.report)
            self._store: Final = catching_up.run()
        self._store.damage.leave = self._server.leave
        if self._store.damage.reason:
            self._server.leave()
        self._newest: Final = catching_up.newest
        self._health: Final = Health(settings.data_dir)
        self._health.branch = saved_branch(settings.data_dir, self._store.name)
        self._seedbed: Final = Seedbed(settings.data_dir, self._store, self._health, self._server.leave)
        self._seedbed.tidy()
        self._fed: Final = SourceTopics(settings, self._topics, self._server.leave)
        self._feed: Final = Feed(self._store.applied.index)
        self._replica: Final = self._make_replica()
        self._tail: Final = self._make_tail()
        self._mender: Final = Mender(
            settings,
            self._topics,
            self._health,
            store=self._store.name,
            leave=self._server.leave,
            is_copied=StoreTransfer(settings, self._topics, self._rates).is_there,
        )
        self._scrubber: Final = Scrubber(
            self._store,
            settings.data_dir / SCRUB,
            self._health,
            period=settings.scrub_period,
            share=settings.scrub_share,
        )

        self._forks: Final = ForkBackups(
            settings.data_dir,
            self._store,
            self._server.leave,
            lacks=lambda applied: missing_after(settings, self._topics, applied, timeout=SOON_S),
        )
        self._store.damage.doubt = self._scrubber.soon

    def _make_replica(self) -> Replica:
        settings, outlet = self._settings, self._effects
        return Replica(
            settings=settings,
            topics=self._topics,
            store=self._store,
            feed=self._feed,
            publishers=Publishers(
                effects=EffectsProducer(outlet, self._topics.effects, settings.node_id, settings.dc),
                status=self._status,
                settle=outlet.flush,
                together=outlet.together,
                publish_health=self._publish_health,
            ),
            host=Host(
                failed=self._server.fail,
                rebuild=lambda reason: self._mender.ask(self._store.name, reason),
                backwards=partial(backwards, settings.kafka),
                agreed_end=self._agreed_end,
                lacks=self._seedbed.on_seed,
                lacks_records=self._fed.has_hole,
                stretch=StartMeter(self._rates, self._newest),
            ),
            health=self._health,
        )

    def _agreed_end(self) -> int:
        end, _ = end_of(self._settings.kafka, self._topics.agreed, count=0, timeout=SOON_S)
        return end

    def _make_tail(self) -> KafkaTail:
        return KafkaTail(
            self._settings.kafka,
            name=f"{self._settings.node_id}-reads",
            hear=self._replica.on_records,
            failed=self._server.fail,
            full=self._replica.full,
            watched=Watched(self._fed.known, self._fed.recognise, self._fed.lacks),
        )

    def run(self) -> int:
        """Serve until the process is stopped, then close everything in order; return the exit status."""
        settings = self._settings
        copies = settings.data_dir / "copies"
        readers = ReadingProcessPool(self._store, self._feed, copies, most=settings.query_processes)
        reads = Reads(Scheduler(readers, self._feed), settings.node_id)
        app = make_app(
            self._replica,
            reads,
            self._mender,
            DryRuns(self._store, settings),
            settings,
            seeds=SeedDoor(self._seedbed),
            forks=self._forks,
            donor=Donor(
                self._store,
                settings.data_dir / GIVEN,
                health=self._health,
                fed_from=self._fed.fed_from,
                bandwidth=settings.copy_bandwidth,
                window=settings.copy_window,
            ),
        )
        started = time.monotonic()
        self._begin()
        try:
            return self._server.run(app, beside=(readers.run, reads.run), local_url=self._settings.worker_url)
        finally:
            self._end()
            log.info("worker_stopped", served_s=round(time.monotonic() - started))
            self._become_anew()

    def _begin(self) -> None:
        self._replica.start()
        if self._health.branch is None:
            self._tail.start(self._replica.offsets())
        self._scrubber.start()
        settings, applied = self._settings, self._store.applied
        log.info("worker_started", id=settings.node_id, url=settings.worker_url, applied=applied.index)

    def _end(self) -> None:
        """Stop the scrub, then the replica, then the reading and writing of topics, and close the store last."""
        self._scrubber.stop()
        self._replica.stop()
        self._tail.close()
        self._effects.close()
        self._outlet.close()
        try:
            self._store.close()
        except (OSError, RuntimeError) as error:
            # A store that is wrong may fail to flush: it is replaced all the same.
            if not (self._store.damage.note(error) or self._mender.wanted or self._fed.wanted):
                raise

    def _become_anew(self) -> None:
        """Restart the process if required: with an empty store, a store made of the seed, or to copy another store."""
        if self._fed.wanted:
            self._fed.put_aside()
        elif damage := self._store.damage.reason:
            set_damaged_aside(self._settings.data_dir, damage)
        elif self._mender.wanted:
            empty(self._settings.data_dir)
        elif self._forks.wanted is not None:
            self._forks.put_back()
        elif self._seedbed.wanted:
            self._seedbed.sow()
        elif self._fed.is_out_of_log:
            log.warning("worker_restarted", reason="out_of_log")
        else:
            return
        begin_anew()


def run(settings: WorkerSettings) -> int:
    """Run one worker until it is stopped; return the exit status of the process.

    If the store is found damaged meanwhile, it is set aside, and the process restarts and obtains another
    store.
    """
    failpoints.arm(settings.failpoint)
    try:
        return WorkerProcess(settings).run()
    except (RuntimeError, StoreDamaged) as error:
        if not is_damage(error):
            raise
        set_damaged_aside(settings.data_dir, error)
        begin_anew()
