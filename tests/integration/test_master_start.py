"""A master's start: what it reads of its topics before it takes part."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from consumers import rounds
from producers.agreed import AgreedProducer
from producers.rounds import RoundsProducer
from quadlog.broker import Admin, KafkaOutlet, backwards, end_of
from quadlog.codec.envelope import ATTEMPT, EPOCH, HANDOVER
from quadlog.core.messages import Save
from quadlog.core.model import LogPosition
from quadlog.core.records import Reached
from quadlog.errors import SetupError, TopicLost
from quadlog.kafka.ports import free_ports
from quadlog.master.process import MasterProcess
from quadlog.master.recovery.startup_checks import open_store
from quadlog.masterstore.store import MasterStore, Taken
from quadlog.settings import MasterSettings
from quadlog.topics import Topics
from tests.support.agreement.topics import entries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from quadlog.core.model import Post


@pytest.fixture
def settings(tmp_path: Path, kafka: str) -> MasterSettings:
    """Of a master that is alone, with topics of its own."""
    [port] = free_ports(1)
    return MasterSettings(
        node_id="dc1-m1",
        dc="dc1",
        repository=f"r{uuid.uuid4().hex[:12]}",
        data_dir=tmp_path,
        port=port,
        kafka=kafka,
        master_url=f"http://127.0.0.1:{port}",
    )


def test_what_another_program_wrote_does_not_keep_a_master_from_starting(settings: MasterSettings) -> None:
    """It would come no further however often it is started: the records stay."""
    topics, done = Topics(settings.repository, settings.dc), threading.Event()
    Admin(settings.kafka).ensure(topics.all(), replication=1, config={})
    outlet = KafkaOutlet(settings.kafka, client="stranger", failed=pytest.fail)
    headers = [(ATTEMPT, b"first"), (EPOCH, b"x"), (HANDOVER, b"0")]
    for topic in topics.all():
        for _ in range(2):
            outlet.produce(
                topic,
                key=b"order-7",
                values=[b"of another program"],
                headers=headers,
                acked=lambda _: done.set(),
            )
    outlet.flush(60)
    outlet.close()
    assert done.is_set()
    with capture_logs() as logs:
        master = MasterProcess(settings)
        master.server.leave()
        assert master.run() == 0
    told = [line["topic"] for line in logs if line["event"] == "record_skipped"]
    assert (told.count(topics.agreed), told.count(topics.rounds)) == (1, 0), (
        "whose key is not its own it does not read"
    )


@pytest.mark.parametrize("behind", [0, 500], ids=["at the end", "behind what others posted since"])
def test_a_disk_that_is_older_than_what_was_said_is_void(settings: MasterSettings, behind: int) -> None:
    """A backup that was restored does not know what its master voted for and promised since."""
    first = MasterProcess(settings)
    first.server.leave()
    assert first.run() == 0
    before = MasterStore(settings.data_dir / "rocksdb")
    saved, incarnation = before.sequence, before.incarnation
    assert saved > 0
    before.close()
    topics = Topics(settings.repository, settings.dc)
    outlet = KafkaOutlet(settings.kafka, client="test", failed=pytest.fail)

    def post(sequence: int) -> None:
        said = replace(last_post(settings), incarnation=incarnation, sequence=sequence, base_sequence=None)
        RoundsProducer(outlet, topics.rounds).publish(said, at=0)
        for number in range(behind):
            RoundsProducer(outlet, topics.rounds).publish(replace(said, node="dc1-m2", sequence=number), at=0)
        outlet.flush(60)

    post(saved)
    same = open_store(settings)
    assert (same.incarnation, same.durable().blank) == (incarnation, False)
    same.close()
    post(saved + 1)
    other = open_store(settings)
    assert other.incarnation > incarnation
    assert (other.durable().blank, other.sequence) == (True, 0)
    other.close()
    again = open_store(settings)
    assert again.incarnation == other.incarnation
    again.close()
    outlet.close()


def last_post(settings: MasterSettings) -> Post:
    """Of this master."""
    topic = Topics(settings.repository, settings.dc).rounds
    end, _ = end_of(settings.kafka, topic, count=0)
    posts = (rounds.hear(record) for record in backwards(settings.kafka, topic, end))
    return next(post for post in posts if post.node == settings.node_id)


def test_the_agreed_topic_is_read_on_from_where_it_was(settings: MasterSettings) -> None:
    """Where its end is lost, the master does not go on as if nothing were there, and changes nothing."""
    log, topics = entries(60), Topics(settings.repository, settings.dc)
    first = MasterProcess(settings)
    first.server.leave()
    assert first.run() == 0
    outlet = KafkaOutlet(settings.kafka, client="mate", failed=pytest.fail)
    producer, acked = AgreedProducer(outlet, topics.agreed, "dc1-m2"), list[int]()
    for entry in log:
        producer.publish(entry, acked.append)
    outlet.flush(60)
    assert acked == list(range(60))
    ends = [LogPosition(entry.index, entry.chain) for entry in log]
    nothing = Save(counter=0, sequence=0, acquired=(), enqueued=(), dequeued=(), entries=(), released=())

    def save(reached: Reached) -> None:
        store = MasterStore(settings.data_dir / "rocksdb")
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, reached=reached)
        store.save(replace(nothing, sequence=store.sequence + 1), payloads={}, taken=taken, unneeded=())
        store.close()

    for saved in (Reached(), Reached(3, ends[2], 1, 0), Reached(60, ends[59], 1, 0)):
        save(saved)
        master = MasterProcess(settings)
        master.server.leave()
        assert master.run() == 0
        reached = master.node.leader_tasks.log_publisher.reached
        assert (reached.offset, reached.end, reached.held) == (60, ends[59], 0), (
            "none of it is in the own log"
        )
    save(Reached(99, ends[9], 1, 9))
    for _ in range(2):
        with pytest.raises(
            TopicLost, match=r"agreed ends at offset 60, and was read up to 99\. .*dc rebuild"
        ):
            open_store(settings)
    outlet.close()


def test_topics_of_another_cluster_are_refused(settings: MasterSettings) -> None:
    """One repository name, one broker: whoever comes second changes nothing."""
    first = MasterProcess(settings)
    first.server.leave()
    assert first.run() == 0
    other = settings.model_copy(update={"node_id": "b-m1", "data_dir": settings.data_dir / "other"})
    with pytest.raises(
        SetupError, match=r"rounds at .* is in use by dc1-m1, which these settings do not name"
    ):
        open_store(other)
    assert not (other.data_dir / "rocksdb").exists()


@contextmanager
def posting(settings: MasterSettings) -> Iterator[None]:
    """Another process posts as this master."""
    begun, ended, said = threading.Event(), threading.Event(), last_post(settings)
    outlet = KafkaOutlet(settings.kafka, client="test", failed=pytest.fail, taken=begun.set)
    producer = RoundsProducer(outlet, Topics(settings.repository, settings.dc).rounds)

    def post() -> None:
        for number in count(said.sequence + 1):
            producer.publish(replace(said, sequence=number, base_sequence=None), at=0)
            if ended.wait(settings.idle_round):
                break

    poster = threading.Thread(target=post)
    poster.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        ended.set()
        poster.join()
        outlet.close()


def test_a_living_master_of_another_cluster_with_the_same_id_is_left_in_peace(
    settings: MasterSettings,
) -> None:
    """It would end as the older one of two, though it did nothing wrong."""
    first = MasterProcess(settings)
    first.server.leave()
    assert first.run() == 0
    second = settings.model_copy(update={"data_dir": settings.data_dir / "other"})
    with (
        posting(settings),
        pytest.raises(SetupError, match=r"another process posts as dc1-m1 to .*Nothing was changed"),
    ):
        open_store(second)
    assert not (second.data_dir / "rocksdb").exists()
    open_store(second).close()  # it lives no more: this one lost its disk


def test_a_new_disk_where_nobody_knows_what_was_promised_is_refused(settings: MasterSettings) -> None:
    """Retention took all of its posts."""
    first = MasterProcess(settings)
    first.server.leave()
    assert first.run() == 0
    rounds_topic = Topics(settings.repository, settings.dc).rounds
    end, _ = end_of(settings.kafka, rounds_topic, count=0)
    Admin(settings.kafka).delete_before({rounds_topic: end})
    second = settings.model_copy(update={"data_dir": settings.data_dir / "other"})
    with pytest.raises(TopicLost, match=r"rounds begins at offset .* has no post of dc1-m1"):
        open_store(second)
