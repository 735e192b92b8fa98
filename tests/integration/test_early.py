"""What a worker says while it catches up: over real HTTP, at the port that it serves at afterwards."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from quadlog.core.records import CatchUpProgress, Heartbeat, WorkerState
from quadlog.kafka.ports import free_ports
from quadlog.quadstore.quadstore import QuadStore
from quadlog.settings import WorkerSettings
from quadlog.web.server import Server
from quadlog.worker.catchup.startup_status import StartupStatus
from tests.support.clusters.cluster import until

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request


async def serves(_: Request) -> PlainTextResponse:
    return PlainTextResponse("serves")


def test_it_says_how_far_it_is_and_serves_at_the_same_port_afterwards(tmp_path: Path) -> None:
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = WorkerSettings(
        node_id="dc1-w1", dc="dc1", data_dir=tmp_path, port=port, kafka="none", heartbeat=0.05, worker_url=url
    )
    server, store, said = Server("127.0.0.1", port), QuadStore.open(tmp_path / "quads"), list[Heartbeat]()
    way = CatchUpProgress(way="full", behind=7, percent=0, left_s=None)
    with StartupStatus(settings, store, server, said.append) as early:
        store.close()
        assert not said, "who has nothing to tell serves at once"
        early.report(lambda: way)
        answer = httpx.get(f"{url}/status")
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
        assert answer.json()["catching_up"]["behind"] == 7
        assert (answer.json()["id"], answer.json()["state"]) == ("dc1-w1", "catching up")
        early.report(lambda: CatchUpProgress(way="full", behind=7, percent=40, left_s=9))
        for path in ("sparql?query=ASK{}", "copy/offer", "statements"):
            answer = httpx.get(f"{url}/{path}")
            assert answer.status_code == 503
            assert "catches up (full, 40 %, about 9 s to go): ask another one" in answer.text
        until(lambda: said[-1].catching_up is not None and said[-1].catching_up.percent == 40)
        assert said[0].catching_up == way
        assert {(beat.worker, beat.state) for beat in said} == {("dc1-w1", WorkerState.STARTING)}
    count = len(said)

    def leave() -> None:
        until(lambda: serving(url))
        server.leave()

    ended = threading.Thread(target=leave)
    ended.start()
    assert server.run(Starlette(routes=[Route("/status", serves)])) == 0
    ended.join()
    assert len(said) == count


def serving(url: str) -> bool:
    return httpx.get(f"{url}/status").text == "serves"
