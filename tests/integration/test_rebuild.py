"""`quadlog dc rebuild` on one broker, which is the Kafka of two data centres: what it refuses, and what it leaves."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from consumers import rounds
from consumers.agreed import AgreedConsumer
from producers.agreed import AgreedProducer
from quadlog.clock import wall
from quadlog.codec.envelope import MIRRORED_FROM
from quadlog.core.model import START
from quadlog.core.records import LoggedEntry, WorkerState
from quadlog.errors import SetupError, TopicLost
from quadlog.kafka.ports import free_ports
from quadlog.master.recovery.rebuild import TopicsRebuild
from quadlog.master.recovery.startup_checks import STORE, open_store, prepare_topics
from quadlog.masterstore.store import MasterStore
from tests.support.brokers import never
from tests.support.labs import quadlog

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.ports import Record
    from tests.support.masters.centre import Centre


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
    heard = [consumer.on_record(record) for record in centre.records(centre.own.agreed)]
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


def test_lost_again_before_anybody_started_it_is_rebuilt_again(centre: Centre) -> None:
    """What the first rebuild said is no reason to leave it so."""
    centre.has_run()
    centre.lose()
    centre.rebuild()
    centre.lose(centre.own.agreed)
    centre.rebuild()
    assert len(centre.records(centre.own.agreed)) == len(centre.agreed)


def test_a_rebuild_that_was_broken_off_is_run_again(centre: Centre) -> None:
    """Nobody starts in between, with a disk or without one."""
    centre.has_run()
    centre.lose()
    prepare_topics(centre.settings)
    AgreedProducer(centre.outlet, centre.own.agreed, "dc1-m1").publish(centre.log[0], lambda _: None)
    centre.outlet.flush(60)
    with pytest.raises(TopicLost, match="is another topic"):
        open_store(centre.settings)
    mate = centre.settings_of("dc1-m2")
    for is_left in (False, True):
        assert (mate.data_dir / STORE).exists() is is_left
        with pytest.raises(TopicLost, match="has a log, and no master has ever posted"):
            open_store(mate)
        with pytest.raises(SetupError, match="Say --yes"):
            TopicsRebuild(mate.model_copy(update={"peer": centre.settings.peer}), never).run(is_meant=False)
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
    posts.flush(60)
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
