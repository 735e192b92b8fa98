"""Wiring: builds a node and all its parts from settings, a store and Kafka."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from producers.effects import EffectsMirror
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog.master.clients.admission import Admission
from quadlog.master.clients.desk import Desk
from quadlog.master.effects.decided import Decided
from quadlog.master.effects.foreseen import Foreseen
from quadlog.master.effects.fullness import Fullness
from quadlog.master.log.lead import Lead
from quadlog.master.node.chores import Chores
from quadlog.master.node.node import Node, Parts
from quadlog.master.payloads.acquiring import Acquiring
from quadlog.master.payloads.bodies import Bodies
from quadlog.master.wiring.agreeing import (
    agreement_of,
    ears_of,
    intakes_of,
    joining_of,
    relay_of,
    superseded_of,
    twins_of,
)
from quadlog.master.wiring.publishing import copying_of, duty_of, ledger_of, scribe_of, trimming_of
from quadlog.master.wiring.workers import appoint, hands_of, tell_floor
from quadlog.master.wiring.world import World, chain_in
from quadlog.master.workers.crew import Crew
from quadlog.master.workers.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from quadlog.master.workers.crew import Worker

__all__ = ["World", "make_node"]


def make_node(world: World, *, sow: Callable[[Worker], None]) -> Node:
    """Build a node; `sow` has the seed brought to a worker that lacks it."""
    settings, sites, store = world.settings, world.sites, world.store
    agreement, ledger, bodies = agreement_of(world), ledger_of(world), Bodies(store)
    desk = Desk(store, decided_before=ledger.index)
    foreseen = Foreseen(
        world.effects, ledger, desk, last=lambda: agreement.last.index, chain_at=chain_in(store)
    )
    crew = Crew(timeout_ms=settings.worker_timeout * 1000)
    decided = Decided(
        ledger,
        store=store,
        topic=sites.own.effects,
        desk=desk,
        crew=crew,
        dc=sites.dc,
        standing=agreement.standing,
        read=lambda offset: world.tails.read(sites.own.effects, offset),
        foreseen=lambda: foreseen.index,
    )
    twins = twins_of(world)
    # If other masters post there too, offsets have gaps anyway, and this master reads the topic.
    posts = RoundsProducer(world.outlet, sites.own.rounds, acked=None if sites.has_company else twins.acked)
    acquiring = Acquiring(
        agreement,
        mouth=PayloadsProducer(world.outlet, sites.own.payloads, sites.node),
        intakes=intakes_of(world),
        own=sites.own.payloads,
        bodies=bodies,
        desk=desk,
        admission=Admission(max_waiting=settings.max_waiting),
        put=world.inbox.put,
    )
    mirror = EffectsMirror(foreseen, sites.own.effects, sites.node)
    scribe = scribe_of(world, agreement, bodies)
    return Node(
        Parts(
            agreement=agreement,
            store=store,
            inbox=world.inbox,
            ears=ears_of(sites),
            dc_of=sites.dc_of,
            posts=posts,
            twins=twins,
            superseded=superseded_of(world),
            together=lambda: _together(world),
            acquiring=acquiring,
            decided=decided,
            bodies=bodies,
            desk=desk,
            crew=crew,
            watch=Watch(crew, ledger, hands_of(world, sow), max_lag_ms=settings.max_worker_lag * 1000),
            joining=joining_of(world, agreement),
            relay=relay_of(world, acquiring, posts),
            chores=Chores(
                lead=Lead(sites.node, sites.masters_in(sites.dc), patience_ms=sites.patience_ms),
                scribe=scribe,
                copying=copying_of(world, ledger, mirror, scribe, foresee=foreseen.begin),
                duty=duty_of(world, agreement, acquiring, ledger, mirror, crew=crew),
                crew=crew,
                peers=acquiring.peers,
                read=world.tails.read,
                appoint=lambda url, duty: appoint(world, url, duty),
                fullness=Fullness(crew, world.effects, sites.own.effects),
                foreseen=foreseen,
                tell_floor=lambda url, floor: tell_floor(world, url, floor),
            ),
            trimming=trimming_of(world),
            monitor=world.monitor,
            topics=sites.own,
            settle=world.outlet.flush,
            failed=world.server.fail,
        )
    )


@contextmanager
def _together(world: World) -> Generator[Callable[[], None], None, None]:
    """Hold back records until the end of a turn, for all topics."""
    with world.outlet.together() as one, world.effects.together() as other:

        def let_go() -> None:
            one()
            other()

        yield let_go
