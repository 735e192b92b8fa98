"""Composition root of a worker: settings in, a running process out."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog import failpoints
from quadlog.broker import KafkaOutlet, KafkaTail
from quadlog.quadstore import QuadStore
from quadlog.server import Server
from quadlog.topics import Topics
from quadlog.worker.anew import begin_anew
from quadlog.worker.app import make_app
from quadlog.worker.dryrun import DryRuns
from quadlog.worker.feed import Feed
from quadlog.worker.health import Health
from quadlog.worker.mend import QUADS, Mender, empty, tidy
from quadlog.worker.readers import Readers
from quadlog.worker.reads import Reads
from quadlog.worker.replica import Replica
from quadlog.worker.scrub import Scrubber
from quadlog.worker.seed_door import SeedDoor
from quadlog.worker.seedbed import Seedbed

if TYPE_CHECKING:
    from quadlog.settings import WorkerSettings

log = structlog.get_logger()


def run(settings: WorkerSettings) -> int:
    """Run one worker until it is told to stop.  Returns the process's exit status."""
    failpoints.arm(settings.failpoint)
    topics: Final = Topics(settings.repository, settings.dc)
    server = Server(settings.host, settings.port)
    tidy(settings.data_dir)
    store = QuadStore.open(settings.data_dir / QUADS)
    outlet = KafkaOutlet(settings.kafka, client=settings.node_id, failed=server.fail)
    health = Health()
    seedbed = Seedbed(settings.data_dir, store, health, server.leave)
    seedbed.tidy()
    feed = Feed(store.applied.index)
    copies = settings.data_dir / "copies"
    readers = Readers(store, feed, copies, most=settings.query_processes)
    reads = Reads(readers, settings.node_id)
    replica = Replica(
        settings=settings,
        topics=topics,
        store=store,
        feed=feed,
        effects=EffectsProducer(outlet, topics.effects, settings.node_id, settings.dc),
        status=StatusProducer(outlet, topics.status),
        failed=server.fail,
        settle=outlet.flush,
        together=outlet.together,
        health=health,
        lacks=seedbed.hear,
    )
    name = f"{settings.node_id}-reads"
    tail = KafkaTail(
        settings.kafka, client=name, name=name, hear=replica.hear, failed=server.fail, full=replica.full
    )
    scrubber = Scrubber(
        store,
        settings.data_dir / "scrub",
        health,
        period=settings.scrub_period,
        share=settings.scrub_share,
    )
    dry_runs = DryRuns(store, settings)
    mender = Mender(settings, topics, store.name, health, server.leave)
    started = time.monotonic()
    replica.start()
    tail.start(replica.offsets())
    scrubber.start()
    log.info("worker serves", id=settings.node_id, url=settings.worker_url, applied=store.applied.index)
    try:
        app = make_app(replica, reads, mender, dry_runs, settings, seeds=SeedDoor(seedbed))
        return server.run(app, beside=(readers.run, reads.run))
    finally:
        scrubber.stop()
        replica.stop()
        tail.close()
        outlet.close()
        if not mender.wanted:
            store.close()
        if seedbed.wanted and not mender.wanted:
            seedbed.sow()
            begin_anew()
        log.info("worker stopped", served_s=round(time.monotonic() - started))
        if mender.wanted:
            with suppress(OSError):  # what is wrong may not let itself be flushed: it is emptied all the same
                store.close()
            empty(settings.data_dir)
            begin_anew()
