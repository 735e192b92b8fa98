"""Parts of a node that process agreed entries in the topics of its data centre: log, effects, duty, limits."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from consumers.effects_ledger import EffectsLedger
from producers.agreed import AgreedProducer
from producers.checkpoint import CheckpointProducer
from quadlog.broker import STARTING_S, end_of
from quadlog.clock import wall
from quadlog.core.cluster_settings import SplitRecovery
from quadlog.core.limits import LogLimits
from quadlog.core.model import first_view
from quadlog.core.records import Handover
from quadlog.failpoints import Failpoint, visit
from quadlog.master.effects.duty import Duty, move_of
from quadlog.master.effects.effects_copying import CopyingPorts, EffectsCopying
from quadlog.master.events import EffectsEndLocated, EntriesRegained, EntryPublished
from quadlog.master.http.proposals import new_id
from quadlog.master.log.log_publisher import LogPublisher
from quadlog.master.retention.trimming import Trimming, archived_until, needs_of_backups
from quadlog.master.split_reports.report_files import ReportFiles
from quadlog.master.split_reports.report_job import make_reports
from quadlog.master.split_reports.split_reporter import SplitReporter
from quadlog.replay.job import remove_scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from producers.effects import EffectsMirror
    from quadlog.core.agreement.agreement import Agreement
    from quadlog.core.records import Cut, Place
    from quadlog.master.payloads.acquiring import Acquiring
    from quadlog.master.payloads.bodies import Bodies
    from quadlog.master.wiring.world import World
    from quadlog.master.workers.worker_registry import WorkerRegistry

EFFECTS_COMPARED: Final = 20
"""Number of newest records read at the start for the states that workers must have until new effects arrive."""


def log_publisher_of(world: World, agreement: Agreement, bodies: Bodies) -> LogPublisher:
    """Build the writer of the agreed topic, which fetches entries that must be written and were forgotten."""

    def written(place: Place | Cut, offset: int) -> None:
        if not world.sites.has_company:  # else it is heard, in one order with what the others write
            world.inbox.put(EntryPublished(place, offset))

    def regain(index: int) -> None:
        world.server.call_soon(
            lambda: world.sources.regain(
                index, world.store.chain_at, lambda entries: world.inbox.put(EntriesRegained(entries))
            )
        )

    return LogPublisher(
        log_sink=AgreedProducer(world.outlet, world.sites.own.agreed, world.sites.node),
        saved=world.store,
        payload=bodies.__getitem__,
        view=lambda: agreement.view,
        written=written,
        regain=regain,
        settle=world.outlet.flush,
        last=agreement.last.index,
    )


def _duties(world: World) -> tuple[Handover, Handover]:
    """Return the duty as agreed and as the effects state it; initially, both are with the home of the first view."""
    view = first_view(world.sites.first_peers, world.sites.witnesses)
    first = Handover(index=0, term=view.id, dc=view.home)
    return world.store.duty() or (first, first)


def ledger_of(world: World) -> EffectsLedger:
    """Build the ledger of the states after the newest effects, which workers must have."""
    store, sites = world.store, world.sites
    index, attempt, rewound = store.effects()
    _, duty = _duties(world)
    ledger = EffectsLedger(index=index, attempt=attempt, duty=duty, rewound=rewound, seed=store.seed())
    _, effects = end_of(world.settings.kafka, sites.own.effects, count=EFFECTS_COMPARED, timeout=STARTING_S)
    ledger.recall(effects)
    return ledger


def duty_of(
    world: World,
    agreement: Agreement,
    acquiring: Acquiring,
    ledger: EffectsLedger,
    mirror: EffectsMirror,
    *,
    worker_registry: WorkerRegistry,
) -> Duty:
    """Build the duty: which data centre evaluates, and the handovers."""
    sites = world.sites

    def hand_over(handover: Handover) -> None:
        mirror.publish_handover(handover, at=wall())
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
        worker_registry=worker_registry,
        locate=lambda handover: world.server.call_soon(
            lambda: world.sources.locate(handover, lambda found: world.inbox.put(EffectsEndLocated(found)))
        ),
        hand_over=hand_over,
        propose=propose,
        witnesses=sites.witnesses,
    )


def copying_of(
    world: World,
    ledger: EffectsLedger,
    mirror: EffectsMirror,
    log_publisher: LogPublisher,
    *,
    agreement: Agreement,
    foresee: Callable[[], None],
) -> EffectsCopying:
    """Build the copying of another data centre's effects."""
    sites, tails = world.sites, world.tails
    return EffectsCopying(
        dc=sites.dc,
        ledger=ledger,
        mirror=mirror,
        reach=CopyingPorts(
            find=lambda wanted: world.server.call_soon(lambda: world.sources.find(wanted, world.inbox.put)),
            read=lambda dc, offset: tails.read(sites.topics[dc].effects, offset),
            leave=lambda dc: tails.leave(sites.topics[dc].effects),
            newest_cut=lambda: log_publisher.newest_cut,
            settle=world.effects.flush,
            keeps_branches=lambda: agreement.settings.split_recovery is SplitRecovery.NONE,
            foresee=foresee,
        ),
    )


def trimming_of(world: World, agreement: Agreement) -> Trimming:
    """Build the trimming of the log; it is idle without limits."""
    settings = world.settings

    def begin(work: Callable[[], None]) -> None:
        world.server.call_soon(lambda: asyncio.to_thread(work))

    def limits() -> LogLimits:
        shared = agreement.settings
        return LogLimits(
            size=shared.log_max_size,
            depth_s=shared.log_max_depth,
            hard_size=settings.log_hard_max_size,
        )

    own, archive, backups = world.sites.own, settings.log_archive, settings.backups
    if archive is not None:
        remove_scratch(settings)  # what a killed job left
    checkpoints = CheckpointProducer(world.outlet, own.checkpoint, world.sites.node)
    return Trimming(
        settings.kafka,
        own,
        limits,
        every_s=settings.log_trim_every,
        begin=begin,
        say=lambda checkpoint, acked: checkpoints.publish(checkpoint, acked, at=wall()),
        chain_at=world.store.chain_at,
        archive=partial(archived_until, archive, settings, own) if archive else None,
        needs_of_backups=partial(needs_of_backups, backups, settings.kafka, own) if backups else None,
    )


def split_reporter_of(world: World) -> SplitReporter:
    """Build the reporter of splits that are over; it is idle unless this master leads the home's data centre."""
    settings, sites = world.settings, world.sites
    files = ReportFiles(settings.data_dir)
    return SplitReporter(
        sites.dc,
        sites.dc_of,
        files,
        most=settings.split_reports,
        run=partial(make_reports, files, settings, sites.kafka_of),
    )
