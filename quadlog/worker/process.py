"""Composition root of a worker: settings in, a running process out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog import failpoints
from quadlog.broker import KafkaOutlet, KafkaTail
from quadlog.quadstore import QuadStore
from quadlog.server import Server
from quadlog.topics import Topics
from quadlog.worker.app import make_app
from quadlog.worker.feed import Feed
from quadlog.worker.readers import Readers
from quadlog.worker.reads import Reads
from quadlog.worker.replica import Replica

if TYPE_CHECKING:
    from quadlog.settings import WorkerSettings

log = structlog.get_logger()


def run(settings: WorkerSettings) -> int:
    """Run one worker until it is told to stop.  Returns the process's exit status."""
    failpoints.arm(settings.failpoint)
    topics: Final = Topics(settings.repository, settings.dc)
    server = Server(settings.host, settings.port)
    store = QuadStore.open(settings.data_dir / "quads")
    outlet = KafkaOutlet(settings.kafka, client=settings.node_id, failed=server.fail)
    feed = Feed(store.applied.index)
    copies = settings.data_dir / "copies"
    readers = Readers(store, feed, copies, most=settings.query_processes)
    reads = Reads(readers, settings.node_id)
    replica = Replica(
        settings=settings,
        topics=topics,
        store=store,
        feed=feed,
        effects=EffectsProducer(outlet, topics.effects, settings.node_id),
        status=StatusProducer(outlet, topics.status),
        failed=server.fail,
        settle=outlet.flush,
    )
    name = f"{settings.node_id}-reads"
    tail = KafkaTail(
        settings.kafka, client=name, name=name, hear=replica.hear, failed=server.fail, full=replica.full
    )
    started = time.monotonic()
    replica.start()
    tail.start(replica.offsets())
    log.info("worker serves", id=settings.node_id, url=settings.worker_url, applied=store.applied.index)
    try:
        return server.run(make_app(replica, reads, settings), beside=(readers.run, reads.run))
    finally:
        replica.stop()
        tail.close()
        outlet.close()
        store.close()
        log.info("worker stopped", served_s=round(time.monotonic() - started))
