"""`quadlog dc rebuild` on one broker, which is the Kafka of two data centres: what it refuses, and what it leaves."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
import uuid
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from consumers import rounds
from consumers.agreed import AgreedConsumer
from producers.agreed import AgreedProducer
from producers.status import StatusProducer
from quadlog.anchors import Anchor
from quadlog.broker import Admin, Hole, KafkaOutlet, end_of
from quadlog.clock import wall
from quadlog.core.messages import Save
from quadlog.core.model import GENESIS, START
from quadlog.core.records import Heartbeat, LoggedEntry, Reached, WorkerState
from quadlog.envelope import MIRRORED_FROM
from quadlog.errors import QuadlogError, SetupError, TopicLost
from quadlog.kafka.ports import free_ports
from quadlog.master import rebuild
from quadlog.master.own import STORE, open_store, prepare_topics
from quadlog.master.rebuild import Rebuild
from quadlog.settings import MasterSettings, Peer, WorkerSettings
from quadlog.store import MasterStore, Taken
from quadlog.topics import Topics
from quadlog.worker.fed import Fed
from tests.support.agreement.topics import Topic, cut_behind, effect, effects_topic, fence, forked, topic_of
from tests.support.brokers import never
from tests.support.labs import quadlog

if TYPE_CHECKING:
    from collections.abc import Iterator
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
        self.outlet.flush()

    @property
    def settings(self) -> MasterSettings:
        return MasterSettings(**self.values, peer={str(n): Peer(**peer) for n, peer in enumerate(self.peers)})  # type: ignore[arg-type]

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
        Rebuild(self.settings, said.append).run(is_meant=is_meant)
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
        StatusProducer(self.outlet, self.own.status).say(
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
        self.outlet.flush()


@pytest.fixture
def centre(tmp_path: Path, kafka: str) -> Iterator[Centre]:
    """One."""
    centre = Centre(tmp_path, kafka)
    yield centre
    centre.outlet.close()


def told(record: Record) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    """What a copy has in common with its original."""
    return record.key, record.value, list(record.headers)


@pytest.mark.parametrize("keeps_disk", [True, False])
def test_what_a_peer_has_is_there_again_and_masters_begin_anew(centre: Centre, keeps_disk: bool) -> None:  # noqa: FBT001
    """Agreed with its cut, effects as copies; each master comes back blank, as a later incarnation, once."""
    mate = centre.settings_of("dc1-m2")
    first, mates = centre.has_run(), centre.has_run(mate)
    centre.lose()
    for settings in (centre.settings, mate):
        with pytest.raises(TopicLost, match=r"agreed is gone.*quadlog dc rebuild"):
            open_store(settings)
    if not keeps_disk:
        (centre.settings.data_dir / STORE).rename(centre.directory / "away")
    said = centre.rebuild()
    assert said[0] == "restoring dc1 from dc2, whose log goes up to entry 6"
    assert [told(record) for record in centre.records(centre.own.agreed)] == [told(r) for r in centre.agreed]
    consumer = AgreedConsumer(START)
    heard = [consumer.hear(record) for record in centre.records(centre.own.agreed)]
    assert [one for one in heard if isinstance(one, LoggedEntry)][-3:] == centre.log[3:]
    copies = centre.records(centre.own.effects)
    assert [(c.key, c.value) for c in copies] == [(r.key, r.value) for r in centre.effects]
    assert {copy.header(MIRRORED_FROM) for copy in copies} == {b"dc2"}
    posts = [rounds.hear(record) for record in centre.records(centre.own.rounds)]
    assert [(post.node, post.view.members) for post in posts] == [("dc1-m1", ()), ("dc1-m2", ())]
    assert centre.records(centre.own.payloads) == []
    assert re.match("SetupError, nothing is changed: .*or they were rebuilt already", centre.refusal())
    for settings, before in ((centre.settings, first), (mate, mates)):
        store = open_store(settings)
        assert store.durable().blank
        assert store.incarnation > max(p.incarnation for p in posts if p.node == settings.node_id) > before
        store.close()
        again = open_store(settings)
        assert again.incarnation == store.incarnation
        again.close()
    assert re.match("SetupError, nothing is changed: .*or they were rebuilt already", centre.refusal())


def test_what_an_earlier_version_saved_is_void_too(centre: Centre) -> None:
    """It did not note which topics it read."""
    store = open_store(centre.settings)
    store.close()
    centre.rebuild()
    store = open_store(centre.settings)
    assert store.durable().blank
    store.close()


def test_a_lost_end_is_a_loss_too(centre: Centre) -> None:
    """Payloads stay; what clients gave and nobody ordered is in them."""
    centre.has_run()
    centre.outlet.produce(centre.own.payloads, key=b"k", values=[b"v"], headers=[])
    store = MasterStore(centre.settings.data_dir / STORE)
    positions = {centre.own.payloads: 1, centre.own.effects: 7}
    taken = Taken(positions=positions, effects=(0, 0, 0), rejected={})
    store.save(NOTHING, payloads={}, taken=taken, unneeded=())
    store.close()
    centre.outlet.flush()
    assert re.match(
        "SetupError, nothing is changed: .*effects ends at offset 0, and was read up to 7.*Say --yes",
        centre.refusal(is_meant=False),
    )
    centre.rebuild()
    assert [record.value for record in centre.records(centre.own.payloads)] == [b"v"]
    assert len(centre.records(centre.own.effects)) == len(centre.effects)


def test_a_front_that_was_deleted_is_a_loss_that_a_peer_mends(centre: Centre) -> None:
    """A worker without a store cannot be fed by what is left; and a master that needs it does not start."""
    centre.has_run()
    centre.rebuild_from_scratch()

    def save(reached: int) -> None:
        store = MasterStore(centre.settings.data_dir / STORE)
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, reached=Reached(reached, START, 1, 0))
        store.save(NOTHING, payloads={}, taken=taken, unneeded=())
        store.close()

    save(7)
    centre.admin.delete_before({centre.own.agreed: 2})
    assert re.match(
        "SetupError, nothing is changed: .*agreed begins at offset 2: its oldest records were deleted.*Say --yes",
        centre.refusal(is_meant=False),
    )
    store = MasterStore(centre.settings.data_dir / STORE)
    taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, reached=Reached(1, START, 1, 0))
    store.save(NOTHING, payloads={}, taken=taken, unneeded=())
    store.close()
    with pytest.raises(
        TopicLost, match=r"agreed begins at offset 2, and this master needs it from offset 1 on"
    ):
        open_store(centre.settings)
    centre.rebuild()
    assert len(centre.records(centre.own.agreed)) == len(centre.agreed)
    assert centre.admin.beginnings([centre.own.agreed]) == {centre.own.agreed: 0}


@pytest.mark.parametrize("where", ["here", "at the peer"])
def test_a_hole_in_a_log_is_seen(centre: Centre, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Here it is a loss; of the peer's no copy is taken."""
    centre.has_run()
    centre.rebuild_from_scratch()
    holed = (centre.own if where == "here" else centre.theirs).effects

    def hole_in(_: str, topic: str) -> Hole | None:
        return Hole(topic=topic, first=3, end=5) if topic == holed else None

    monkeypatch.setattr(rebuild, "first_hole", hole_in)
    if where == "here":
        assert re.match(
            "SetupError, nothing is changed: .*effects has no records at offsets 3 to 4.*Say --yes",
            centre.refusal(is_meant=False),
        )
    else:
        centre.lose(centre.own.agreed)
        assert re.match(
            "Unavailable, nothing is changed: .*dc2 cannot be copied, .*no records at offsets 3 to 4",
            centre.refusal(),
        )


def test_lost_again_before_anybody_started_it_is_rebuilt_again(centre: Centre) -> None:
    """What the first rebuild said is no reason to leave it so."""
    centre.has_run()
    centre.lose()
    centre.rebuild()
    centre.lose(centre.own.agreed)
    centre.rebuild()
    assert len(centre.records(centre.own.agreed)) == len(centre.agreed)


def test_topics_that_another_program_made_anew_are_not_the_old_ones(centre: Centre) -> None:
    """A master does not go on in them, whatever they hold."""
    centre.has_run()
    centre.lose(centre.own.payloads)
    prepare_topics(centre.settings)
    with pytest.raises(TopicLost, match="payloads is another topic"):
        open_store(centre.settings)
    assert re.match(
        "SetupError, nothing is changed: .*payloads is another topic.*Say --yes",
        centre.refusal(is_meant=False),
    )


def test_a_rebuild_that_was_broken_off_is_run_again(centre: Centre) -> None:
    """Nobody starts in between, with a disk or without one."""
    centre.has_run()
    centre.lose()
    prepare_topics(centre.settings)
    AgreedProducer(centre.outlet, centre.own.agreed, "dc1-m1").say(centre.log[0], lambda _: None)
    centre.outlet.flush()
    with pytest.raises(TopicLost, match="is another topic"):
        open_store(centre.settings)
    mate = centre.settings_of("dc1-m2")
    for is_left in (False, True):
        assert (mate.data_dir / STORE).exists() is is_left
        with pytest.raises(TopicLost, match="has a log, and no master has ever posted"):
            open_store(mate)
        with pytest.raises(SetupError, match="Say --yes"):
            Rebuild(mate.model_copy(update={"peer": centre.settings.peer}), never).run(is_meant=False)
    centre.rebuild()
    store = open_store(mate)
    assert store.durable().blank, "what such a start has left is nothing to go on from"
    store.close()
    assert len(centre.records(centre.own.agreed)) == len(centre.agreed)


def test_nothing_is_done_where_nothing_is_lost(centre: Centre) -> None:
    """Effects that no peer has would be gone."""
    centre.has_run()
    posts = centre.outlet
    posts.produce(centre.own.rounds, key=b"k", values=[b"any"], headers=[])
    posts.flush()
    assert re.match("SetupError, nothing is changed: .*nothing of dc1's topics is lost", centre.refusal())


def test_nothing_is_done_while_somebody_runs(centre: Centre) -> None:
    """A master that answers, another one here, one that does not answer yet, a worker that was heard just now."""
    centre.has_run()
    centre.lose(*centre.own.followed)
    store = MasterStore(centre.settings.data_dir / STORE)
    assert re.match(
        "SetupError, nothing is changed: .*cannot be opened.*Is another master running", centre.refusal()
    )
    store.close()
    for node, url in (("dc1-m1", centre.values["master-url"]), ("dc1-m2", centre.peers[0]["url"])):
        with socket.create_server(("127.0.0.1", int(str(url).rsplit(":")[-1]))):
            assert re.match(
                rf"SetupError, nothing is changed: .*master {node} is there.*stop all", centre.refusal()
            )
    just_now = wall() + 60_000  # also when a busy core is late
    centre.beat(WorkerState.SERVING, just_now)
    assert re.match("SetupError, nothing is changed: .*worker dc1-w1 .*stop all", centre.refusal())
    centre.beat(WorkerState.STOPPING, wall())
    assert centre.rebuild()[0].startswith("restoring dc1 from dc2")


def test_a_worker_that_was_killed_counts_as_stopped_after_a_while(centre: Centre) -> None:
    """It could not say so."""
    centre.has_run()
    centre.lose(*centre.own.followed)
    centre.beat(WorkerState.SERVING, wall() - 6000)
    assert centre.rebuild()[0].startswith("restoring dc1 from dc2")


def test_without_a_peer_nothing_is_done(centre: Centre) -> None:
    """None in the settings, none in reach, none with topics, none that has all."""
    centre.has_run()
    centre.lose()
    _, peer = centre.peers
    centre.peers[1:] = []
    assert re.match("SetupError, nothing is changed: .*dc1 is the only data centre", centre.refusal())
    [port] = free_ports(1)
    centre.peers[1:] = [{**peer, "kafka": f"127.0.0.1:{port}"}]
    assert re.match(
        "Unavailable, nothing is changed: .*no other data centre can be restored from.*no Kafka broker answers",
        centre.refusal(),
    )
    centre.peers[1:] = [{**peer, "dc": "dc9"}]
    assert re.match("Unavailable, nothing is changed: .*dc9 has no topic", centre.refusal())


def test_the_command_says_what_is_wrong(centre: Centre, tmp_path: Path) -> None:
    """One line, exit status 1."""
    done = quadlog("dc", "rebuild", "--config", str(tmp_path / "none.toml"))
    assert (done.returncode, "'--config'" in done.stderr) == (2, True)
    config = tmp_path / "master.toml"
    config.write_text('node-id = "dc1-m1"\n')
    done = quadlog("dc", "rebuild", "--config", str(config), "--yes")
    assert (done.returncode, done.stderr.startswith("SetupError: settings in")) == (1, True)
    lines = [f"{name} = {value!r}" for name, value in centre.values.items()]
    lines += [f"peer.{n}.{name} = {value!r}" for n, p in enumerate(centre.peers) for name, value in p.items()]
    config.write_text("\n".join(lines))
    done = quadlog("dc", "rebuild", "--config", str(config))
    assert (done.returncode, "Say --yes if that is meant; nothing was changed" in done.stderr) == (1, True)
    assert centre.admin.ids(centre.own.all()) == {}


class Leaving:
    """What a worker's process is asked."""

    left = 0

    def leave(self) -> None:
        self.left += 1


def test_a_worker_takes_only_topics_of_a_rebuild_for_its_own(centre: Centre, tmp_path: Path) -> None:
    """In others its store may be all that is left; in those it is fed again."""
    settings = WorkerSettings(
        node_id="w1", dc="dc1", data_dir=tmp_path, port=1, kafka=centre.kafka, worker_url="http://w1"
    )
    (tmp_path / "quads").mkdir()
    centre.has_run()
    host, topic = Leaving(), centre.own.effects
    first = centre.admin.ids([topic])[topic]
    fed = Fed(settings, centre.own, host.leave)
    assert fed.known == {centre.own.agreed: None, topic: None}
    fed.recognise(topic, first, is_other=False)
    fed = Fed(settings, centre.own, host.leave)
    assert fed.known == {centre.own.agreed: None, topic: first}, "also after a restart"
    with pytest.raises(TopicLost, match="effects is gone"):
        fed.recognise(topic, None, is_other=True)
    centre.lose()
    prepare_topics(centre.settings)
    with pytest.raises(TopicLost, match="effects is another topic"):
        fed.recognise(topic, "other", is_other=True)
    assert (host.left, fed.wanted) == (0, False)
    centre.rebuild()
    fed.recognise(topic, centre.admin.ids([topic])[topic], is_other=True)
    assert (host.left, fed.wanted) == (1, True)
    fed.put_aside()
    assert not (tmp_path / "quads").exists()
    assert Fed(settings, centre.own, host.leave).known == {centre.own.agreed: None, topic: None}


def test_what_went_back_is_lost_also_where_it_has_grown(centre: Centre) -> None:
    """The last record that was read shows it, by another one in its place, or by none."""
    centre.has_run()
    posts = centre.own.rounds
    for number in range(5):
        centre.outlet.produce(posts, key=b"k", values=[b"%d" % number], headers=[])
    centre.outlet.flush()
    [third] = centre.records(posts)[2:3]
    for anchor, why in (
        (Anchor.of(third), ""),
        (replace(Anchor.of(third), digest=bytes(8)), "has another record at 2 than the one that was read"),
        (replace(Anchor.of(third), offset=8), "was read up to offset 9, and ends at 5"),
    ):
        store = MasterStore(centre.settings.data_dir / STORE)
        taken = Taken(positions={}, effects=(0, 0, 0), rejected={}, anchors={posts: anchor})
        store.save(NOTHING, payloads={}, taken=taken, unneeded=())
        store.close()
        if why:
            with pytest.raises(TopicLost, match=rf"rounds went back: .*{why}.*quadlog dc rebuild"):
                open_store(centre.settings)
            assert re.match(
                rf"SetupError, nothing is changed: .*{why}.*Say --yes", centre.refusal(is_meant=False)
            )
        else:
            open_store(centre.settings).close()
    said = centre.rebuild()
    assert any(re.match(r".*payloads: kept as it is, 0 records", line) for line in said)
    store = open_store(centre.settings)
    assert store.durable().blank
    store.close()


def test_a_master_without_knowledge_of_the_loss_asks_its_peers(centre: Centre) -> None:
    """An older disk knows of nothing; the alarm of a peer tells the command what is lost."""
    centre.has_run()
    centre.outlet.produce(centre.own.rounds, key=b"k", values=[b"any"], headers=[])
    centre.outlet.flush()
    reason = f"{centre.own.rounds} went back: it was read up to offset 9, and ends at 1"
    alarms = [{"name": "peer-topic-went-back", "reason": reason}]
    with answering(centre.peers[1]["url"], {"alarms": alarms}):
        assert re.match(
            r"SetupError, nothing is changed: dc2-m1 says: .*went back.*Say --yes",
            centre.refusal(is_meant=False),
        )
    with answering(centre.peers[1]["url"], ["not a status"]):
        assert re.match("SetupError, nothing is changed: .*nothing of dc1's topics is lost", centre.refusal())


@contextmanager
def answering(url: object, said: object) -> Iterator[None]:
    """A peer whose doors all say the same."""

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", int(str(url).rsplit(":", 1)[-1])), Door)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
