"""Wiring: builds a node and all its parts from settings, a store and Kafka."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from producers.effects import EffectsMirror
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog.clock import now
from quadlog.master.clients.admission import Admission
from quadlog.master.clients.pending_requests import PendingRequests
from quadlog.master.clients.suspended import SuspendedTransactions
from quadlog.master.clients.write_guards import urls_of
from quadlog.master.effects.effects_follower import EffectsFollower
from quadlog.master.effects.pending_effects import PendingEffects
from quadlog.master.effects.topic_health import TopicHealth
from quadlog.master.log.dc_leader import DcLeader
from quadlog.master.node.fork_requests import ForkRequests
from quadlog.master.node.leader_tasks import LeaderTasks
from quadlog.master.node.node import Node
from quadlog.master.node.shared_settings import SharedSettings
from quadlog.master.payloads.acquiring import Acquiring, LostOriginals
from quadlog.master.payloads.bodies import Bodies
from quadlog.master.wiring.agreeing import (
    agreement_of,
    duplicate_detector_of,
    intakes_of,
    joining_of,
    relay_of,
    superseded_of,
    topic_roles_of,
)
from quadlog.master.wiring.publishing import (
    copying_of,
    duty_of,
    ledger_of,
    log_publisher_of,
    split_reporter_of,
    trimming_of,
)
from quadlog.master.wiring.world import World
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.master.workers.worker_watch import WorkerActions, WorkerWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from quadlog.master.workers.worker_registry import Worker

__all__ = ["World", "make_node"]


def make_node(world: World, *, sow: Callable[[Worker], None]) -> Node:
    """Build a node; `sow` has the seed brought to a worker that lacks it."""
    settings, sites, store = world.settings, world.sites, world.store
    agreement, ledger, bodies = agreement_of(world), ledger_of(world), Bodies(store)
    pending_requests = PendingRequests(store, decided_before=ledger.index)
    pending_effects = PendingEffects(
        world.effects, ledger, pending_requests, last=lambda: agreement.last.index, chain_at=store.chain_at
    )
    worker_registry = WorkerRegistry(timeout_ms=settings.worker_timeout * 1000)
    effects_follower = EffectsFollower(
        ledger,
        store=store,
        topic=sites.own.effects,
        pending_requests=pending_requests,
        worker_registry=worker_registry,
        dc=sites.dc,
        standing=agreement.standing,
        read=lambda offset: world.tails.read(sites.own.effects, offset),
        note=lambda found: agreement.step(found, now()),
        pending_effects=lambda: pending_effects.index,
    )
    duplicate_detector = duplicate_detector_of(world)
    # If other masters post there too, offsets have gaps anyway, and this master reads the topic.
    posts = RoundsProducer(
        world.outlet, sites.own.rounds, acked=None if sites.has_company else duplicate_detector.acked
    )
    acquiring = Acquiring(
        agreement,
        producer=PayloadsProducer(world.outlet, sites.own.payloads, sites.node),
        intakes=intakes_of(world),
        own=sites.own.payloads,
        bodies=bodies,
        pending_requests=pending_requests,
        admission=Admission(max_waiting=settings.max_waiting),
        put=world.inbox.put,
        lost=LostOriginals(sites.dc, world.payloads_end) if agreement.is_blank else None,
    )
    relay = relay_of(world, acquiring, posts)
    mirror = EffectsMirror(pending_effects, sites.own.effects, sites.node)
    log_publisher = log_publisher_of(world, agreement, bodies)
    return Node(
        agreement=agreement,
        store=store,
        inbox=world.inbox,
        topic_roles=topic_roles_of(sites),
        dc_of=sites.dc_of,
        urls=urls_of(settings),
        posts=posts,
        duplicate_detector=duplicate_detector,
        superseded=superseded_of(world),
        together=lambda: _together(world),
        acquiring=acquiring,
        effects_follower=effects_follower,
        bodies=bodies,
        pending_requests=pending_requests,
        worker_registry=worker_registry,
        watch=WorkerWatch(
            worker_registry,
            ledger,
            WorkerActions(knock=world.worker_client.knock, mend=world.worker_client.ask_to_mend, sow=sow),
            max_lag_ms=settings.max_worker_lag * 1000,
        ),
        joining=joining_of(world, agreement),
        relay=relay,
        leader_tasks=LeaderTasks(
            agreement=agreement,
            dc_of=sites.dc_of,
            effects_follower=effects_follower,
            relay=relay,
            lead=DcLeader(sites.node, sites.masters_in(sites.dc), patience_ms=sites.patience_ms),
            log_publisher=log_publisher,
            copying=copying_of(
                world,
                ledger,
                mirror,
                log_publisher,
                agreement=agreement,
                foresee=pending_effects.begin,
            ),
            duty=duty_of(world, agreement, acquiring, ledger, mirror, worker_registry=worker_registry),
            worker_registry=worker_registry,
            peers=acquiring.peers,
            read=world.tails.read,
            worker_client=world.worker_client,
            topic_health=TopicHealth(worker_registry, world.effects, sites.own.effects),
            pending_effects=pending_effects,
        ),
        trimming=trimming_of(world, agreement),
        fork_requests=ForkRequests(worker_registry, world.worker_client.ask_about_fork),
        split_reporter=split_reporter_of(world),
        monitor=world.monitor,
        shared_settings=SharedSettings(
            world.settings.node_id, world.settings.cluster, world.settings.model_fields_set
        ),
        topics=sites.own,
        suspended=SuspendedTransactions(
            agreement,
            store=store,
            bodies=bodies,
            pending_requests=pending_requests,
            submit=acquiring.submit,
        ),
        settle=world.outlet.flush,
        failed=world.server.fail,
    )


@contextmanager
def _together(world: World) -> Generator[Callable[[], None], None, None]:
    """Hold back records until the end of a turn, for all topics."""
    with world.outlet.together() as one, world.effects.together() as other:

        def let_go() -> None:
            one()
            other()

        yield let_go
