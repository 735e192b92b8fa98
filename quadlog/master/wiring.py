"""Wiring: a node and all its parts, from settings, a store and Kafka."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from consumers.effects_ledger import EffectsLedger
from consumers.payloads import PayloadsConsumer
from producers.agreed import AgreedProducer
from producers.checkpoint import CheckpointProducer
from producers.effects import EffectsMirror
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog.broker import STARTING_S, end_of, records_between
from quadlog.clock import wall
from quadlog.core.agreement import Agreement
from quadlog.core.limits import LogLimits
from quadlog.core.messages import Limits, Pace
from quadlog.core.model import first_view
from quadlog.core.records import Handover
from quadlog.errors import Unavailable
from quadlog.failpoints import Failpoint, visit
from quadlog.master import joining
from quadlog.master.acquiring import Acquiring
from quadlog.master.admission import Admission
from quadlog.master.archiver import Archiver
from quadlog.master.backups_kept import BackupsKept
from quadlog.master.bodies import Bodies
from quadlog.master.chores import Chores
from quadlog.master.copying import Copying, Reach
from quadlog.master.crew import Crew
from quadlog.master.decided import Decided
from quadlog.master.desk import Desk
from quadlog.master.duty import Duty, move_of
from quadlog.master.events import Located, Published, Regained
from quadlog.master.foreseen import Foreseen
from quadlog.master.fullness import Fullness
from quadlog.master.hearing import Hearing
from quadlog.master.intake import Intake
from quadlog.master.joining import Joined, Joining
from quadlog.master.lead import Lead
from quadlog.master.listening import Ears
from quadlog.master.node import Node, Parts
from quadlog.master.relay import Relay
from quadlog.master.scribe import Scribe
from quadlog.master.trimming import Trimming
from quadlog.master.twins import Twins
from quadlog.master.updates import new_id
from quadlog.master.watch import Hands, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from quadlog.broker import KafkaOutlet, RenewableOutlet
    from quadlog.core.records import Cut, Place
    from quadlog.master.crew import Worker
    from quadlog.master.doors import Doors
    from quadlog.master.inbox import Inbox
    from quadlog.master.sites import Sites
    from quadlog.master.sources import Sources
    from quadlog.master.tails import Tails
    from quadlog.server import Server
    from quadlog.settings import MasterSettings
    from quadlog.store import MasterStore

EFFECTS_COMPARED: Final = 20
"""Records looked at for the states that workers have to be in, where no new effect tells."""


log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a node stands in."""

    settings: MasterSettings
    sites: Sites
    store: MasterStore
    outlet: KafkaOutlet
    effects: RenewableOutlet
    """To the own effects alone: they may be full."""
    inbox: Inbox
    tails: Tails
    server: Server
    """Runs what takes longer than a turn."""
    sources: Sources
    doors: Doors
    payloads_end: int
    """Where the own payloads ended at this start."""


def make_node(world: World, *, sow: Callable[[Worker], None]) -> Node:
    """A node; `sow`: has the seed brought to a worker that lacks it."""
    settings, sites, store = world.settings, world.sites, world.store
    agreement, ledger, bodies = _agreement(world), _ledger(world), Bodies(store)
    desk = Desk(store, decided_before=ledger.index)
    foreseen = Foreseen(
        world.effects, ledger, desk, last=lambda: agreement.last.index, chain_at=_chain_in(store)
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
    twins = _twins(world)
    # With company there its offsets jump anyway, and it reads them.
    posts = RoundsProducer(world.outlet, sites.own.rounds, acked=None if sites.has_company else twins.acked)
    acquiring = Acquiring(
        agreement,
        mouth=PayloadsProducer(world.outlet, sites.own.payloads, sites.node),
        intakes=_intakes(world),
        own=sites.own.payloads,
        bodies=bodies,
        desk=desk,
        admission=Admission(max_waiting=settings.max_waiting),
        put=world.inbox.put,
    )
    mirror = EffectsMirror(foreseen, sites.own.effects, sites.node)
    scribe = _scribe(world, agreement, bodies)
    return Node(
        Parts(
            agreement=agreement,
            store=store,
            inbox=world.inbox,
            ears=_ears(sites),
            dc_of=sites.dc_of,
            posts=posts,
            twins=twins,
            together=lambda: _together(world),
            acquiring=acquiring,
            decided=decided,
            bodies=bodies,
            desk=desk,
            crew=crew,
            watch=Watch(crew, ledger, _hands(world, sow), max_lag_ms=settings.max_worker_lag * 1000),
            joining=_joining(world, agreement),
            relay=_relay(world, acquiring, posts),
            chores=Chores(
                lead=Lead(sites.node, sites.masters_in(sites.dc), patience_ms=sites.patience_ms),
                scribe=scribe,
                copying=_copying(world, ledger, mirror, scribe, foresee=foreseen.begin),
                duty=_duty(world, agreement, acquiring, ledger, mirror, crew=crew),
                crew=crew,
                peers=acquiring.peers,
                read=world.tails.read,
                appoint=lambda url, duty: _appoint(world, url, duty),
                fullness=Fullness(crew, world.effects, sites.own.effects),
                foreseen=foreseen,
                tell_floor=lambda url, floor: _tell_floor(world, url, floor),
            ),
            trimming=_trimming(world),
            topics=sites.own,
            settle=world.outlet.flush,
            failed=world.server.fail,
        )
    )


@contextmanager
def _together(world: World) -> Generator[Callable[[], None], None, None]:
    """What is said within a turn goes at its end, to whichever topics."""
    with world.outlet.together() as one, world.effects.together() as other:

        def let_go() -> None:
            one()
            other()

        yield let_go


def _trimming(world: World) -> Trimming:
    settings = world.settings

    def begin(work: Callable[[], None]) -> None:
        world.server.call_soon(lambda: asyncio.to_thread(work))

    limits = LogLimits(
        size=settings.log_max_size,
        depth_s=settings.log_max_depth,
        hard_size=settings.log_hard_max_size,
    )
    own, directory = world.sites.own, settings.log_archive
    archiver = Archiver(directory, settings, own) if directory is not None else None
    backups = BackupsKept(settings.backups, settings.kafka, own) if settings.backups is not None else None
    checkpoints = CheckpointProducer(world.outlet, own.checkpoint, world.sites.node)
    return Trimming(
        settings.kafka,
        own,
        limits,
        every_s=settings.log_trim_every,
        begin=begin,
        say=lambda checkpoint, acked: checkpoints.say(checkpoint, acked, at=wall()),
        chain_at=_chain_in(world.store),
        archiver=archiver,
        backups=backups,
    )


def _duties(world: World) -> tuple[Handover, Handover]:
    """Who evaluates, as it was agreed and as the effects say; at first it is the first view's home."""
    view = first_view(world.sites.first_peers, world.sites.witnesses)
    first = Handover(index=0, term=view.id, dc=view.home)
    return world.store.duty() or (first, first)


def _ledger(world: World) -> EffectsLedger:
    store, sites = world.store, world.sites
    index, attempt, rewound = store.effects()
    _, duty = _duties(world)
    ledger = EffectsLedger(index=index, attempt=attempt, duty=duty, rewound=rewound, seed=store.seed())
    _, effects = end_of(world.settings.kafka, sites.own.effects, count=EFFECTS_COMPARED, timeout=STARTING_S)
    ledger.recall(effects)
    return ledger


def _duty(
    world: World,
    agreement: Agreement,
    acquiring: Acquiring,
    ledger: EffectsLedger,
    mirror: EffectsMirror,
    *,
    crew: Crew,
) -> Duty:
    sites = world.sites

    def hand_over(handover: Handover) -> None:
        mirror.hand_over(handover, at=wall())
        visit(Failpoint.HANDED_OVER, world.effects.flush)

    def propose(moved: Handover, dc: str) -> None:
        acquiring.submit(move_of(moved, dc, node=sites.node, node_dc=sites.dc, new_id=new_id()))

    agreed, _ = _duties(world)
    return Duty(
        dc=sites.dc,
        view=agreement.view,
        dcs=[sites.dc_of[name] for name in agreement.view.members],
        agreed=agreed,
        ledger=ledger,
        crew=crew,
        locate=lambda handover: world.server.call_soon(
            lambda: world.sources.locate(handover, lambda found: world.inbox.put(Located(found)))
        ),
        hand_over=hand_over,
        propose=propose,
        witnesses=sites.witnesses,
    )


def _agreement(world: World) -> Agreement:
    settings, store = world.settings, world.store
    durable = store.durable()
    return Agreement(
        node=settings.node_id,
        incarnation=store.incarnation,
        masters=world.sites.first_peers,
        durable=durable if settings.voting else replace(durable, blank=True),
        logged=store,
        pace=Pace(
            window=settings.round_window_ms,
            idle=settings.idle_round * 1000,
            lag=settings.max_peer_lag * 1000,
        ),
        limits=Limits(),
        witnesses=world.sites.witnesses,
    )


def _twins(world: World) -> Twins:
    kafka, topic = world.settings.kafka, world.sites.own.rounds

    def read(start: int, end: int) -> None:
        def look() -> None:
            try:
                twins.look(records_between(kafka, topic, start, end))
            except Unavailable as error:
                log.warning("cannot see who else posts here", reason=str(error))

        world.server.call_soon(lambda: asyncio.to_thread(look))

    twins = Twins(world.sites.node, world.store.incarnation, world.store.sequence, read=read)
    return twins


def _ears(sites: Sites) -> Ears:
    return Ears(
        rounds={topics.rounds: dc for dc, topics in sites.topics.items()},
        agreed=sites.own.agreed,
        sources={sites.topics[dc].effects: dc for dc in sites.others},
        sides={sites.topics[dc].agreed: dc for dc in sites.others},
        own=sites.own.followed,
        status=sites.own.status,
    )


def _intakes(world: World) -> dict[str, Intake]:
    """Of the own payloads topic and the peers'."""
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


def _scribe(world: World, agreement: Agreement, bodies: Bodies) -> Scribe:
    def written(place: Place | Cut, offset: int) -> None:
        if not world.sites.has_company:  # else it is heard, in one order with what the others write
            world.inbox.put(Published(place, offset))

    def regain(index: int) -> None:
        world.server.call_soon(
            lambda: world.sources.regain(index, chain_at, lambda entries: world.inbox.put(Regained(entries)))
        )

    chain_at = _chain_in(world.store)
    return Scribe(
        mouth=AgreedProducer(world.outlet, world.sites.own.agreed, world.sites.node),
        saved=world.store,
        payload=bodies.__getitem__,
        view=lambda: agreement.view,
        written=written,
        regain=regain,
        settle=world.outlet.flush,
        last=agreement.last.index,
    )


def _copying(
    world: World,
    ledger: EffectsLedger,
    mirror: EffectsMirror,
    scribe: Scribe,
    *,
    foresee: Callable[[], None],
) -> Copying:
    sites, tails = world.sites, world.tails
    return Copying(
        dc=sites.dc,
        ledger=ledger,
        mirror=mirror,
        reach=Reach(
            find=lambda wanted: world.server.call_soon(lambda: world.sources.find(wanted, world.inbox.put)),
            read=lambda dc, offset: tails.read(sites.topics[dc].effects, offset),
            leave=lambda dc: tails.leave(sites.topics[dc].effects),
            newest_cut=lambda: scribe.newest_cut,
            settle=world.effects.flush,
            foresee=foresee,
        ),
    )


def _chain_in(store: MasterStore) -> Callable[[int], bytes | None]:
    """Chain hash of the own entry at an index."""

    def chain_at(index: int) -> bytes | None:
        entry = store.entry(index)
        return None if entry is None else entry[0]

    return chain_at


def _joining(world: World, agreement: Agreement) -> Joining:
    sites, tails, chain_at = world.sites, world.tails, _chain_in(world.store)

    def find(joined: Joined) -> None:
        world.server.call_soon(lambda: world.sources.fork(joined, chain_at, world.inbox.put))

    return Joining(
        agreement,
        world.store.beside,
        sites.dc_of,
        joining.Reach(
            find=find,
            read=lambda dc, offset: tails.read(sites.topics[dc].agreed, offset),
            leave=lambda dc: tails.leave(sites.topics[dc].agreed),
        ),
    )


def _relay(world: World, acquiring: Acquiring, posts: RoundsProducer) -> Relay:
    sites = world.sites
    return Relay(
        Hearing(sites.node, sites.dc_of, patience_ms=sites.patience_ms),
        intakes={intake.dc: intake for intake in acquiring.peers.values()},
        pass_on=posts.pass_on,
        read=lambda dc, offset: world.tails.read(sites.topics[dc].payloads, offset),
    )


def _hands(world: World, sow: Callable[[Worker], None]) -> Hands:
    soon, doors = world.server.call_soon, world.doors
    return Hands(
        knock=lambda worker: soon(lambda: doors.knock(worker)),
        mend=lambda worker, wrong: soon(lambda: doors.ask_to_mend(worker, wrong)),
        sow=sow,
    )


def _tell_floor(world: World, url: str, floor: tuple[int, int]) -> None:
    epoch, index = floor
    world.server.call_soon(lambda: world.doors.tell_floor(url, {"epoch": epoch, "index": index}))


def _appoint(world: World, url: str, duty: Handover) -> None:
    body: dict[str, str | int] = {
        "dc": duty.dc,
        "term": duty.term.hex(),
        "handover": duty.index,
        "epoch": duty.epoch,
    }
    world.server.call_soon(lambda: world.doors.ask_to_evaluate(url, body))
