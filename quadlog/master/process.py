"""Composition root of a master: turns settings into a running process.

This module creates the connections of a master; `wiring` creates its node and the node's parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from consumers import agreed
from producers.effects import EffectsMirror
from quadlog import failpoints
from quadlog.broker import STARTING_S, KafkaOutlet, RenewableOutlet, end_of, records_between
from quadlog.master.clients.split_state import split_headers
from quadlog.master.effects.copy_start import CopyStartFinder
from quadlog.master.events import TopicIdentified, TopicShortened
from quadlog.master.http.app import make_app
from quadlog.master.node.inbox import Inbox
from quadlog.master.recovery.log_bootstrap import LogBootstrap
from quadlog.master.recovery.startup_checks import note_damage, open_store, prepare_topics
from quadlog.master.retention.topic_monitor import TopicMonitor
from quadlog.master.seeds.seeding import Seeding
from quadlog.master.topics.foreign_records import understood
from quadlog.master.topics.sites import Sites
from quadlog.master.topics.tails import Tails
from quadlog.master.wiring import World, make_node
from quadlog.master.workers.worker_client import WorkerClient
from quadlog.web.http_direct import DirectRoutes
from quadlog.web.http_rules import AddedHeaders
from quadlog.web.server import Server

if TYPE_CHECKING:
    from quadlog.master.workers.worker_registry import Worker
    from quadlog.settings import MasterSettings

log = structlog.get_logger()


class MasterProcess:
    """All parts of one master, connected once."""

    def __init__(self, settings: MasterSettings) -> None:
        """Open the store and connect to Kafka; nothing is published yet."""
        self.settings: Final = settings
        self.server: Final = Server(settings.host, settings.port)
        self.sites: Final = Sites(settings)
        self.store: Final = open_store(settings)
        prepare_topics(settings)
        LogBootstrap(settings, self.store, self.sites.own, self.server).bring_log()
        failed = self.server.fail
        self.outlet: Final = KafkaOutlet(settings.kafka, client=settings.node_id, failed=failed)
        self.effects: Final = RenewableOutlet(settings.kafka, client=f"{settings.node_id}-effects")
        inbox = Inbox()
        self.tails: Final = Tails(
            self.sites,
            self.store,
            hear=inbox.on_records,
            recognised=lambda topic, identity, is_other: inbox.put(
                TopicIdentified(topic, identity, is_other)
            ),
            lacks=lambda topic, gap: inbox.put(TopicShortened(topic, gap)),
            failed=failed,
        )
        self._monitor: Final = TopicMonitor(settings.kafka, self.sites.own)
        self._payloads_end, _ = end_of(settings.kafka, self.sites.own.payloads, count=0, timeout=STARTING_S)
        world = World(
            settings=settings,
            sites=self.sites,
            store=self.store,
            outlet=self.outlet,
            effects=self.effects,
            inbox=inbox,
            tails=self.tails,
            server=self.server,
            sources=CopyStartFinder(settings.repository, dc=settings.dc, kafka_of=self.sites.kafka_of),
            monitor=self._monitor,
            worker_client=WorkerClient(self.server.call_soon),
            payloads_end=self._payloads_end,
        )
        self.node: Final = make_node(world, sow=self._sow)
        effects = EffectsMirror(self.outlet, self.sites.own.effects, settings.node_id)
        self.seeding: Final = Seeding(self.node, settings, effects)

    def _sow(self, worker: Worker) -> None:
        self.server.call_soon(lambda: self.seeding.bring(worker))

    def run(self) -> int:
        """Serve until told to stop.  Returns the process's exit status."""
        self._monitor.start()
        agreed_end = self._start_node()
        self.tails.start(payloads_end=self._payloads_end, agreed_end=agreed_end)
        routes = make_app(self.node, self.settings, peers=self.sites.dc_of, seeding=self.seeding)
        app = AddedHeaders(DirectRoutes(routes), lambda: split_headers(self.node.cluster))
        log.info("master_started", id=self.settings.node_id, url=self.settings.master_url)
        try:
            return self.server.run(app)
        finally:
            self._monitor.close()
            self.tails.close()
            self.node.stop()
            self.effects.close()
            self.outlet.close()
            self.store.close()
            note_damage(self.settings, self.server.reason)

    def _start_node(self) -> int:
        """Start the node where it was in the agreed topic; return the end offset up to which that was read."""
        kafka, topic = self.settings.kafka, self.sites.own.agreed
        reached, (end, _) = self.store.reached(), end_of(kafka, topic, count=0, timeout=STARTING_S)
        records = records_between(kafka, topic, 0 if reached is None else reached.offset, end)
        places = understood(records, agreed.place_of)
        self.node.start(reached, ((place, record.offset) for record, place in places if place is not None))
        return end


def run(settings: MasterSettings) -> int:
    """Run one master until it is told to stop."""
    failpoints.arm(settings.failpoint)
    return MasterProcess(settings).run()
