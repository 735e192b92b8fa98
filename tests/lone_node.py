"""A real node, alone in its data centre, over an outlet of the test's own: no Kafka, no HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from consumers.effects import EffectsLedger
from consumers.payloads import PayloadsConsumer
from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog.core.model import Handover
from quadlog.master.bodies import Bodies
from quadlog.master.chores import Chores, Reach
from quadlog.master.copies import Copies
from quadlog.master.crew import Crew
from quadlog.master.desk import Desk
from quadlog.master.duty import Duty
from quadlog.master.events import Published
from quadlog.master.intake import Intake
from quadlog.master.lead import Lead
from quadlog.master.node import Ears, Mouths, Node
from quadlog.master.scribe import Scribe
from quadlog.master.watch import Hands, Watch
from quadlog.ports import apart

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.agreement import Agreement
    from quadlog.master.admission import Admission
    from quadlog.ports import Outlet
    from quadlog.store import MasterStore


def lone_node(
    agreement: Agreement,
    store: MasterStore,
    outlet: Outlet,
    admission: Admission,
    *,
    failed: Callable[[str], None],
) -> Node:
    """The node of `agreement`'s master; topics are `payloads`, `agreed` and `<master>.rounds`."""
    master, bodies = agreement.node, Bodies(store)
    ledger = EffectsLedger(duty=Handover(index=0, term=agreement.view.id, dc="dc1"))
    crew = Crew(timeout_ms=60_000)
    hands = Hands(knock=lambda _: None, mend=lambda *_: None, sow=lambda _: None)
    node = Node(
        agreement=agreement,
        store=store,
        mouths=Mouths(
            payloads=PayloadsProducer(outlet, "payloads", master),
            rounds=RoundsProducer(outlet, "rounds"),
            together=apart,
        ),
        ears=Ears(
            own_payloads="payloads",
            payloads={"payloads": Intake(PayloadsConsumer(), 0)},
            rounds=frozenset(f"{name}.rounds" for name in agreement.view.members),
            agreed="agreed",
            effects="effects",
            sources=frozenset(),
            status="status",
        ),
        ledger=ledger,
        desk=Desk(store),
        crew=crew,
        watch=Watch(crew, ledger, hands, max_lag_ms=60_000),
        admission=admission,
        bodies=bodies,
        chores=lambda node: _chores(node, outlet, ledger, bodies),
        settle=lambda: None,
        failed=failed,
    )
    node.chores.tend({}, 0.0, last_index=0)
    return node


def _chores(node: Node, outlet: Outlet, ledger: EffectsLedger, bodies: Bodies) -> Chores:
    master, mirror = node.agreement.node, EffectsMirror(outlet, "effects", node.agreement.node)
    return Chores(
        lead=Lead(master, [master], patience_ms=0),
        scribe=Scribe(
            say=AgreedProducer(outlet, "agreed", master).say,
            payload=bodies.__getitem__,
            written=lambda index: node.put(Published(index)),
        ),
        copies=Copies(mirror, dc="dc1", home="effects"),
        duty=Duty(
            dc="dc1",
            dcs=["dc1"],
            agreed=ledger.duty,
            ledger=ledger,
            crew=node.crew,
            locate=lambda _: None,
            hand_over=lambda handover: mirror.hand_over(handover, at=0),
            propose=lambda *_: None,
        ),
        ledger=ledger,
        crew=node.crew,
        peers={},
        sources={},
        others={},
        reach=Reach(
            appoint=lambda *_: None,
            mirrored=lambda _: -1,
            settle=lambda: None,
            read=lambda *_: None,
            leave=lambda _: None,
        ),
    )
