"""A worker's whole store goes to another one: over real HTTP, cut off, taken up again, damaged, from one or another."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import uvicorn
from pyoxigraph import Literal, NamedNode, Quad
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from quadlog import parcel
from quadlog.answers import handle_error
from quadlog.core.control import Control, ControlChange, ControlKind
from quadlog.core.effect import Change
from quadlog.core.lines import lines_of, signature_after
from quadlog.core.model import Point
from quadlog.core.records import CatchingUp as Progress
from quadlog.errors import QuadlogError, Unavailable
from quadlog.kafka.ports import free_ports
from quadlog.packing import LEAST_WINDOW, WINDOW, Unpacked, packed, window_for
from quadlog.parcel import pieces_of
from quadlog.quadstore import QuadStore
from quadlog.settings import WorkerSettings
from quadlog.topics import Topics
from quadlog.worker import catching_up, copying
from quadlog.worker import donor as donating
from quadlog.worker.catching_up import CatchingUp
from quadlog.worker.coming import COMING
from quadlog.worker.copying import Copied, Copying
from quadlog.worker.donor import Donor
from quadlog.worker.mend import QUADS
from quadlog.worker.rates import RatesFile
from tests.e2e.cluster import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from quadlog.parcel import Label


SMALL = 10_000
"""Bytes of a chunk."""
CONTROL = Control(name="one", kind=ControlKind.ASK, text="ASK {}", index=7)


def filled(path: Path, quads: int, *, index: int = 7) -> QuadStore:
    """A store with so many quads, and a control."""
    store = QuadStore.open(path)
    change = Change(
        inserted=tuple(
            Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal("x" * 100))
            for number in range(quads)
        )
    )
    total = signature_after(store.applied.signature, change)
    applied = replace(store.applied, index=index, signature=total, quads=quads, effects_offset=99)
    store.apply([lines_of(change)], applied, controls=[ControlChange(name="one", control=CONTROL)])
    return store


@dataclass
class Giver:
    """A donor's door, with what may go wrong between it and who asks for the bytes of a copy."""

    app: ASGIApp
    door: Donor
    cut_after: list[int] = field(default_factory=list)
    """Of the next answers, so many bytes."""
    turned: int = -1
    """Of each answer, a byte that arrives as another one."""
    made: int = 0
    """Copies that it was asked to make."""
    asked: list[int] = field(default_factory=list[int])
    """Bytes, from which on a copy was asked for."""
    url: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/copy" or scope["method"] != "GET":
            self.made += scope["type"] == "http" and scope["method"] == "POST"
            await self.app(scope, receive, send)
            return
        self.asked.append(int(scope["query_string"].decode().rpartition("=")[2]))
        left = self.cut_after.pop(0) if self.cut_after else inf
        sent = 0

        async def passing(message: Message) -> None:
            nonlocal sent
            if body := message.get("body"):
                if sent <= self.turned < sent + len(body):
                    at = self.turned - sent
                    body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
                if sent + len(body) > left:
                    await send({**message, "body": body[: int(left) - sent], "more_body": True})
                    raise ConnectionResetError
                sent += len(body)
            await send({**message, "body": body or b""} if "body" in message else message)

        await self.app(scope, receive, passing)


@contextmanager
def giving(
    store: QuadStore,
    directory: Path,
    bandwidth: float = inf,
    *,
    offers: bool = True,
    port: int = 0,
    window: int = WINDOW,
) -> Iterator[Giver]:
    """A donor that serves; one that does not offer is of a version before that."""
    door = Donor(store, directory, bandwidth=bandwidth, window=window)
    offer = [Route("/copy/offer", door.offer)] if offers else []
    routes = [*offer, Route("/copy", door.get), Route("/copy", door.post, methods=["POST"])]
    app = Starlette(routes=routes, exception_handlers={QuadlogError: handle_error})
    giver = Giver(app, door)
    port = port or free_ports(1)[0]
    server = uvicorn.Server(uvicorn.Config(giver, port=port, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    giver.url = f"http://127.0.0.1:{port}"
    until(lambda: server.started)
    try:
        yield giver
    finally:
        server.should_exit = True
        thread.join()


@dataclass
class Taker:
    """A worker that is to have a copy."""

    directory: Path
    settings: WorkerSettings
    copying: Copying

    def opened(self) -> QuadStore:
        return QuadStore.open(self.directory / QUADS)


@pytest.fixture
def taker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taker:
    """It has a store, at index 3."""
    monkeypatch.setattr(copying, "PAUSE_S", 0.0)
    monkeypatch.setattr(parcel, "PIECE", SMALL)
    directory = tmp_path / "taker"
    filled(directory / QUADS, 3, index=3).close()
    common = {
        "node_id": "w2",
        "dc": "dc1",
        "kafka": "127.0.0.1:1",
        "port": 1,
        "worker_url": "http://127.0.0.1:1",
        "copy_compression": "none",
    }
    settings = WorkerSettings.model_validate(common | {"data_dir": directory})
    return Taker(directory, settings, Copying(settings, Topics("main", "dc1")))


def given_by(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    """Who is there, as heartbeats say it."""
    beats = [SimpleNamespace(url=url, applied=Point(7, bytes(32))) for url in urls]
    monkeypatch.setattr(Copying, "_living", lambda *_: beats)


def check(taker: Taker, store: QuadStore, copied: Copied) -> None:
    """The copy is the store."""
    found = copied.applied
    copy = taker.opened()
    try:
        assert (copy.applied, found) == (store.applied, store.applied)
        assert copy.recount() == store.recount() == (store.applied.signature, store.applied.quads)
        assert copy.controls == store.controls == {"one": CONTROL}
        assert sorted(path.name for path in taker.directory.iterdir()) == ["quads", "quads.wrong"]
    finally:
        copy.close()


def test_a_copy_is_the_whole_store(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path / "store", 5000)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        check(taker, store, taker.copying.fetch(3))
        assert (giver.made, giver.asked) == (1, [0])


def test_a_copy_is_on_the_disk_before_it_is_the_store(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 5000)
    synced: list[str] = []
    sync = os.fsync

    def counting(opened: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{opened}").readlink()))
        sync(opened)

    monkeypatch.setattr(os, "fsync", counting)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        copied = taker.copying.fetch(3)
    there = {path.name for path in (taker.directory / QUADS / "quads").iterdir() if path.suffix == ".sst"}
    check(taker, store, copied)
    coming = taker.directory / COMING / "store"
    assert synced.pop() == str(taker.directory)
    assert {str(coming), str(coming / "quads"), str(coming / "reserved-graph")} < set(synced)
    assert there
    assert there < {path.rpartition("/")[2] for path in synced}


@pytest.mark.parametrize("how", ["auto", "zstd", "snappy", "none", "brotli"])
def test_what_is_wanted_comes_or_nothing_is_compressed(
    how: str, taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the donor does not know it sends it as it is."""
    store = filled(tmp_path / "store", 5000)
    settings = taker.settings.model_copy(update={"copy_compression": how})
    with giving(store, tmp_path / "out") as giver, capture_logs() as said:
        given_by(monkeypatch, giver.url)
        check(taker, store, Copying(settings, Topics("main", "dc1")).fetch(3))
    [given] = [one for one in said if one["event"] == "gives a copy"]
    assert given["how"] == (how if how != "brotli" else "none")


@pytest.mark.parametrize("how", ["none", "snappy", "zstd"])
def test_it_is_taken_up_where_it_was_cut_off(
    how: str, taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it is compressed: each answer begins anew with that."""
    store = filled(tmp_path / "store", 20_000)
    settings = taker.settings.model_copy(update={"copy_compression": how})
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        giver.cut_after = [30_000, 0, 50_001]
        check(taker, store, Copying(settings, Topics("main", "dc1")).fetch(3))
    assert giver.made == 1
    assert len(giver.asked) == 4
    assert giver.asked == sorted(giver.asked)
    assert giver.asked[-1] > giver.asked[1] > 0, "it went on from what was there"


def test_a_chunk_that_is_damaged_is_asked_for_again(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each answer a byte is another one: what came before it is kept."""
    store = filled(tmp_path / "store", 5_000)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        giver.turned = 5 * SMALL
        check(taker, store, taker.copying.fetch(3))
        assert giver.made == 1
        assert len(giver.asked) > 5
        assert all(later > place for place, later in pairwise(giver.asked))


def test_whoever_dies_goes_on_afterwards(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 20_000)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)

        class _Dies(BaseException):
            pass

        def dying(*_: object) -> None:
            raise _Dies

        with monkeypatch.context() as patched:
            giver.cut_after = [40_000]
            patched.setattr(copying, "time", SimpleNamespace(sleep=dying, monotonic=time.monotonic))
            with pytest.raises(_Dies):
                taker.copying.fetch(3)
        given_by(monkeypatch)  # it says nothing for a moment: it is asked all the same
        copied = taker.copying.fetch(3)
        check(taker, store, copied)
        assert giver.made == 1
        assert giver.asked[-1] > 0
        assert copied.came == copied.size - giver.asked[-1], "how fast the way is, is told by what came now"


def test_another_one_is_asked(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one's bytes are damaged on the way, the second one is not there, the third one gives to somebody."""
    store = filled(tmp_path / "store", 2000)
    monkeypatch.setattr(copying, "TRIES", 2)
    with (
        giving(store, tmp_path / "out1") as damaged,
        giving(store, tmp_path / "out2") as busy,
        giving(store, tmp_path / "out3") as good,
    ):
        damaged.turned = 20
        busy.door._busy_until = inf
        given_by(monkeypatch, damaged.url, "http://127.0.0.1:1", busy.url, good.url)
        check(taker, store, taker.copying.fetch(3))
        assert [len(one.asked) for one in (damaged, busy, good)] == [2, 0, 1]
        assert [one.made for one in (damaged, busy, good)] == [1, 2, 1]


def test_where_nobody_gives_one_the_old_store_stays(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver:
        giver.turned = 20
        given_by(monkeypatch, giver.url)
        with pytest.raises(
            Unavailable,
            match=r"no worker of this data centre gives a copy: http.* a chunk has not the digest",
        ):
            taker.copying.fetch(3)
    given_by(monkeypatch)
    with pytest.raises(Unavailable, match=f"{giver.url}: .* refused, 5 times"):
        taker.copying.fetch(3)
    taker.copying.forget()
    with pytest.raises(Unavailable, match="none is there"):
        taker.copying.fetch(3)
    old = taker.opened()
    assert (old.applied.index, old.recount()[1]) == (3, 3)
    old.close()


def test_a_store_of_another_version_is_not_taken(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not even made; another donor is asked."""
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver, giving(store, tmp_path / "out2") as other:
        given_by(monkeypatch, giver.url, other.url)
        with monkeypatch.context() as patched:
            patched.setattr(copying, "STORE_HERE", "oxigraph 0.4")
            with pytest.raises(
                Unavailable,
                match=r"the store here is of oxigraph \d+\.\d+, and who asks reads oxigraph 0\.4",
            ):
                taker.copying.fetch(3)
        assert (giver.made, other.made) == (1, 1)
        assert (giver.door._copy, other.door._copy) == (None, None)
        check(taker, store, taker.copying.fetch(3))


@contextmanager
def asking(door: Donor) -> Iterator[TestClient]:
    """Who asks this donor."""
    routes = [Route("/copy/offer", door.offer), Route("/copy", door.get)]
    routes.append(Route("/copy", door.post, methods=["POST"]))
    app = Starlette(routes=routes, exception_handlers={QuadlogError: handle_error})
    with TestClient(app, headers={donating.STORE: donating.STORE_HERE}) as client:
        yield client


def test_who_leaves_before_the_first_byte_keeps_nobody_waiting(tmp_path: Path) -> None:
    with asking(Donor(filled(tmp_path / "store", 500), tmp_path / "out")) as another:
        digest = another.post("/copy").headers[parcel.DIGEST]
        query = f"digest={digest}&from=0".encode()
        asked = {"type": "http", "method": "GET", "path": "/copy", "query_string": query, "headers": []}

        async def nothing() -> Message:
            await anyio.sleep_forever()
            return {}

        async def gone(_: Message) -> None:
            raise ConnectionResetError

        assert another.post("/copy").status_code == 503, "it is waited for"
        with pytest.raises(ConnectionResetError):
            anyio.run(another.app, asked, nothing, gone)
        assert another.post("/copy").status_code == 201


def test_who_asks_for_what_it_cannot_have_is_told_so(tmp_path: Path) -> None:
    door = Donor(filled(tmp_path / "store", 500), tmp_path / "out")
    with asking(door) as client:
        label = door._make().label
        url = f"/copy?digest={label.digest}"
        for query, status, why in (
            ("/copy", 400, "asked for by its 'digest', which POST tells"),
            (f"{url}&from=-1", 400, "asked for by its 'digest', which POST tells"),
            (f"{url}&from={label.size + 1}", 400, f"this copy has {label.size} bytes"),
            ("/copy?digest=none", 404, "not here any more"),
        ):
            answer = client.get(query)
            assert (answer.status_code, why in answer.text) == (status, True), query
        refused = client.post("/copy", headers={donating.STORE: "other 1"})
        assert refused.status_code == 400
        assert client.get(url, headers={donating.WINDOW: "many", donating.COMPRESSION: "zstd"}).is_success
        whole = client.get(url, headers={donating.WINDOW: "-1", donating.COMPRESSION: "zstd"}).content
        assert sum(map(len, Unpacked(window=LEAST_WINDOW).feed(whole))) == label.size


def test_no_more_memory_than_is_lent(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By either side."""
    windows: list[int] = []

    def counting(*said: Any, window: int, **more: Any) -> Iterator[bytes]:  # noqa: ANN401
        windows.append(window)
        return packed(*said, window=window, **more)

    monkeypatch.setattr(donating, "packed", counting)
    monkeypatch.setattr(donating, "window_for", lambda _, *most: window_for(1 << 40, *most))
    store = filled(tmp_path / "store", 500)
    for number, (ours, theirs) in enumerate(((8, 4), (4, 8), (5, 300))):
        settings = taker.settings.model_copy(
            update={"copy_compression": "zstd", "copy_window": ours * LEAST_WINDOW}
        )
        with giving(store, tmp_path / f"out{number}", window=theirs * LEAST_WINDOW) as giver:
            given_by(monkeypatch, giver.url)
            Copying(settings, Topics("main", "dc1")).fetch(3)
    assert windows == [4 * LEAST_WINDOW] * 3


def test_what_came_whole_and_is_wrong_is_asked_for_anew(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)

    def wrong(*said: Any, **more: Any) -> Label:  # noqa: ANN401
        return replace(parcel.label_of(*said, **more), digest="0" * 64)

    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        with monkeypatch.context() as patched:
            patched.setattr(donating, "label_of", wrong)
            with pytest.raises(Unavailable, match="announced: nothing of it is kept"):
                taker.copying.fetch(3)
        check(taker, store, taker.copying.fetch(3))
        assert (giver.made, giver.asked) == (2, [0, 0])


def test_a_donor_that_was_begun_again_goes_on(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its taker tries as long as it may, and again later; another store is at its door meanwhile."""
    store, later = filled(tmp_path / "store", 20_000), filled(tmp_path / "later", 5, index=9)
    monkeypatch.setattr(copying, "TRIES", 2)
    [port] = free_ports(1)
    with giving(store, tmp_path / "out", port=port) as giver:
        given_by(monkeypatch, giver.url)
        giver.cut_after = [40_000, 0, 0]
        with pytest.raises(Unavailable, match="2 times"):
            taker.copying.fetch(3)
    with giving(later, tmp_path / "out", port=port) as giver:
        check(taker, store, taker.copying.fetch(3))
        assert giver.made == 0
        assert len(giver.asked) == 1
        assert giver.asked[0] > 0


def test_a_copy_that_nobody_asks_for_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this process and of the one before; and one that is asked for does not."""
    monkeypatch.setattr(donating, "KEPT_S", 0.5)
    store, out = filled(tmp_path / "store", 5), tmp_path / "out"
    door = Donor(store, out)
    with asking(door) as client:
        url = f"/copy?digest={client.post('/copy').headers[parcel.DIGEST]}"
        time.sleep(0.3)
        turn = door._begin(url.rpartition("=")[2])
        time.sleep(0.4)
        assert out.exists(), "it is being given"
        door._end(turn)
        assert client.get(url).is_success
        until(lambda: not out.exists(), 5)
        assert client.get(url).status_code == 404
    door._make()
    assert Donor(store, out)._copy is not None
    until(lambda: not out.exists(), 5)
    door._make()
    time.sleep(0.6)
    Donor(store, out)
    assert not out.exists()


def test_one_copy_at_a_time(tmp_path: Path) -> None:
    """Until it was taken, or its taker is not heard of any more."""
    store = filled(tmp_path / "store", 5)
    door = Donor(store, tmp_path / "out")
    first = door._begin(None)
    for digest in (None, "another"):
        with pytest.raises(Unavailable, match="gives a copy to another one"):
            door._begin(digest)
    door._busy_until = 0.0
    second = door._begin(None)
    assert not door._goes_on(first)
    door._end(first)
    with pytest.raises(Unavailable):
        door._begin(None)
    third = door._begin(door._make().label.digest)
    assert not door._goes_on(second), "its taker was cut off, and is here again"
    door._end(third)
    assert door._begin(None) is not third


def test_not_faster_than_it_may(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path / "store", 20_000)
    with giving(store, tmp_path / "out", bandwidth=1_000_000.0) as giver:
        given_by(monkeypatch, giver.url)
        began = time.monotonic()
        found = taker.copying.fetch(3)
        took = time.monotonic() - began
        copy = giver.door._copy
    assert copy is not None
    assert took > (copy.label.size - SMALL) / 1_000_000 > 1
    check(taker, store, found)


@dataclass
class Starting:
    """A worker's start, with what its topics say."""

    taker: Taker
    monkeypatch: pytest.MonkeyPatch
    newest: int = 7
    """Index of the newest effect."""
    beginnings: list[int] = field(default_factory=list)
    """Where the effects topic begins, each time it is asked; at 0 behind these."""
    looks: list[Callable[[], Progress]] = field(default_factory=list)
    """What it has said of itself, each by the next one."""

    def run(self, **settings: float | str) -> tuple[int, list[str]]:
        """The index that it begins to hear the log at, and what it said."""
        self.monkeypatch.setattr(catching_up, "AGAIN_S", 0.0)
        self.monkeypatch.setattr(CatchingUp, "_newest", lambda _: self.newest)
        self.monkeypatch.setattr(CatchingUp, "_compact", _refused)
        beginnings = self.beginnings

        def beginning_of(_: str, topic: str, **__: float) -> int:
            return beginnings.pop(0) if beginnings and topic.endswith("effects") else 0

        self.monkeypatch.setattr(catching_up, "beginning_of", beginning_of)
        chosen = self.taker.settings.model_copy(update=settings)
        rates = RatesFile(self.taker.directory / "rates.json", speed=chosen.net_speed_bits_per_sec)
        with capture_logs() as said:
            store = CatchingUp(
                chosen, Topics("main", "dc1"), self.taker.opened(), rates, self.looks.append
            ).run()
        index = store.applied.index
        store.close()
        return index, [str(one["event"]) for one in said if one["event"] != "gives a copy"]


def _refused(_: CatchingUp) -> None:
    raise QuadlogError("no Spark here")


@pytest.fixture
def starting(taker: Taker, monkeypatch: pytest.MonkeyPatch) -> Starting:
    """It took an effect in ten seconds the last time."""
    (taker.directory / "rates.json").write_text('{"incremental": 0.1}')
    return Starting(taker, monkeypatch)


HURRIED = {"min_time_to_consider_full_replication": 0.0, "full_replication_time_factor": 1.0}
HEARD = "the log is heard from where the store is"


def test_the_chooser_takes_a_copy_where_that_is_faster(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run() == (3, ["catches up"]), "40 s are not above 600"
        slow = HURRIED | {"net_speed_bits_per_sec": 1.0}
        assert starting.run(**slow) == (3, ["catches up", HEARD]), "a bundle, which nobody makes here"
        assert starting.run(**HURRIED) == (7, ["catches up", "Replicating (catch up)", "took a copy"])
        assert starting.run(**HURRIED) == (7, []), "nothing is missing"
        assert (giver.made, giver.asked) == (1, [0])


def test_who_has_nothing_takes_a_copy_at_once(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    shutil.rmtree(starting.taker.directory / QUADS)
    given_by(monkeypatch)
    assert starting.run() == (0, ["catches up"]), "nobody has anything"
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run() == (7, ["catches up", "Replicating (empty)", "took a copy"])


def test_a_size_that_nobody_knows(
    starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out", offers=False) as giver:
        given_by(monkeypatch, giver.url)
        assert starting.run(**HURRIED) == (3, ["Couldn't find storage size", "catches up", HEARD])


def test_out_of_the_log(starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that is out of it again was given in vain."""
    store = filled(tmp_path / "store", 500)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        starting.beginnings = [100, 100]
        out, took = "Replicating (out of sync)", "took a copy"
        assert starting.run() == (7, [out, took, f"{out}, forced", took])


def test_it_says_how_far_it_is(starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Progress] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            if starting.looks:
                said.append(starting.looks[-1]())

    store = filled(tmp_path / "store", 20_000)
    with giving(store, tmp_path / "out", bandwidth=1_000_000.0) as giver, ThreadPoolExecutor() as pool:
        given_by(monkeypatch, giver.url)
        looking = pool.submit(look)
        starting.run(**HURRIED)
        ended.set()
        looking.result()
    assert {(one.way, one.behind, one.obstacle) for one in said} == {("full", 4, "")}
    percents = [one.percent for one in said]
    assert percents == sorted(percents)
    assert len(set(percents)) > 5
    assert percents[-1] == 100
    half = next(one for one in said if one.percent >= 50)
    assert half.left_s is not None
    assert str(half).startswith(f"full, {half.percent} %, about ")


def test_it_says_what_it_waits_for(starting: Starting, monkeypatch: pytest.MonkeyPatch) -> None:
    given_by(monkeypatch)
    starting.beginnings = [100, 100]
    starting.run()
    [_, second] = starting.looks
    assert (second().way, second().behind, second().percent) == ("full", 4, 0)
    assert str(second()) == "full, but no worker of this data centre gives a copy: none is there"


def test_what_a_bundle_takes_is_told_by_what_it_took(
    starting: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [0.0]
    monkeypatch.setattr(catching_up, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    (starting.taker.directory / "rates.json").write_text('{"compacted": 0.1, "start_s": 20}')
    given_by(monkeypatch)
    starting.run(catch_up="compacted")
    [look] = starting.looks
    for now, percent, left_s in ((0.0, 0, 60), (30.0, 50, 30), (70.0, 99, None)):
        moment[0] = now
        assert look() == Progress(way="compacted", behind=4, percent=percent, left_s=left_s)


def test_the_speed_is_measured(starting: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catching_up, "_TELLING", 10_000)
    store = filled(tmp_path / "store", 2_000)
    with giving(store, tmp_path / "out", bandwidth=100_000.0) as giver:
        given_by(monkeypatch, giver.url)
        starting.run(**HURRIED)
    rates = RatesFile(starting.taker.directory / "rates.json").read()
    assert rates.incremental == 0.1
    assert 10_000 < rates.copied < 1_000_000


def test_a_parcel_goes_on_from_any_byte(tmp_path: Path) -> None:
    for number, size in enumerate((0, 1, 511, 512, 513, 3000)):
        (tmp_path / f"file{number}").write_bytes(bytes([number]) * size)
    whole = b"".join(pieces_of(tmp_path))
    for start in range(0, len(whole) + 2, 97):
        assert b"".join(pieces_of(tmp_path, start=start)) == whole[start:], start


def test_the_size_that_is_offered_is_that_of_a_copy(tmp_path: Path) -> None:
    """Not of what was written ahead: that stays long, and may be many times as much."""
    store = filled(tmp_path / "store", 10)
    for number in range(5_000):
        text = f"DELETE WHERE {{ <urn:s> <urn:p> ?o }} ; INSERT DATA {{ <urn:s> <urn:p> {number} }}"
        store._store.update(text)
    with asking(Donor(store, tmp_path / "out")) as client:
        offered = client.get("/copy/offer").json()
        size = int(client.post("/copy").headers[parcel.SIZE])
        there = sum(path.stat().st_size for path in (tmp_path / "store" / "quads").iterdir())
    assert offered["index"] == 7
    assert there > 3 * size
    assert 0.5 * size < offered["size"] < 2 * size
