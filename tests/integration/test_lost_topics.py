"""Which topics of a data centre count as lost, to its masters, its workers and `quadlog dc rebuild`."""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from quadlog.anchors import Anchor
from quadlog.broker import Hole
from quadlog.core.model import START
from quadlog.core.records import Reached
from quadlog.errors import TopicLost
from quadlog.master.recovery import rebuild
from quadlog.master.recovery.startup_checks import STORE, open_store, prepare_topics
from quadlog.masterstore.store import MasterStore, Taken
from quadlog.settings import WorkerSettings
from quadlog.worker.replica.source_topics import SourceTopics

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

from tests.support.masters.centre import NOTHING, Centre


def test_a_lost_end_is_a_loss_too(centre: Centre) -> None:
    """Payloads stay; what clients gave and nobody ordered is in them."""
    centre.has_run()
    centre.outlet.produce(centre.own.payloads, key=b"k", values=[b"v"], headers=[])
    store = MasterStore(centre.settings.data_dir / STORE)
    positions = {centre.own.payloads: 1, centre.own.effects: 7}
    taken = Taken(positions=positions, effects=(0, 0, 0), rejected={})
    store.save(NOTHING, payloads={}, taken=taken, unneeded=())
    store.close()
    centre.outlet.flush(60)
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
    (tmp_path / "forks" / "fork-1-1").mkdir(parents=True)
    centre.has_run()
    host, topic = Leaving(), centre.own.effects
    first = centre.admin.ids([topic])[topic]
    fed = SourceTopics(settings, centre.own, host.leave)
    assert fed.known == {centre.own.agreed: None, topic: None}
    fed.recognise(topic, first, is_other=False)
    fed = SourceTopics(settings, centre.own, host.leave)
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
    assert not (tmp_path / "forks").exists(), "their offsets are of the topics before"
    assert SourceTopics(settings, centre.own, host.leave).known == {centre.own.agreed: None, topic: None}


def test_what_went_back_is_lost_also_where_it_has_grown(centre: Centre) -> None:
    """The last record that was read shows it, by another one in its place, or by none."""
    centre.has_run()
    posts = centre.own.rounds
    for number in range(5):
        centre.outlet.produce(posts, key=b"k", values=[b"%d" % number], headers=[])
    centre.outlet.flush(60)
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
    centre.outlet.flush(60)
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
