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
from quadlog.master.clients.desk import Desk
from quadlog.master.effects.copying import Copying, Reach
from quadlog.master.effects.decided import Decided
from quadlog.master.effects.duty import Duty
from quadlog.master.effects.foreseen import Foreseen
from quadlog.master.effects.fullness import Fullness
from quadlog.master.events import Published
from quadlog.master.log import joining
from quadlog.master.log.joining import Joining
from quadlog.master.log.lead import Lead
from quadlog.master.log.scribe import Scribe
from quadlog.master.log.twins import Twins
from quadlog.master.node.chores import Chores
from quadlog.master.node.inbox import Inbox
from quadlog.master.node.listening import Ears
from quadlog.master.node.node import Node, Parts
from quadlog.master.payloads.acquiring import Acquiring
from quadlog.master.payloads.bodies import Bodies
from quadlog.master.payloads.hearing import Hearing
from quadlog.master.payloads.intake import Intake
from quadlog.master.payloads.relay import Relay
from quadlog.master.recovery.superseded import Superseded
from quadlog.master.retention.topic_monitor import TopicMonitor
from quadlog.master.retention.trimming import Trimming
from quadlog.master.workers.crew import Crew
from quadlog.master.workers.watch import Hands, Watch
from quadlog.ports import apart
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Callable

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
    crew, desk, posts = Crew(timeout_ms=60_000), Desk(store), RoundsProducer(outlet, "rounds")
    decided = Decided(ledger, store=store, topic="effects", desk=desk, crew=crew)
    acquiring = Acquiring(
        agreement,
        mouth=PayloadsProducer(outlet, "payloads", master),
        intakes={"payloads": Intake(PayloadsConsumer(), 0)},
        own="payloads",
        bodies=bodies,
        desk=desk,
        admission=admission,
        put=inbox.put,
    )
    chores = _chores(
        agreement, store=store, outlet=outlet, ledger=ledger, bodies=bodies, crew=crew, inbox=inbox
    )
    node = Node(
        Parts(
            agreement=agreement,
            store=store,
            inbox=inbox,
            ears=Ears(
                rounds={f"{name}.rounds": "dc1" for name in agreement.view.members},
                agreed="agreed",
                sources={},
                sides={},
                own=(),
                status="status",
            ),
            dc_of=dc_of,
            posts=posts,
            twins=Twins(
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
            decided=decided,
            bodies=bodies,
            desk=desk,
            crew=crew,
            watch=Watch(
                crew,
                ledger,
                Hands(knock=lambda _: None, mend=lambda *_: None, sow=lambda _: None),
                max_lag_ms=60_000,
            ),
            joining=Joining(
                agreement,
                store.beside,
                dc_of,
                joining.Reach(find=lambda _: None, read=lambda *_: None, leave=lambda _: None),
            ),
            relay=Relay(
                Hearing(master, dc_of, patience_ms=2500),
                intakes={},
                pass_on=lambda *_: None,
                read=lambda *_: None,
            ),
            chores=chores,
            trimming=Trimming(
                "",
                Topics("main", "dc1"),
                LogLimits(),
                every_s=60.0,
                begin=lambda _: None,
                say=lambda *_: None,
                chain_at=lambda _: None,
            ),
            monitor=TopicMonitor("", Topics("main", "dc1")),
            topics=Topics("main", "dc1"),
            settle=lambda: None,
            failed=failed,
        )
    )
    node.chores.tend(node._scene, 0.0)
    return node


def _chores(
    agreement: Agreement,
    *,
    store: MasterStore,
    outlet: Outlet,
    ledger: EffectsLedger,
    bodies: Bodies,
    crew: Crew,
    inbox: Inbox,
) -> Chores:
    master, mirror = agreement.node, EffectsMirror(outlet, "effects", agreement.node)
    return Chores(
        lead=Lead(master, [master], patience_ms=0),
        scribe=Scribe(
            mouth=AgreedProducer(outlet, "agreed", master),
            saved=store,
            payload=bodies.__getitem__,
            view=lambda: agreement.view,
            written=lambda place, offset: inbox.put(Published(place, offset)),
            regain=lambda _: None,
            last=agreement.last.index,
        ),
        copying=Copying(
            dc="dc1",
            ledger=ledger,
            mirror=mirror,
            reach=Reach(
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
            crew=crew,
            locate=lambda _: None,
            hand_over=lambda handover: mirror.hand_over(handover, at=0),
            propose=lambda *_: None,
        ),
        crew=crew,
        peers={},
        read=lambda *_: None,
        appoint=lambda *_: None,
        fullness=Fullness(crew, Roomy(), "effects"),
        tell_floor=lambda *_: None,
        foreseen=Foreseen(Roomy(), ledger, Desk(store), last=lambda: 0, chain_at=lambda _: None),
    )
