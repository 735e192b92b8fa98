"""Composition root of a master: settings in, a running process out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from consumers import agreed
from consumers.effects import EffectsLedger
from consumers.payloads import PayloadsConsumer
from producers.agreed import AgreedProducer
from producers.effects import EffectsMirror
from producers.payloads import PayloadsProducer
from producers.rounds import RoundsProducer
from quadlog import failpoints
from quadlog.broker import BEGINNING, END, Admin, KafkaOutlet, KafkaTail, end_of, last
from quadlog.clock import wall
from quadlog.core.agreement import Agreement
from quadlog.core.messages import Limits, Pace
from quadlog.core.model import GENESIS, Entry, Handover, first_view
from quadlog.master.admission import Admission
from quadlog.master.app import make_app
from quadlog.master.bodies import Bodies
from quadlog.master.chores import Chores, Reach
from quadlog.master.copies import Copies
from quadlog.master.crew import Crew
from quadlog.master.desk import Desk
from quadlog.master.doors import Doors
from quadlog.master.duty import Duty, move_of
from quadlog.master.events import Located, Published
from quadlog.master.intake import Intake
from quadlog.master.lead import Lead
from quadlog.master.node import Ears, Mouths, Node
from quadlog.master.scribe import Scribe
from quadlog.master.seeding import Seeding
from quadlog.master.sources import Sources
from quadlog.master.updates import new_id
from quadlog.master.watch import Hands, Watch
from quadlog.server import Server
from quadlog.store import MasterStore
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quadlog.settings import MasterSettings

log = structlog.get_logger()

ROUNDS_READ_BACK: Final = 2 * Limits().snapshot_every
"""Posts of each master read again at a start: there is a snapshot among them, unless its queue is long."""

AGREED_READ_BACK: Final = 50
"""Records looked at for the last entry: where two masters led for a moment, older ones may stand behind it."""

EFFECTS_COMPARED: Final = 20
"""Records looked at for the states that workers have to be in, where no new effect tells."""


class MasterProcess:
    """Everything one master consists of, wired once."""

    def __init__(self, settings: MasterSettings) -> None:
        """Open the store and Kafka; nothing is said yet."""
        self.settings: Final = settings
        self.topics: Final = Topics(settings.repository, settings.dc)
        self.server: Final = Server(settings.host, settings.port)
        self.doors: Final = Doors()
        self.store: Final = MasterStore(settings.data_dir / "rocksdb")
        self._dc_of = {settings.node_id: settings.dc} | {peer.id: peer.dc for peer in settings.peer.values()}
        self._kafka_of = {settings.dc: settings.kafka} | {
            peer.dc: peer.kafka for peer in settings.peer.values()
        }
        self._prepare_topics()
        self.outlet: Final = KafkaOutlet(settings.kafka, client=settings.node_id, failed=self.server.fail)
        self.view: Final = first_view(self._dc_of)
        self._payloads_end = self._agreed_end = 0  # ends of topics at this start
        self.home: Final = self._dc_of[min(self.view.members)]
        """Its effects are followed and copied everywhere."""
        self.sources: Final = Sources(
            settings.repository, dc=settings.dc, home=self.home, kafka_of=self._kafka_of
        )
        self.node: Final = self._make_node()
        self.seeding: Final = Seeding(
            self.node,
            settings,
            EffectsMirror(self.outlet, self.topics.effects, settings.node_id),
            home=self.home,
        )
        self.tails: Final = {dc: self._tail(dc) for dc in self._kafka_of}

    def _prepare_topics(self) -> None:
        admin = Admin(self.settings.kafka)
        config = {
            "retention.ms": "-1",
            "min.insync.replicas": str(max(1, self.settings.kafka_replication - 1)),
        }
        replication = self.settings.kafka_replication
        *kept, status = self.topics.all()
        warnings = admin.ensure(kept, replication=replication, config=config)
        warnings += admin.ensure(
            [status], replication=replication, config=config | {"retention.ms": "3600000"}
        )
        for warning in warnings:
            log.warning(warning)

    def _make_node(self) -> Node:
        settings, store, topics = self.settings, self.store, self.topics
        index, attempt = store.effects()
        first = Handover(index=0, term=self.view.id, dc=self.home)
        agreed_duty, duty = store.duty() or (first, first)
        self._duty = duty
        agreement = Agreement(
            node=settings.node_id,
            incarnation=store.incarnation,
            masters=self._dc_of,
            durable=store.durable(),
            logged=store,
            pace=Pace(window=settings.round_window_ms, idle=settings.idle_round * 1000),
            limits=Limits(),
        )
        mouths = Mouths(
            payloads=PayloadsProducer(self.outlet, topics.payloads, settings.node_id),
            rounds=RoundsProducer(self.outlet, topics.rounds),
            together=self.outlet.together,
        )
        bodies, ears = Bodies(store), self._make_ears()
        ledger = EffectsLedger(index=index, attempt=attempt, duty=duty, seed=store.seed())
        _, effects = end_of(settings.kafka, topics.effects, count=EFFECTS_COMPARED)
        ledger.recall(effects)
        crew = Crew(timeout_ms=settings.worker_timeout * 1000)
        return Node(
            agreement=agreement,
            store=store,
            mouths=mouths,
            ears=ears,
            ledger=ledger,
            desk=Desk(store, decided_before=index),
            crew=crew,
            watch=Watch(
                crew,
                ledger,
                Hands(
                    knock=lambda worker: self.server.call_soon(lambda: self.doors.knock(worker)),
                    mend=lambda worker, wrong: self.server.call_soon(
                        lambda: self.doors.ask_to_mend(worker, wrong)
                    ),
                    sow=lambda worker: self.server.call_soon(lambda: self.seeding.bring(worker)),
                ),
                max_lag_ms=settings.max_worker_lag * 1000,
            ),
            admission=Admission(max_waiting=settings.max_waiting),
            bodies=bodies,
            chores=lambda node: self._make_chores(node, ears, ledger, bodies, agreed_duty),
            settle=self.outlet.flush,
            failed=self.server.fail,
        )

    def _make_chores(
        self, node: Node, ears: Ears, ledger: EffectsLedger, bodies: Bodies, duty: Handover
    ) -> Chores:
        settings, topics = self.settings, self.topics
        mirror = EffectsMirror(self.outlet, topics.effects, settings.node_id)

        def propose(moved: Handover, dc: str) -> None:
            node.submit(move_of(moved, dc, node=settings.node_id, node_dc=settings.dc, new_id=new_id()))

        return Chores(
            lead=Lead(settings.node_id, self._masters_here, patience_ms=2.5 * settings.idle_round * 1000),
            scribe=Scribe(
                say=AgreedProducer(self.outlet, topics.agreed, settings.node_id).say,
                payload=bodies.__getitem__,
                written=lambda index: node.put(Published(index)),
            ),
            copies=Copies(mirror, dc=settings.dc, home=ears.effects),
            duty=Duty(
                dc=settings.dc,
                dcs=[self.home, *sorted(dc for dc in self._kafka_of if dc != self.home)],
                agreed=duty,
                ledger=ledger,
                crew=node.crew,
                locate=self._locate,
                hand_over=lambda handover: mirror.hand_over(handover, at=wall()),
                propose=propose,
            ),
            ledger=ledger,
            crew=node.crew,
            peers={topic: intake for topic, intake in ears.payloads.items() if topic != ears.own_payloads},
            sources={topic: self.sources.mirrored(topic) for topic in self.sources.of(ledger.duty)},
            others=self.sources.others,
            reach=Reach(
                appoint=self._appoint,
                mirrored=self.sources.mirrored,
                settle=self.outlet.flush,
                read=lambda topic, offset: self._tail_of(topic).read(topic, offset),
                leave=lambda topic: self._tail_of(topic).leave(topic),
            ),
        )

    def _tail_of(self, topic: str) -> KafkaTail:
        return next(
            tail for dc, tail in self.tails.items() if topic in Topics(self.settings.repository, dc).all()
        )

    def _make_ears(self) -> Ears:
        settings, own = self.settings, self.topics
        self._payloads_end, _ = end_of(settings.kafka, own.payloads, count=0)
        intakes = {
            own.payloads: Intake(
                PayloadsConsumer(told=(settings.node_id, self._payloads_end)),
                self.store.position(own.payloads) or 0,
                is_own=True,
                alone_from=None if self._has_company else self._payloads_end,
            )
        }
        for dc in self._peer_dcs():
            topic = Topics(settings.repository, dc).payloads
            intakes[topic] = Intake(PayloadsConsumer(only_origin_dc=dc), self.store.position(topic) or 0)
        return Ears(
            own_payloads=own.payloads,
            payloads=intakes,
            rounds=frozenset(Topics(settings.repository, dc).rounds for dc in self._kafka_of),
            agreed=own.agreed,
            effects=Topics(settings.repository, self.home).effects,
            sources=self.sources.all,
            status=own.status,
        )

    @property
    def _masters_here(self) -> list[str]:
        return [master for master, dc in self._dc_of.items() if dc == self.settings.dc]

    @property
    def _has_company(self) -> bool:
        return len(self._masters_here) > 1

    def _peer_dcs(self) -> list[str]:
        return [dc for dc in self._kafka_of if dc != self.settings.dc]

    # --- what is read, from where on ----------------------------------------------------------------

    def _tail(self, dc: str) -> KafkaTail:
        name = f"{self.settings.node_id}-reads-{dc}"
        return KafkaTail(
            self._kafka_of[dc], client=name, name=name, hear=self.node.hear, failed=self.server.fail
        )

    def _offsets(self, dc: str) -> dict[str, int]:
        topics = Topics(self.settings.repository, dc)
        offsets = {topics.payloads: self._saved(topics.payloads)}
        if dc == self.settings.dc:
            offsets |= self._own_offsets(topics)
        others = [m for m, where in self._dc_of.items() if where == dc and m != self.settings.node_id]
        if others:  # else there is nobody there but this master
            offsets[topics.rounds] = last(ROUNDS_READ_BACK * (len(others) + (dc == self.settings.dc)))
        if dc == self.home:
            offsets[topics.effects] = self._saved(topics.effects)
        elif topics.effects in self.sources.of(self._duty):
            offsets[topics.effects] = max(self._saved(topics.effects), self._duty.start)
        return offsets

    def _own_offsets(self, topics: Topics) -> dict[str, int]:
        """What this data centre's processes say to each other."""
        offsets = {topics.status: END}
        if self._has_company:
            offsets[topics.agreed] = self._agreed_end
        return offsets

    @property
    def _own_until(self) -> dict[str, int]:
        """A master that is alone in its data centre wrote all of its payloads: acknowledgements tell of new ones."""
        return {} if self._has_company else {self.topics.payloads: self._payloads_end}

    def _saved(self, topic: str) -> int:
        position = self.store.position(topic)
        return BEGINNING if position is None else position

    # --- running ------------------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until told to stop.  Returns the process's exit status."""
        for entry in self._unpublished():
            self.node.chores.scribe.write(entry)
        self.node.start()
        for dc, tail in self.tails.items():
            tail.start(self._offsets(dc), until=self._own_until)
        app = make_app(self.node, self.settings, peers=self._dc_of, seeding=self.seeding)
        log.info("master serves", id=self.settings.node_id, url=self.settings.master_url)
        try:
            return self.server.run(app)
        finally:
            for tail in self.tails.values():
                tail.close()
            self.node.stop()
            self.outlet.close()
            self.store.close()

    def _unpublished(self) -> Iterator[Entry]:
        """Entries that are saved, and that the agreed topic does not hold."""
        self._agreed_end, records = end_of(self.settings.kafka, self.topics.agreed, count=AGREED_READ_BACK)
        index = max(map(agreed.held_with, records), default=0)
        previous = entry[0] if (entry := self.store.entry(index)) else GENESIS
        while known := self.store.entry(index := index + 1):
            chain, pair = known
            payload = self.store.payload(pair.key)
            if payload is None:  # a payload is kept until the topic is known to hold its entry
                log.info("an entry stands before the end of the agreed topic", index=index)
                previous = chain
                continue
            transaction = payload.transaction
            yield Entry(
                index=index,
                pair=pair,
                kind=transaction.kind,
                options=transaction.options,
                previous=previous,
                chain=chain,
                view=self.view,
            )
            previous = chain

    # --- what the node asks of others -------------------------------------------------------------

    def _appoint(self, url: str, duty: Handover) -> None:
        body: dict[str, str | int] = {"dc": duty.dc, "term": duty.term.hex(), "handover": duty.index}
        self.server.call_soon(lambda: self.doors.ask_to_evaluate(url, body))

    def _locate(self, handover: Handover) -> None:
        self.server.call_soon(
            lambda: self.sources.locate(handover, lambda found: self.node.put(Located(found)))
        )


def run(settings: MasterSettings) -> int:
    """Run one master until it is told to stop."""
    failpoints.arm(settings.failpoint)
    return MasterProcess(settings).run()
