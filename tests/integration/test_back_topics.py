"""What a worker that goes back reads of its own topics: what led to its state, or that it is gone."""

from __future__ import annotations

import gc
import random
import uuid
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from producers.effects import EffectsProducer
from producers.status import StatusProducer
from quadlog.broker import Admin, KafkaOutlet, KafkaTail, backwards
from quadlog.codec.envelope import ATTEMPT
from quadlog.errors import Unavailable
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings.units import MIB
from quadlog.topics import Topics
from quadlog.worker.reads.feed import Feed
from quadlog.worker.replica.evaluator_term import EvaluateRequest
from quadlog.worker.replica.host import Host, Publishers
from quadlog.worker.replica.replica import Replica
from tests.support.brokers import until
from tests.support.workers.pieces import dying
from tests.support.workers.rehearsal import TERM, TOPICS, Worker
from tests.support.workers.sides import (
    COMMON,
    EPOCH_2,
    OURS,
    THEIRS,
    Split,
    whole_of,
)
from tests.support.workers.updates import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from quadlog.ports import Record


def test_only_what_leads_to_the_state_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is full of effects that do not count: of other attempts, of other histories, copies."""
    monkeypatch.setattr("quadlog.worker.replica.rollback.BATCH", 1)
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    log = split.ours
    clean = log.records[TOPICS.effects]
    log.records[TOPICS.effects] = []
    chance = random.Random(1)
    lies = [record for record in split.theirs.records[TOPICS.effects] if record.header(ATTEMPT) == b"2"]
    for record in clean:
        for said in (*chance.sample(lies[1:], 2), record, *chance.sample(lies[1:], 2), record):
            log.produce(TOPICS.effects, key=said.key, values=[said.value], headers=said.headers)
    workers = [Worker(tmp_path, log, f"w{after}") for after in range(len(OURS) + 1)]
    for worker in workers:
        worker.catch_up()
        assert worker.store.applied.index == split.fork + len(OURS)
    split.give_way()
    for after, worker in enumerate(workers):
        assert dying(worker, after)
        again = Worker(tmp_path, log, f"w{after}")
        again.catch_up()
        assert whole_of(again) == whole_of(split.b)


def test_large_records_in_chunks_lead_back_too(tmp_path: Path) -> None:
    body = "x" * (MIB // 8)
    large = [
        "INSERT DATA { " + " ".join(f'<urn:{n}> a "{m}{body}" .' for m in range(12)) + " }" for n in "ab"
    ]
    split = Split(tmp_path, COMMON, large, THEIRS)
    assert len(split.ours.records[TOPICS.effects]) > 1 + len(COMMON) + len(large)
    split.give_way(1)
    split.a.catch_up()
    assert whole_of(split.a) == whole_of(split.b)


def test_what_the_topics_do_not_hold_any_more_is_fed_again(split: Split) -> None:
    """With a reason; nothing more is applied, said or read from until it is."""
    split.give_way()
    records = split.ours.records
    kept, state = records[TOPICS.effects], state_of(split.a)

    def without(topic: str, end: int) -> list[Record]:
        return [r for r in reversed(records[topic][:end]) if r.key != b"4" or topic != TOPICS.effects]

    split.a.replica._returning._past._backwards = without  # type: ignore[assignment]
    split.a.catch_up()
    [reason] = split.a.rebuilt
    assert reason.startswith(f"the store cannot go back: {TOPICS.effects} does not hold effect 4")
    assert state_of(split.a) == state
    assert split.a.feed.is_going_back
    assert split.a.replica.full() == {TOPICS.agreed, TOPICS.effects}
    split.a.replica.ask_to_evaluate(EvaluateRequest(TERM))
    split.a.replica._turn()
    assert records[TOPICS.effects] == kept


def test_a_broker_that_is_silent_on_the_way_ends_no_worker(split: Split) -> None:
    """It is asked again for what it has not given."""
    split.give_way()
    records, asked = split.ours.records, Counter[tuple[str, int]]()

    def two_at_a_time(topic: str, end: int) -> Iterator[Record]:
        asked[topic, end] += 1
        yield from records[topic][max(0, end - 2) : end][::-1]
        if end > 2:
            raise Unavailable(f"{topic} did not go on")

    split.a.replica._returning._past._backwards = two_at_a_time
    split.a.catch_up()
    assert not split.a.rebuilt
    assert whole_of(split.a) == whole_of(split.b)
    assert {topic for topic, _ in asked} == {TOPICS.agreed, TOPICS.effects}
    assert len(asked) > 4


def test_a_worker_goes_back_by_what_its_own_topics_hold(kafka: str, tmp_path: Path) -> None:
    """Everything through a real broker: what was evaluated, copied, cut and rewound; a real replica hears it."""
    split = Split(tmp_path, COMMON, OURS, THEIRS)
    split.give_way()
    outlet = KafkaOutlet(kafka, client="test", failed=pytest.fail)
    topics = Topics(f"test-{uuid.uuid4()}", "dc1")
    Admin(kafka).ensure(topics.all(), replication=1, config={})
    for topic in (topics.agreed, topics.effects):
        for record in split.ours.records[topic.replace(topics.repository, "main")]:
            outlet.produce(topic, key=record.key, values=[record.value], headers=record.headers)
    outlet.flush(60)
    settings = split.a.settings.model_copy(update={"kafka": kafka, "node_id": "real"})
    store = QuadStore.open(tmp_path / "real")
    replica = Replica(
        settings=settings,
        topics=topics,
        store=store,
        feed=Feed(0),
        publishers=Publishers(
            effects=EffectsProducer(outlet, topics.effects, "real", "dc1"),
            status=StatusProducer(outlet, topics.status),
        ),
        host=Host(
            failed=pytest.fail, rebuild=pytest.fail, backwards=partial(backwards, kafka), agreed_end=lambda: 0
        ),
    )
    replica.start()
    tail = KafkaTail(kafka, name="t", hear=replica.on_records, failed=pytest.fail, full=replica.full)
    tail.start(replica.offsets())
    wanted = split.b.store.applied
    until(lambda: store.applied.effects_chain == wanted.effects_chain)
    tail.close()
    replica.stop()
    assert store.applied.rewound == EPOCH_2
    assert set(store.lines()) == set(split.b.store.lines())
    assert store.recount() == (wanted.signature, wanted.quads)
    outlet.close()
    store.close()
    split.close()
    del replica, outlet
    gc.collect()  # a producer of librdkafka lives as long as anything holds it
