"""Parts of a node that serve the agreement: posts and payloads, of this master and of others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from consumers.payloads import PayloadsConsumer
from quadlog.broker import records_between
from quadlog.core.agreement.agreement import Agreement
from quadlog.core.messages import AgreementLimits, PostingPace
from quadlog.errors import Unavailable
from quadlog.master.log.duplicate_node import DuplicateNodeDetector
from quadlog.master.log.joining import JoinedSide, Joining, JoiningPorts
from quadlog.master.node.dispatcher import TopicRoles
from quadlog.master.payloads.intake import Intake
from quadlog.master.payloads.reachability import Reachability
from quadlog.master.payloads.relay import PayloadRelay
from quadlog.master.recovery.superseded import Superseded

if TYPE_CHECKING:
    from producers.rounds import RoundsProducer
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.master.topics.sites import Sites
    from quadlog.master.wiring.world import World

log = structlog.get_logger()


def agreement_of(world: World) -> Agreement:
    """Build the agreement from its saved state; that of a master without a vote is blank."""
    settings, store = world.settings, world.store
    durable = store.durable()
    return Agreement(
        node=settings.node_id,
        incarnation=store.incarnation,
        masters=world.sites.first_peers,
        durable=durable if settings.voting else replace(durable, blank=True),
        logged=store.digests,
        pace=PostingPace(
            window=settings.round_window_ms,
            idle=settings.idle_round * 1000,
        ),
        settings=settings.cluster,
        limits=AgreementLimits(),
        witnesses=world.sites.witnesses,
    )


def duplicate_detector_of(world: World) -> DuplicateNodeDetector:
    """Build the check whether another process posts as this master."""
    kafka, topic = world.settings.kafka, world.sites.own.rounds

    def read(start: int, end: int) -> None:
        def look() -> None:
            try:
                duplicate_detector.check_own_records(records_between(kafka, topic, start, end))
            except Unavailable as error:
                log.warning("duplicate_check_failed", reason=str(error))

        world.server.call_soon(lambda: asyncio.to_thread(look))

    duplicate_detector = DuplicateNodeDetector(
        world.sites.node, world.store.incarnation, world.store.sequence, read=read, topic=topic
    )
    return duplicate_detector


def superseded_of(world: World) -> Superseded:
    """Build the check whether the peers still count this master."""
    settings, sites = world.settings, world.sites
    return Superseded(
        sites.node,
        world.store.incarnation,
        {
            peer.id: peer.url
            for peer in settings.peer.values()
            if peer.id in sites.dc_of and peer.dc != sites.dc
        },
        data_dir=settings.data_dir,
        soon=world.server.call_soon,
        failed=world.server.fail,
    )


def topic_roles_of(sites: Sites) -> TopicRoles:
    """Map each topic to the kind of its records."""
    return TopicRoles(
        rounds={topics.rounds: dc for dc, topics in sites.topics.items()},
        agreed=sites.own.agreed,
        sources={sites.topics[dc].effects: dc for dc in sites.others},
        sides={sites.topics[dc].agreed: dc for dc in sites.others},
        own=sites.own.followed,
        # If nobody else writes payloads, those that were not saved were never promised.
        needed=(sites.own.effects, *([sites.own.agreed, sites.own.payloads] if sites.has_company else [])),
        status=sites.own.status,
        payloads={sites.topics[dc].payloads: dc for dc in sites.others},
    )


def intakes_of(world: World) -> dict[str, Intake]:
    """Build the intakes of the local payloads topic and the peers'."""
    sites, store, own = world.sites, world.store, world.sites.own.payloads
    intakes = {
        own: Intake(
            PayloadsConsumer(told=(sites.node, world.payloads_end)),
            store.position(own) or 0,
            is_own=True,
            alone_from=None if sites.has_company else world.payloads_end,
        )
    }
    peers: dict[str, Intake] = {}
    for dc in sites.others:
        topic = sites.topics[dc].payloads
        consumer, position = PayloadsConsumer(origins=[dc]), store.position(topic) or 0
        intakes[topic] = peers[dc] = Intake(consumer, position, dc=dc, originals=peers)
    return intakes


def joining_of(world: World, agreement: Agreement) -> Joining:
    """Build the reader of a stronger side's log, which is stored in addition to the local log."""
    sites, tails, store = world.sites, world.tails, world.store

    def find(joined: JoinedSide) -> None:
        world.server.call_soon(lambda: world.sources.fork(joined, store.chain_at, world.inbox.put))

    return Joining(
        agreement,
        store.beside,
        sites.dc_of,
        JoiningPorts(
            find=find,
            read=lambda dc, offset: tails.read(sites.topics[dc].agreed, offset),
            leave=lambda dc: tails.leave(sites.topics[dc].agreed),
        ),
    )


def relay_of(world: World, acquiring: Acquiring, posts: RoundsProducer) -> PayloadRelay:
    """Build the relay for records that arrive by way of another data centre."""
    sites = world.sites
    return PayloadRelay(
        Reachability(sites.node, sites.dc_of, patience_ms=sites.patience_ms),
        intakes={intake.dc: intake for intake in acquiring.peers.values()},
        pass_on=posts.pass_on,
        read=lambda dc, offset: world.tails.read(sites.topics[dc].payloads, offset),
    )
