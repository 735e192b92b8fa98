"""A master that has too much says so before anything is logged.  A real store and app; Kafka is a list."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog import codec
from quadlog.clock import now
from quadlog.core.agreement.agreement import Agreement
from quadlog.core.cluster_settings import ClusterSettings
from quadlog.core.messages import AgreementLimits, PostingPace, Save
from quadlog.core.model import START
from quadlog.core.records import Heartbeat, WorkerState
from quadlog.errors import SetupError, StateError, Unavailable
from quadlog.master.clients.admission import Admission
from quadlog.master.clients.pending_requests import TxAnswer, Waiter
from quadlog.master.events import ClientLeftEarly, RecordsRead, TopicIdentified, TransactionOffered
from quadlog.master.http.app import make_app
from quadlog.master.node.dispatcher import SLICE
from quadlog.master.node.inbox import BATCHES
from quadlog.master.payloads.bodies import BESIDE, Bodies
from quadlog.masterstore.store import MasterStore, Taken
from quadlog.ports import Record
from quadlog.settings import MasterSettings
from quadlog.settings.units import MIB
from tests.support.masters.lone_node import lone_node
from tests.support.masters.master_stores import payload_of
from tests.support.masters.outlets import Broker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.core.model import Payload
    from quadlog.master.node.node import Node


@dataclass
class Room:
    """One node whose peer is silent, turned by hand."""

    node: Node
    broker: Broker
    told: list[TxAnswer | Exception] = field(default_factory=list)

    def offer(self, payload: Payload) -> Waiter:
        """A client gives it."""
        waiter = Waiter(body_hash=payload.body_hash, tell=self.told.append)
        self.node.put(TransactionOffered(payload, waiter))
        self.node._turn()
        return waiter

    def acknowledge(self) -> None:
        """Kafka has all."""
        self.broker.answer()
        self.node._turn()


def make_node(
    store: MasterStore,
    broker: Broker,
    admission: Admission,
    *,
    failed: Callable[[str], None] = pytest.fail,
) -> Node:
    agreement = Agreement(
        node="m1",
        incarnation=store.incarnation,
        masters={"m1": "dc1", "m2": "dc2"},
        durable=store.durable(),
        logged=store.digests,
        settings=ClusterSettings(max_peer_lag=inf),
        pace=PostingPace(window=0),
        limits=AgreementLimits(),
    )
    return lone_node(agreement, store, broker, admission, failed=failed)


def make_room(store: MasterStore, *, max_waiting: int, in_flight: int = MIB) -> Room:
    broker = Broker()
    admission = Admission(max_waiting=max_waiting, in_flight=in_flight)
    return Room(make_node(store, broker, admission), broker)


def test_above_max_waiting_nothing_is_logged(store: MasterStore) -> None:
    """Whether it waits for Kafka or for a peer; a retry of what waits is no more than that."""
    room = make_room(store, max_waiting=2)
    for number in (1, 2):
        room.offer(payload_of(number))
    assert room.told == []
    room.offer(payload_of(3))
    room.acknowledge()
    room.offer(payload_of(4))
    assert [type(told) for told in room.told] == [Unavailable, Unavailable]
    for told in room.told:
        assert isinstance(told, Unavailable)
        assert told.definite
        assert told.retry_after
        assert "max-waiting is 2" in str(told)
    room.offer(payload_of(1))
    room.acknowledge()
    assert len(room.told) == 2, "who asks again for what waits is not refused"
    assert len(room.broker.payloads) == 2
    assert len(room.node.agreement.queue) == room.node.cluster.incoming == 2
    assert len(store.durable().queue) == 2


def test_a_broker_that_is_away_does_not_fill_the_memory(store: MasterStore) -> None:
    room = make_room(store, max_waiting=100, in_flight=2500)
    for number in (1, 2, 3):
        room.offer(payload_of(number, b"x" * 1000))
    assert [type(told) for told in room.told] == [Unavailable]
    assert "Kafka of this data centre" in str(room.told[0])
    assert len(room.broker.payloads) == 2
    room.acknowledge()
    # One alone may be larger: it would never fit otherwise.
    room.offer(payload_of(4, b"x" * 5000))
    assert len(room.told) == 1
    room.offer(payload_of(5))
    assert len(room.told) == 2
    assert len(room.broker.payloads) == 3


def test_who_was_told_to_ask_again_is_forgotten(store: MasterStore) -> None:
    room = make_room(store, max_waiting=10)
    payload = payload_of(1)
    waiter = room.offer(payload)
    room.acknowledge()
    assert len(room.node.pending_requests) == 1
    room.node.put(ClientLeftEarly(payload.transaction.id, waiter))
    room.node._turn()
    assert len(room.node.pending_requests) == 0
    assert payload.transaction.id in room.node.agreement.queue


def test_tails_wait_for_the_node(store: MasterStore) -> None:
    """A node that has ended lets them go."""
    room = make_room(store, max_waiting=10)
    for _ in range(BATCHES):
        room.node.inbox.on_records([])
    assert not room.node.inbox._batches.acquire(blocking=False)
    room.node._take(RecordsRead([]))
    assert not room.node.inbox._batches.acquire(blocking=False), "not heard yet"
    room.node.dispatcher.hear_the_rest(until=now().steady)
    assert room.node.inbox._batches.acquire(blocking=False)
    room.node.inbox.end()
    started = time.monotonic()
    room.node.inbox.on_records([])
    assert 0.5 < time.monotonic() - started < 5


def test_bodies_are_kept_as_far_as_there_is_room(store: MasterStore) -> None:
    payloads = [payload_of(number, bytes([number]) * 1000) for number in range(1, 5)]
    bodies = Bodies(store, room=2 * (1000 + BESIDE))
    for payload in payloads:
        bodies.add(payload)
    assert all(payload.transaction.key in bodies for payload in payloads), "not saved yet"
    save = Save(
        counter=1,
        sequence=1,
        acquired=tuple(payload.transaction for payload in payloads),
        enqueued=(),
        dequeued=(),
        entries=(),
        released=(),
    )
    taken = Taken(positions={}, effects=(0, 0, 0), rejected={})
    store.save(save, payloads=bodies, taken=taken, unneeded=())
    bodies.saved()
    assert [payload.transaction.key in bodies for payload in payloads] == [True, True, False, False]
    assert [bodies[payload.transaction.key] for payload in payloads] == payloads
    bodies.drop(payloads[0].transaction.key)
    assert bodies[payloads[2].transaction.key] == payloads[2]
    assert payloads[2].transaction.key in bodies, "there is room again"
    with pytest.raises(KeyError):
        bodies[payload_of(9).transaction.key]


# --- open requests --------------------------------------------------------------------------------------


def settings(tmp_path: Path, **values: int) -> MasterSettings:
    return MasterSettings.model_validate(
        {
            "node-id": "m1",
            "dc": "dc1",
            "data-dir": tmp_path,
            "port": 1,
            "kafka": "-",
            "master-url": "-",
            "request-timeout": 0.5,
            **values,
        }
    )


def test_open_requests_share_a_room(store: MasterStore, tmp_path: Path) -> None:
    """64 requests of 16 KiB, body and all, fill it; when they have ended there is room again."""
    room = make_room(store, max_waiting=1000)
    room.node.worker_registry.on_heartbeat(
        Heartbeat(
            worker="w1",
            dc="dc1",
            url="-",
            state=WorkerState.SERVING,
            evaluating=False,
            attempt=0,
            applied=START,
            signature=bytes(32),
            quads=0,
            sent=0,
        ),
        now().steady,
    )
    limits = {"max-transaction-size": 1024, "max-open-requests-size": MIB + 3 * 1024}
    app = make_app(room.node, settings(tmp_path, **limits), peers={"m1": "dc1"})

    async def ask(count: int) -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://m1") as client:
            update = {"Content-Type": "application/sparql-update"}
            return await asyncio.gather(
                *(
                    client.post("/update", content=f"INSERT DATA {{ <urn:{n}> a 1 }}", headers=update)
                    for n in range(count)
                )
            )

    for _ in range(2):
        answers = asyncio.run(ask(90))
        refused = [answer for answer in answers if answer.json()["error"] == "Unavailable"]
        assert 20 < len(refused) < 35
        for answer in refused:
            assert (answer.status_code, answer.json()["definite"]) == (503, True)
            assert answer.headers["Retry-After"]
            assert "max-open-requests-size" in answer.json()["message"]
        waited = [answer for answer in answers if answer not in refused]
        assert {answer.json()["error"] for answer in waited} == {"OutcomeUnknown"}
    room.node._turn()
    assert room.broker.payloads
    assert not any(room.node.pending_requests._waiting.values()), "all were told to ask again"


def test_the_largest_update_has_to_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max-open-requests-size"):
        settings(tmp_path, **{"max-transaction-size": MIB, "max-open-requests-size": 3 * MIB})
    file = tmp_path / "master.toml"
    file.write_text('node-id = "m1"\ndc = "d"\ndata-dir = "."\nport = 1\nkafka = "k"\nmaster-url = "u"\n')
    with pytest.raises(SetupError, match="the largest update never fits"):
        MasterSettings.load(file, {"QUADLOG_MAX_TRANSACTION_SIZE": str(100 * MIB)})


def test_queries_take_room_too(store: MasterStore, tmp_path: Path) -> None:
    """A query above what is left is refused before a worker is looked for; its room is given back."""
    limits = {"max-transaction-size": 1024, "max-open-requests-size": MIB + 3 * 1024}
    room = make_room(store, max_waiting=1000)
    app = make_app(room.node, settings(tmp_path, **limits), peers={"m1": "dc1"})

    async def ask(size: int) -> httpx.Response:
        query = {"Content-Type": "application/sparql-query"}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://m1") as client:
            return await client.post("/sparql", content="#" * size, headers=query)

    for size, reason in ((2 * MIB, "max-open-requests-size"), (1000, "no worker"), (900_000, "no worker")):
        answer = asyncio.run(ask(size))
        assert answer.status_code == 503
        assert reason in answer.json()["message"]


def test_posts_do_not_wait_for_what_came_before_them(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others wait for this master's posts: a turn ends, however much of effects and payloads there is to hear."""
    monkeypatch.setattr("quadlog.master.node.node.LATER_MS", 0.0)
    node = make_node(store, Broker(), Admission(max_waiting=10), failed=lambda _: None)
    strange = b"of another program"
    effects = [Record("effects", number, b"k", strange, []) for number in range(2 * SLICE + 1)]
    node.inbox.on_records([*effects, Record("m2.rounds", 7, b"k", strange, [])])
    heard: list[tuple[int, int]] = []
    for _ in range(4):
        node._turn()
        heard.append((node.dispatcher.unreadable["m2.rounds"], node.dispatcher.unreadable["effects"]))
    assert heard == [(1, SLICE), (1, 2 * SLICE), (1, 2 * SLICE + 1), (1, 2 * SLICE + 1)]
    assert node.inbox._batches.acquire(blocking=False)


def test_what_was_read_of_a_topic_is_heard_before_another_one_takes_its_place(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets mean nothing in the new one, and would be taken for how far that was heard."""
    monkeypatch.setattr("quadlog.master.node.node.LATER_MS", 0.0)
    node = make_node(store, Broker(), Admission(max_waiting=10), failed=lambda _: None)
    heard: list[int] = []
    recognise = node._topic_identity.recognise

    def recognised(seen: TopicIdentified) -> None:
        heard.append(node.dispatcher.unreadable["effects"])
        recognise(seen)

    monkeypatch.setattr(node._topic_identity, "recognise", recognised)
    node.inbox.on_records([Record("effects", at, b"k", b"of another program", []) for at in range(3 * SLICE)])
    node.put(TopicIdentified("m2.payloads", "another", is_other=False))
    node._turn()
    assert heard == [3 * SLICE]


def test_only_what_is_none_of_ours_is_passed_over(
    store: MasterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What contradicts the own store ends the process: told as a foreign record, it would never be looked for."""
    failures: list[str] = []
    node = make_node(store, Broker(), Admission(max_waiting=10), failed=failures.append)
    strange = Record("m2.rounds", 7, b"k", b"of another program", [])
    node.inbox.on_records([strange])
    node._turn()
    assert dict(node.dispatcher.unreadable) == {"m2.rounds": 1}

    def refuse(*_: object) -> None:
        raise StateError("entry 3 is to give way, and its payload is not kept here any more")

    monkeypatch.setattr(node.agreement, "step", refuse)
    own = node.agreement.members["m1"].said
    assert own is not None
    said = replace(own, node="m2")
    node.inbox.on_records([Record("m2.rounds", 8, b"m2", codec.encode(said), [])])
    node._run()
    assert failures == ["entry 3 is to give way, and its payload is not kept here any more"]
    assert node.dispatcher.unreadable.total() == 1
