"""A donor, a taker, and what may go wrong between them: what tests of copies share."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import uvicorn
from pyoxigraph import Literal, NamedNode, Quad
from starlette.applications import Starlette
from starlette.routing import Route

from quadlog.core.effects import signature
from quadlog.core.effects.control import Control, ControlChange, ControlKind
from quadlog.core.effects.effect import Change
from quadlog.core.effects.lines import lines_of
from quadlog.core.model import LogPosition
from quadlog.errors import QuadlogError
from quadlog.kafka.ports import free_ports
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings import WorkerSettings
from quadlog.snapshots import store_archive
from quadlog.snapshots.backups import SourceTopicIds
from quadlog.snapshots.chunk_codec import WINDOW
from quadlog.topics import Topics
from quadlog.web.answers import handle_error
from quadlog.worker.catchup import stream
from quadlog.worker.catchup.donor import Donor
from quadlog.worker.catchup.store_copying import CopiedStore, StoreCopying
from quadlog.worker.repair.mender import QUADS
from tests.support.clusters.cluster import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.types import ASGIApp, Message, Receive, Scope, Send


SMALL = 10_000
"""Bytes of a chunk."""
FED = SourceTopicIds("main", "dc1", "A", "E")
"""Which topics a store is fed from here."""
CONTROL = Control(name="one", kind=ControlKind.ASK, text="ASK {}", index=7)


class Dies(BaseException):
    """Nothing of ours hears it."""


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Who takes a copy dies where it is cut off and would wait to ask again."""

    def dies(*_: object) -> None:
        raise Dies

    with monkeypatch.context() as patched:
        patched.setattr(stream, "time", SimpleNamespace(sleep=dies, monotonic=time.monotonic))
        with pytest.raises(Dies):
            yield


def filled(path: Path, quads: int, *, index: int = 7, effects_offset: int = 99) -> QuadStore:
    """A store with so many quads, and a control."""
    store = QuadStore.open(path)
    change = Change(
        inserted=tuple(
            Quad(NamedNode(f"urn:s{number}"), NamedNode("urn:p"), Literal("x" * 100))
            for number in range(quads)
        )
    )
    total = signature.after(store.applied.signature, lines_of(change))
    applied = replace(store.applied, index=index, signature=total, quads=quads, effects_offset=effects_offset)
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
    fed_from: SourceTopicIds | None = FED,
) -> Iterator[Giver]:
    """A donor that serves; one that does not offer is of a version before that."""
    door = Donor(store, directory, fed_from=lambda: fed_from, bandwidth=bandwidth, window=window)
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
    copying: StoreCopying

    def opened(self) -> QuadStore:
        return QuadStore.open(self.directory / QUADS)


def new_taker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taker:
    """It has a store, at index 3."""
    monkeypatch.setattr(stream, "PAUSE_S", 0.0)
    monkeypatch.setattr(store_archive, "PIECE", SMALL)
    directory = tmp_path / "taker"
    filled(directory / QUADS, 3, index=3, effects_offset=30).close()
    common = {
        "node_id": "w2",
        "dc": "dc1",
        "kafka": "127.0.0.1:1",
        "port": 1,
        "worker_url": "http://127.0.0.1:1",
        "copy_compression": "none",
    }
    settings = WorkerSettings.model_validate(common | {"data_dir": directory})
    return Taker(directory, settings, StoreCopying(settings, Topics("main", "dc1")))


def given_by(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    """Who is there, as heartbeats say it."""
    beats = [SimpleNamespace(url=url, applied=LogPosition(7, bytes(32))) for url in urls]
    monkeypatch.setattr(StoreCopying, "_living", lambda *_: beats)


def check(taker: Taker, store: QuadStore, copied: CopiedStore) -> None:
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
