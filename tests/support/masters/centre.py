"""A data centre whose topics are lost, and one that it can be rebuilt from, on one broker."""

from __future__ import annotations

import shutil
import uuid
from typing import TYPE_CHECKING

import pytest

from producers.status import StatusProducer
from quadlog.broker import Admin, KafkaOutlet, end_of
from quadlog.core.messages import Save
from quadlog.core.model import GENESIS, START
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.errors import QuadlogError
from quadlog.kafka.ports import free_ports
from quadlog.master.recovery.rebuild import TopicsRebuild
from quadlog.master.recovery.startup_checks import open_store, prepare_topics
from quadlog.masterstore.store import Taken
from quadlog.settings import MasterSettings, PeerSettings
from quadlog.topics import Topics
from tests.support.agreement.topics import Topic, cut_behind, effect, effects_topic, fence, forked, topic_of
from tests.support.brokers import never

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.ports import Record

NOTHING = Save(counter=0, sequence=0, acquired=(), enqueued=(), dequeued=(), entries=(), released=())


class Centre:
    """Data centre dc1, with a master m1 (another one, m2, is elsewhere), and dc2, whose topics have a log."""

    def __init__(self, directory: Path, kafka: str) -> None:
        self.kafka, self.directory = kafka, directory
        own, mate, peer = free_ports(3)
        repository = f"r{uuid.uuid4().hex[:12]}"
        self.own, self.theirs = Topics(repository, "dc1"), Topics(repository, "dc2")
        self.values = {
            "node-id": "dc1-m1",
            "dc": "dc1",
            "repository": repository,
            "data-dir": str(directory / "m1"),
            "port": own,
            "kafka": kafka,
            "master-url": f"http://127.0.0.1:{own}",
        }
        self.peers = [
            {"id": "dc1-m2", "dc": "dc1", "url": f"http://127.0.0.1:{mate}", "kafka": kafka},
            {"id": "dc2-m1", "dc": "dc2", "url": f"http://127.0.0.1:{peer}", "kafka": kafka},
        ]
        self.outlet = KafkaOutlet(kafka, client="test", failed=never)
        self.admin = Admin(kafka)
        self.admin.ensure(self.theirs.all(), replication=1, config={})
        before, after = forked()
        self.log = after
        self.agreed = topic_of([*before, cut_behind(before[2], 2), *after[3:]])
        self.effects = effects_topic(fence(1), *(effect(index) for index in range(1, 7)))
        foreign = [Topic()]
        foreign[0].produce("x", key=b"order-7", values=[b"of another program"], headers=[])
        for topic, records in (
            (self.theirs.agreed, [*foreign[0].records, *self.agreed]),
            (self.theirs.effects, self.effects),
        ):
            for record in records:
                self.outlet.produce(topic, key=record.key, values=[record.value], headers=record.headers)
        self.outlet.flush(60)

    @property
    def settings(self) -> MasterSettings:
        peers = {str(n): PeerSettings(**peer) for n, peer in enumerate(self.peers)}  # type: ignore[arg-type]
        return MasterSettings(**self.values, peer=peers)  # type: ignore[arg-type]

    def settings_of(self, node: str) -> MasterSettings:
        """Of the other master here."""
        mate = {**self.values, "node-id": node, "data-dir": str(self.directory / node)}
        return MasterSettings(**mate)  # type: ignore[arg-type]

    def has_run(self, settings: MasterSettings | None = None) -> bytes:
        """The master was there, and took in its topics; returns its incarnation."""
        settings = settings or self.settings
        store = open_store(settings)
        prepare_topics(settings)
        ids = self.admin.ids(self.own.followed)
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, topics=ids)
        store.save(NOTHING, payloads={}, taken=taken, unneeded=())
        store.close()
        return store.incarnation

    def lose(self, *topics: str) -> None:
        self.admin.delete(topics or self.own.all())

    def rebuild(self, *, is_meant: bool = True) -> list[str]:
        said: list[str] = []
        TopicsRebuild(self.settings, said.append).run(is_meant=is_meant)
        return said

    def rebuild_from_scratch(self) -> None:
        """Have a whole log here, that the master has begun with."""
        self.lose()
        self.rebuild()
        shutil.rmtree(self.settings.data_dir)
        self.has_run()

    def records(self, topic: str) -> list[Record]:
        return end_of(self.kafka, topic, count=1000)[1]

    def refusal(self, *, is_meant: bool = True) -> str:
        """Which error a rebuild ends with, and whether it changed nothing."""
        before = self.admin.ids(self.own.all())
        with pytest.raises(QuadlogError) as caught:
            self.rebuild(is_meant=is_meant)
        truth = "nothing is changed" if self.admin.ids(self.own.all()) == before else "topics are changed"
        return f"{caught.typename}, {truth}: {caught.value}"

    def beat(self, state: WorkerState, sent: int) -> None:
        StatusProducer(self.outlet, self.own.status).publish(
            Heartbeat(
                worker="dc1-w1",
                dc="dc1",
                url="http://w1",
                state=state,
                evaluating=False,
                attempt=0,
                applied=START,
                signature=GENESIS,
                quads=0,
                sent=sent,
            )
        )
        self.outlet.flush(60)
