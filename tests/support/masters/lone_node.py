"""A real node, alone in its data centre, over an outlet of the test's own: no Kafka, no HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from consumers.effects_ledger import EffectsLedger
from consumers.payloads import PayloadsConsumer
from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog.core.limits import LogLimits
from quadlog.core.records import Handover
from quadlog.master.clients.pending_requests import PendingRequests
from quadlog.master.clients.suspended import SuspendedTransactions
from quadlog.master.effects.duty import Duty
from quadlog.master.effects.effects_copying import CopyingPorts, EffectsCopying
from quadlog.master.effects.effects_follower import EffectsFollower
from quadlog.master.effects.pending_effects import PendingEffects
from quadlog.master.effects.topic_health import TopicHealth
from quadlog.master.events import EntryPublished
from quadlog.master.log import joining
from quadlog.master.log.dc_leader import DcLeader
from quadlog.master.log.duplicate_node import DuplicateNodeDetector
from quadlog.master.log.joining import Joining
from quadlog.master.log.log_publisher import LogPublisher
from quadlog.master.node.dispatcher import TopicRoles
from quadlog.master.node.fork_requests import ForkRequests
from quadlog.master.node.inbox import Inbox
from quadlog.master.node.leader_tasks import LeaderTasks
from quadlog.master.node.node import Node
from quadlog.master.node.shared_settings import SharedSettings
from quadlog.master.payloads.acquiring import Acquiring
from quadlog.master.payloads.bodies import Bodies
from quadlog.master.payloads.intake import Intake
from quadlog.master.payloads.reachability import Reachability
from quadlog.master.payloads.relay import PayloadRelay
from quadlog.master.recovery.superseded import Superseded
from quadlog.master.retention.topic_monitor import TopicMonitor
from quadlog.master.retention.trimming import Trimming
from quadlog.master.split_reports.report_files import ReportFiles
from quadlog.master.split_reports.report_request import ReportOutcome
from quadlog.master.split_reports.split_reporter import SplitReporter
from quadlog.master.workers.worker_client import WorkerClient
from quadlog.master.workers.worker_registry import WorkerRegistry
from quadlog.master.workers.worker_watch import WorkerActions, WorkerWatch
from quadlog.ports import apart
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from quadlog.core.agreement.agreement import Agreement
    from quadlog.master.clients.admission import Admission
    from quadlog.masterstore.store import MasterStore
    from quadlog.ports import Outlet


class Roomy:
    """An outlet to a topic that is never full; nothing is said there."""

    waits_since: float | None = None
    refusal: str = ""
    is_settled: bool = True

    def produce(self, topic: str, **_: object) -> None:
        pass

    def give_up(self) -> None:
        pass

    def renew(self) -> None:
        pass


def lone_node(
    agreement: Agreement,
    store: MasterStore,
    outlet: Outlet,
    admission: Admission,
    *,
    failed: Callable[[str], None],
    data_dir: Path | None = None,
) -> Node:
    """The node of `agreement`'s master; topics are `payloads`, `agreed` and `<master>.rounds`."""
    master, bodies, inbox = agreement.node, Bodies(store), Inbox()
    dc_of = dict.fromkeys(agreement.view.members, "dc1")
    ledger = EffectsLedger(duty=Handover(index=0, term=agreement.view.id, dc="dc1"))
    worker_registry, pending_requests, posts = (
        WorkerRegistry(timeout_ms=60_000),
        PendingRequests(store),
        RoundsProducer(outlet, "rounds"),
    )
    decided = EffectsFollower(
        ledger,
        store=store,
        topic="effects",
        pending_requests=pending_requests,
        worker_registry=worker_registry,
    )
    acquiring = Acquiring(
        agreement,
        producer=PayloadsProducer(outlet, "payloads", master),
        intakes={"payloads": Intake(PayloadsConsumer(), 0)},
        own="payloads",
        bodies=bodies,
        pending_requests=pending_requests,
        admission=admission,
        put=inbox.put,
    )
    relay = PayloadRelay(
        Reachability(master, dc_of, patience_ms=2500),
        intakes={},
        pass_on=lambda *_: None,
        read=lambda *_: None,
    )
    leader_tasks = _leader_tasks(
        agreement,
        dc_of=dc_of,
        effects_follower=decided,
        relay=relay,
        store=store,
        outlet=outlet,
        ledger=ledger,
        bodies=bodies,
        worker_registry=worker_registry,
        inbox=inbox,
    )
    node = Node(
        agreement=agreement,
        store=store,
        inbox=inbox,
        topic_roles=TopicRoles(
            rounds={f"{name}.rounds": "dc1" for name in agreement.view.members},
            agreed="agreed",
            sources={},
            sides={},
            own=(),
            status="status",
        ),
        dc_of=dc_of,
        urls={},
        posts=posts,
        duplicate_detector=DuplicateNodeDetector(
            master,
            store.incarnation,
            store.sequence,
            read=lambda *_: None,
        ),
        superseded=Superseded(
            master,
            store.incarnation,
            {},
            data_dir=data_dir or Path(),
            soon=lambda _: None,
            failed=failed,
        ),
        together=apart,
        acquiring=acquiring,
        effects_follower=decided,
        bodies=bodies,
        pending_requests=pending_requests,
        suspended=SuspendedTransactions(
            agreement,
            store=store,
            bodies=bodies,
            pending_requests=pending_requests,
            submit=acquiring.submit,
        ),
        worker_registry=worker_registry,
        watch=WorkerWatch(
            worker_registry,
            ledger,
            WorkerActions(knock=lambda _: None, mend=lambda *_: None, sow=lambda _: None),
            max_lag_ms=60_000,
        ),
        joining=Joining(
            agreement,
            store.beside,
            dc_of,
            joining.JoiningPorts(find=lambda _: None, read=lambda *_: None, leave=lambda _: None),
        ),
        relay=relay,
        leader_tasks=leader_tasks,
        trimming=Trimming(
            "",
            Topics("main", "dc1"),
            LogLimits,
            every_s=60.0,
            begin=lambda _: None,
            say=lambda *_: None,
            chain_at=lambda _: None,
        ),
        fork_requests=ForkRequests(worker_registry, lambda *_: None),
        split_reporter=SplitReporter(
            "dc1",
            dc_of,
            ReportFiles(data_dir or Path()),
            most=0,
            run=lambda _: ReportOutcome(),
        ),
        monitor=TopicMonitor("", Topics("main", "dc1")),
        shared_settings=SharedSettings(master, agreement.settings, ()),
        topics=Topics("main", "dc1"),
        settle=lambda: None,
        failed=failed,
    )
    node.leader_tasks.tick(0.0)
    return node


def _leader_tasks(
    agreement: Agreement,
    *,
    dc_of: Mapping[str, str],
    effects_follower: EffectsFollower,
    relay: PayloadRelay,
    store: MasterStore,
    outlet: Outlet,
    ledger: EffectsLedger,
    bodies: Bodies,
    worker_registry: WorkerRegistry,
    inbox: Inbox,
) -> LeaderTasks:
    master, mirror = agreement.node, EffectsMirror(outlet, "effects", agreement.node)
    return LeaderTasks(
        agreement=agreement,
        dc_of=dc_of,
        effects_follower=effects_follower,
        relay=relay,
        lead=DcLeader(master, [master], patience_ms=0),
        log_publisher=LogPublisher(
            log_sink=AgreedProducer(outlet, "agreed", master),
            saved=store,
            payload=bodies.__getitem__,
            view=lambda: agreement.view,
            written=lambda place, offset: inbox.put(EntryPublished(place, offset)),
            regain=lambda _: None,
            last=agreement.last.index,
        ),
        copying=EffectsCopying(
            dc="dc1",
            ledger=ledger,
            mirror=mirror,
            reach=CopyingPorts(
                find=lambda _: None,
                read=lambda *_: None,
                leave=lambda _: None,
                newest_cut=lambda: 0,
                settle=lambda: None,
            ),
        ),
        duty=Duty(
            dc="dc1",
            view=agreement.view,
            dcs=["dc1"],
            agreed=ledger.duty,
            ledger=ledger,
            worker_registry=worker_registry,
            locate=lambda _: None,
            hand_over=lambda handover: mirror.publish_handover(handover, at=0),
            propose=lambda *_: None,
        ),
        worker_registry=worker_registry,
        peers={},
        read=lambda *_: None,
        worker_client=WorkerClient(lambda _: None),
        topic_health=TopicHealth(worker_registry, Roomy(), "effects"),
        pending_effects=PendingEffects(
            Roomy(), ledger, PendingRequests(store), last=lambda: 0, chain_at=lambda _: None
        ),
    )
