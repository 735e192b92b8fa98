"""A worker's whole store goes to another one: over real HTTP, cut off, taken up again, damaged, from one or another."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from quadlog.errors import QuadlogError, Unavailable
from quadlog.kafka.ports import free_ports
from quadlog.quadstore.quaddir import STORE_HERE
from quadlog.snapshots import store_archive
from quadlog.snapshots.chunk_codec import LEAST_WINDOW, ChunkDecoder, encode_chunks, window_for
from quadlog.snapshots.store_archive import pieces_of
from quadlog.topics import Topics
from quadlog.web.answers import handle_error
from quadlog.worker.catchup import donor as donating
from quadlog.worker.catchup import stream
from quadlog.worker.catchup.donor import Donor
from quadlog.worker.catchup.partial_copy import COMING
from quadlog.worker.catchup.store_copying import StoreCopying
from quadlog.worker.repair.mender import QUADS
from tests.support.clusters.cluster import until
from tests.support.workers.copies import SMALL, Taker, check, dying, filled, given_by, giving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Message

    from quadlog.snapshots.store_archive import ArchiveManifest


def test_a_copy_is_the_whole_store(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path / "store", 5000)
    with giving(store, tmp_path / "out") as giver:
        given_by(monkeypatch, giver.url)
        check(taker, store, taker.copying.fetch(3))
        assert (giver.made, giver.asked) == (1, [0])


def test_each_copy_is_another_store(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name a master tells a store that was found wrong from the copy that replaces it, of whomever that is."""
    store = filled(tmp_path / "store", 50)
    names = [store.name]
    for _ in range(2):
        with giving(store, tmp_path / "out") as giver:
            given_by(monkeypatch, giver.url)
            taker.copying.fetch(3)
        for _ in ("as it came", "opened again"):
            copy = taker.opened()
            names.append(copy.name)
            copy.close()
    store.close()
    assert (names[1], names[3]) == (names[2], names[4])
    assert len(set(names)) == 3


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
        check(taker, store, StoreCopying(settings, Topics("main", "dc1")).fetch(3))
    [given] = [one for one in said if one["event"] == "copy_requested"]
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
        check(taker, store, StoreCopying(settings, Topics("main", "dc1")).fetch(3))
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
        giver.cut_after = [40_000]
        with dying(monkeypatch):
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
    monkeypatch.setattr(stream, "TRIES", 2)
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
            patched.setattr(stream, "STORE_HERE", "oxigraph 0.4")
            with pytest.raises(
                Unavailable,
                match=r"the store here is of oxigraph \d+\.\d+, and the receiver reads oxigraph 0\.4",
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
    with TestClient(app, headers={donating.STORE: STORE_HERE}) as client:
        yield client


def test_who_leaves_before_the_first_byte_keeps_nobody_waiting(tmp_path: Path) -> None:
    with asking(Donor(filled(tmp_path / "store", 500), tmp_path / "out")) as another:
        digest = another.post("/copy").headers[store_archive.DIGEST]
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
        assert sum(map(len, ChunkDecoder(window=LEAST_WINDOW).feed(whole))) == label.size


def test_no_more_memory_than_is_lent(taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By either side."""
    windows: list[int] = []

    def counting(*said: Any, window: int, **more: Any) -> Iterator[bytes]:  # noqa: ANN401
        windows.append(window)
        return encode_chunks(*said, window=window, **more)

    monkeypatch.setattr(donating, "encode_chunks", counting)
    monkeypatch.setattr(donating, "window_for", lambda _, *most: window_for(1 << 40, *most))
    store = filled(tmp_path / "store", 500)
    for number, (ours, theirs) in enumerate(((8, 4), (4, 8), (5, 300))):
        settings = taker.settings.model_copy(
            update={"copy_compression": "zstd", "copy_window": ours * LEAST_WINDOW}
        )
        with giving(store, tmp_path / f"out{number}", window=theirs * LEAST_WINDOW) as giver:
            given_by(monkeypatch, giver.url)
            StoreCopying(settings, Topics("main", "dc1")).fetch(3)
    assert windows == [4 * LEAST_WINDOW] * 3


def test_what_came_whole_and_is_wrong_is_asked_for_anew(
    taker: Taker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 500)

    def wrong(*said: Any, **more: Any) -> ArchiveManifest:  # noqa: ANN401
        return replace(store_archive.label_of(*said, **more), digest="0" * 64)

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
    monkeypatch.setattr(stream, "TRIES", 2)
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
        url = f"/copy?digest={client.post('/copy').headers[store_archive.DIGEST]}"
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
        size = int(client.post("/copy").headers[store_archive.SIZE])
        there = sum(path.stat().st_size for path in (tmp_path / "store" / "quads").iterdir())
    assert offered["index"] == 7
    assert there > 3 * size
    assert 0.5 * size < offered["size"] < 2 * size
