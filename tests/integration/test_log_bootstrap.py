"""A master without a disk behind a shortened log: real stores, a real broker, and other masters' doors over HTTP."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from producers.agreed import AgreedProducer
from producers.checkpoint import CheckpointProducer
from quadlog.broker import Admin, KafkaOutlet
from quadlog.core.model import GENESIS, LogPosition, Pair, body_hash
from quadlog.core.records import Checkpoint, Cut, EffectsPlace, Handover, LoggedEntry, Reached, Seed
from quadlog.errors import QuadlogError, SetupError
from quadlog.kafka.ports import free_ports
from quadlog.master.recovery import log_bootstrap, log_door
from quadlog.master.recovery.log_bootstrap import LogBootstrap, newest_checkpoint
from quadlog.master.recovery.log_door import LogDoor
from quadlog.master.recovery.startup_checks import prepare_topics
from quadlog.masterstore.rows import Row, pack_row
from quadlog.masterstore.staged_log import payload_of
from quadlog.settings import MasterSettings, PeerSettings
from quadlog.topics import Topics
from quadlog.web.answers import handle_error
from quadlog.web.server import Server
from tests.support.agreement.topics import cut_behind, entries
from tests.support.clusters.cluster import until
from tests.support.masters.master_stores import opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from starlette.requests import Request

    from quadlog.masterstore.store import MasterStore

COUNT, LAST = 30, 20
"""Entries, and of the last one that the checkpoint stands behind."""
REASONS = {4: "it breaks a rule", 19: "so does this"}


def row_of(entry: LoggedEntry) -> Row:
    pair = Pair(entry.timestamp, entry.id, entry.digest)
    hash_ = body_hash(entry.body, entry.options)
    return Row(LogPosition(entry.index, entry.chain), pair, hash_, REASONS.get(entry.index))


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """At a port of its own."""
    [port] = free_ports(1)
    config = uvicorn.Config(app, port=port, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, 10)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def app_of(answer: Any) -> Starlette:  # noqa: ANN401 - any endpoint
    return Starlette(
        routes=[Route("/cluster/log", answer, methods=["GET"])],
        exception_handlers={QuadlogError: handle_error},
    )


class Scene:
    """Data centre dc1 whose topics were shortened, and a master there without a disk."""

    def __init__(self, directory: Path, kafka: str) -> None:
        self.directory, self.kafka = directory, kafka
        self.topics = Topics(f"r{uuid.uuid4().hex[:12]}", "dc1")
        [self.port] = free_ports(1)
        self.log = entries(COUNT)
        prepare_topics(self.settings())
        self.outlet = KafkaOutlet(kafka, client="test", failed=pytest.fail)
        ids = Admin(kafka).ids(self.topics.followed)
        at = self.log[LAST - 5]
        self.checkpoint = Checkpoint(
            last=LogPosition(LAST, self.log[LAST - 1].chain),
            reached=Reached(at.index, LogPosition(at.index, at.chain), 1, at.index),
            effects=EffectsPlace(0, LAST - 7, 3, 2),
            duty=(Handover(index=0, term=GENESIS, dc="dc1"), Handover(index=7, term=b"7" * 32, dc="dc2")),
            seed=Seed(signature=bytes(32), quads=1, digest=bytes(32), at=2, by="m1", sources=("a.nt",)),
            agreed_id=ids[self.topics.agreed],
            effects_id=ids[self.topics.effects],
        )

    def settings(self, *urls: str) -> MasterSettings:
        peers = {
            str(n): PeerSettings(id=f"dc{n}-m1", dc=f"dc{n}", url=url, kafka=self.kafka)
            for n, url in enumerate(urls, 2)
        }
        return MasterSettings(
            node_id="dc1-m1",
            dc="dc1",
            repository=self.topics.repository,
            data_dir=self.directory,
            port=self.port,
            kafka=self.kafka,
            master_url=f"http://127.0.0.1:{self.port}",
            peer=peers,
        )

    def say(self, *said: Checkpoint, writer: str = "dc1-m1") -> None:
        producer = CheckpointProducer(self.outlet, self.topics.checkpoint, writer)
        for one in said:
            producer.publish(one, lambda _: None, at=0)
        self.outlet.flush()

    def produce(self, said: Sequence[LoggedEntry | Cut]) -> None:
        producer = AgreedProducer(self.outlet, self.topics.agreed, "dc1-m1")
        for one in said:
            if isinstance(one, Cut):
                producer.publish_cut(one, lambda _: None, at=0)
            else:
                producer.publish(one, lambda _: None)
        self.outlet.flush()

    def bring(self, *urls: str) -> None:
        """As its process does at its start."""
        with opened(self.directory / "own") as store:
            self.bring_to(store, *urls)

    def bring_to(self, store: MasterStore, *urls: str) -> None:
        server = Server("127.0.0.1", self.port)
        try:
            LogBootstrap(self.settings(*urls), store, self.topics, server).bring_log()
        finally:
            server._socket.close()

    def check(self, log: Sequence[LoggedEntry], *, tail: int = LAST) -> None:
        """The store is as that of a master that was there all the time; of what may be cut it has the payloads."""
        with opened(self.directory / "own") as store:
            assert not store.is_new
            assert list(store.rows(0, len(log))) == [
                row_of(entry) if entry.index <= LAST else row_of(entry)._replace(reason=None) for entry in log
            ]
            assert store.last == LogPosition(len(log), log[-1].chain)
            assert all(store.logged(entry.id) == (entry.index, row_of(entry).body_hash) for entry in log)
            assert {p.transaction.id for p in store.payloads()} == {entry.id for entry in log[tail:]}
            found = {payload.transaction.id: payload for payload in store.payloads()}
            assert all(found[entry.id] == payload_of(entry) for entry in log[tail:])
            assert store.reached() == self.checkpoint.reached
            assert store.effects() == (LAST - 7, 3, 2)
            assert store.position(self.topics.effects) == 0
            assert (store.duty(), store.seed()) == (self.checkpoint.duty, self.checkpoint.seed)
            assert store.topic_id(self.topics.agreed) == self.checkpoint.agreed_id
            assert store.topic_id(self.topics.effects) == self.checkpoint.effects_id
            assert store.durable().last == store.last

    @contextmanager
    def master(self, log: Sequence[LoggedEntry], name: str = "other") -> Iterator[str]:
        """Another one, that has this log."""
        with opened(self.directory / name) as store:
            store.bootstrap_log.append(map(row_of, log))
            with served(app_of(LogDoor(store).answer)) as url:
                yield url


@pytest.fixture
def scene(tmp_path: Path, kafka: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(log_bootstrap, "AGAIN_S", 0.1)
    monkeypatch.setattr(log_bootstrap, "BATCH", 3)
    monkeypatch.setattr(log_door, "PAGE", 7)
    found = Scene(tmp_path, kafka)
    yield found
    found.outlet.close()


def test_it_knows_all_that_the_others_know_and_its_own_topic_has(scene: Scene) -> None:
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    with scene.master(scene.log) as url:
        scene.bring(url)
    scene.check(scene.log)


def test_where_nothing_went_nothing_is_brought(scene: Scene) -> None:
    scene.produce(scene.log)
    with opened(scene.directory / "own") as store:
        scene.bring_to(store)
        assert store.is_new
        assert store.last.index == 0


def test_who_has_its_disk_asks_nobody(scene: Scene) -> None:
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    with scene.master(scene.log) as url:
        scene.bring(url)
    scene.bring("http://127.0.0.1:1")
    scene.check(scene.log)


@pytest.mark.parametrize("fork", [LAST, LAST + 4, COUNT])
def test_what_was_cut_in_the_own_topic_is_not_of_the_log(scene: Scene, fork: int) -> None:
    """Also where it is the first entry behind what others tell."""
    other = entries(COUNT + 3, branch=b"other", behind=scene.log[fork - 1], epoch=2)
    scene.produce([*scene.log, cut_behind(scene.log[fork - 1], 2), *other])
    scene.say(scene.checkpoint)
    with scene.master(scene.log[:LAST]) as url:
        scene.bring(url)
    scene.check([*scene.log[:fork], *other])


def test_a_cut_before_the_checkpoint_takes_nothing_of_what_is_settled(scene: Scene) -> None:
    """A master that lagged cut too far back, and the rest is said again."""
    cut = cut_behind(scene.log[LAST - 3], 2)
    again = [replace(entry, epoch=2) for entry in scene.log[LAST - 2 :]]
    scene.produce([*scene.log[: LAST + 3], cut, *again])
    scene.say(scene.checkpoint)
    with scene.master(scene.log) as url:
        scene.bring(url)
    scene.check(scene.log)


def test_whoever_has_it_is_asked_and_it_waits_until_somebody_has(scene: Scene) -> None:
    """The first one is on another log, the second one is not there, the third has not so many yet."""
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    other = entries(COUNT, branch=b"other")
    with opened(scene.directory / "third") as store, served(app_of(LogDoor(store).answer)) as third:
        store.bootstrap_log.append(map(row_of, scene.log[:11]))
        with scene.master(other) as first:
            thread = threading.Thread(target=scene.bring, args=(first, "http://127.0.0.1:1", third))
            thread.start()
            until(lambda: refused(scene.port, "waits for a master that has entry 20"), 20)
            assert httpx.get(f"http://127.0.0.1:{scene.port}/healthz/alive").status_code == 200
            assert httpx.get(f"http://127.0.0.1:{scene.port}/healthz/ready").status_code == 503
            store.bootstrap_log.append(map(row_of, scene.log[11:]))
            thread.join(20)
    scene.check(scene.log)


def others(log: Sequence[LoggedEntry]) -> list[LoggedEntry]:
    """The same with other ids."""
    return [replace(entry, id=bytes(8) + b"other" + entry.id[13:]) for entry in log]


def refused(port: int, why: str) -> bool:
    """A client's write is, and nothing of it was logged."""
    try:
        answer = httpx.post(f"http://127.0.0.1:{port}/update", content=b"", timeout=5)
    except httpx.TransportError:
        return False
    assert (answer.status_code, answer.json()["definite"]) == (503, True)
    return why in answer.text


def test_another_one_goes_on_where_one_was_lost(scene: Scene) -> None:
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    asked: list[int] = []
    with opened(scene.directory / "frail") as store:
        store.bootstrap_log.append(map(row_of, scene.log))
        door = LogDoor(store)

        async def answer(request: Request) -> Response:
            asked.append(int(request.query_params["after"]))
            return await door.answer(request) if len(asked) < 3 else Response("it burns", status_code=500)

        with served(app_of(answer)) as frail, scene.master(scene.log[:LAST]) as url:
            scene.bring(frail, url)
    assert asked == [0, 7, 14]
    scene.check(scene.log)


@pytest.mark.parametrize("taken", [5, LAST, LAST + 6])
def test_who_died_with_it_half_taken_goes_on(scene: Scene, taken: int) -> None:
    """What it had behind the checkpoint is read again: its topic may have been cut since."""
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    other = others(entries(COUNT, branch=b"other", behind=scene.log[LAST - 1]))
    with opened(scene.directory / "own") as store:
        half = [*scene.log[:LAST], *other][:taken]
        store.bootstrap_log.append(map(row_of, half), [payload_of(entry) for entry in half[LAST:]])
    with scene.master(scene.log) as url:
        scene.bring(url if taken < LAST else "http://127.0.0.1:1")
    with opened(scene.directory / "own") as store:
        assert not any(store.logged(entry.id) for entry in other)
    scene.check(scene.log)


@pytest.mark.parametrize("how", ["another chain", "too many", "none", "half a row", "a gap"])
def test_what_one_says_wrong_is_not_taken(scene: Scene, how: str) -> None:
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    wrong = {
        "another chain": [row_of(entry) for entry in entries(LAST, branch=b"other")],
        "too many": [row_of(entry) for entry in scene.log[: LAST + 1]],
        "none": [],
        "half a row": [row_of(entry) for entry in scene.log[:LAST]],
        "a gap": [row_of(entry) for entry in scene.log[1:LAST]],
    }[how]
    body = b"".join(map(pack_row, wrong))[: -1 if how == "half a row" else None]

    async def answer(_: Request) -> Response:
        return Response(body)

    with served(app_of(answer)) as liar, scene.master(scene.log) as url:
        scene.bring(liar, url)
    scene.check(scene.log)


def test_the_checkpoint_that_goes_furthest_counts(scene: Scene) -> None:
    """Of these topics: what was said of others that had their names means nothing."""
    older = replace(scene.checkpoint, last=LogPosition(LAST - 1, b"1" * 32))
    elsewhere = replace(scene.checkpoint, last=LogPosition(LAST + 1, b"2" * 32), agreed_id="of before")
    scene.say(scene.checkpoint, elsewhere)
    scene.say(older, writer="dc1-m2")
    scene.outlet.produce(scene.topics.checkpoint, key=b"x", values=[b"of another program"], headers=[])
    scene.outlet.flush()
    assert newest_checkpoint(scene.kafka, scene.topics) == scene.checkpoint


def test_what_nobody_has_said_is_an_error_that_says_what_to_do(scene: Scene) -> None:
    scene.produce(scene.log)
    scene.say(scene.checkpoint)
    assert newest_checkpoint(scene.kafka, scene.topics) is not None
    Admin(scene.kafka).delete_before({scene.topics.agreed: scene.checkpoint.reached.offset})
    assert newest_checkpoint(scene.kafka, scene.topics) is not None
    Admin(scene.kafka).delete_before({scene.topics.agreed: scene.checkpoint.reached.offset + 1})
    with pytest.raises(
        SetupError,
        match=r"begins at offset 17, .*offset 16 .*, no checkpoint .* Put its disk back",
    ):
        scene.bring("http://127.0.0.1:1")


def test_alone_it_cannot_begin(scene: Scene) -> None:
    scene.say(scene.checkpoint)
    with pytest.raises(SetupError, match=r"up to 20 are known to masters alone. Name the others"):
        scene.bring()


def test_the_door_says_what_it_has(scene: Scene) -> None:
    chain = scene.log[-1].chain.hex()
    with opened(scene.directory / "own") as store, served(app_of(LogDoor(store).answer)) as url:
        store.bootstrap_log.append(map(row_of, scene.log))

        def ask(**params: str | int) -> httpx.Response:
            return httpx.get(f"{url}/cluster/log", params=params)

        answer = ask(after=3, until=COUNT, chain=chain)
        assert answer.content == b"".join(pack_row(row_of(entry)) for entry in scene.log[3:10])
        assert ask(after=COUNT, until=COUNT, chain=chain).content == b""
        assert {
            ask(after=1).status_code,
            ask(after="x", until=2, chain=chain).status_code,
            ask(after=1, until=2).status_code,
        } == {400}
        for other in (COUNT - 1, COUNT + 1):
            refusal = ask(after=0, until=other, chain=chain)
            assert (refusal.status_code, f"no entry {other}" in refusal.text) == (503, True)
