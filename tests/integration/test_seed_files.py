"""A seed comes to all workers of a data centre: through the network once for each file system, and from anybody."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from quadlog.core.model import Peer
from quadlog.errors import QuadlogError
from quadlog.master.seeds import seed_files
from quadlog.master.seeds.seed_files import SeedFiles
from quadlog.snapshots.store_archive import FILES, ArchiveManifest, pieces_of
from quadlog.web.answers import handle_error
from quadlog.worker.seeds.seed_door import SeedDoor
from quadlog.worker.seeds.seedbed import place_in
from tests.support.workers.ground import Ground, built, check, seed_of

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.requests import Request
    from starlette.responses import Response


@dataclass
class House:
    """One worker with its door."""

    name: str
    ground: Ground
    is_far: bool = False
    """It sees nobody's directory."""
    came: list[str] = field(default_factory=list[str])
    """What came to its door."""
    breaks: bool = False

    @property
    def worker(self) -> Any:  # noqa: ANN401 - what a master knows of a worker, as far as it is used here
        return SimpleNamespace(beat=SimpleNamespace(worker=self.name, url=f"http://{self.name}"))

    def app(self) -> Starlette:
        door = SeedDoor(self.ground.bed)

        async def status(request: Request) -> Response:
            del request
            return JSONResponse(door.status())

        async def near(request: Request) -> Response:
            return JSONResponse({"near": False}) if self.is_far else await door.near(request)

        async def put(request: Request) -> Response:
            self.came.append("near" if "near" in request.query_params else "stream")
            if self.breaks:
                async for _ in request.stream():
                    pass
                return JSONResponse({"message": "no space"}, 503)
            return await door.put(request)

        async def get(request: Request) -> Response:
            self.came.append("asked")
            return await door.get(request)

        return Starlette(
            routes=[
                Route("/status", status),
                Route("/seed/near", near),
                Route("/seed", put, methods=["PUT"]),
                Route("/seed", get),
            ],
            exception_handlers={QuadlogError: handle_error},
        )


OUTSIDER = "m9"
"""A master that the settings name, and that is no peer."""


class Town:
    """A data centre: its workers, and a master's files of seeds."""

    def __init__(
        self, tmp_path: Path, *names: str, far: tuple[str, ...] = (), peers: tuple[str, ...] = ()
    ) -> None:
        self.houses = {name: House(name, Ground(tmp_path / name), name in far) for name in names}
        self.workers = [house.worker for house in self.houses.values()]
        self.others = {name: House(name, Ground(tmp_path / name)) for name in peers}
        settings = SimpleNamespace(
            dc="dc1",
            peer={name: SimpleNamespace(id=name, dc=name, url=f"http://{name}") for name in peers},
        )
        node = SimpleNamespace(
            seed=None,
            has_begun=False,
            worker_registry=SimpleNamespace(all=lambda: self.workers),
            cluster=SimpleNamespace(peers=[Peer(name, name) for name in peers if name != OUTSIDER]),
        )
        mounts: dict[str, httpx.AsyncBaseTransport] = {
            f"http://{name}": httpx.ASGITransport(house.app()) for name, house in self.houses.items()
        }
        for name, house in self.others.items():
            door = SeedDoor(house.ground.bed)
            app = Starlette(
                routes=[Route("/cluster/seed/files", door.get)],
                exception_handlers={QuadlogError: handle_error},
            )
            mounts[f"http://{name}"] = httpx.ASGITransport(app)
        client = httpx.AsyncClient(mounts=mounts)
        self.files = SeedFiles(cast("Any", node), cast("Any", settings), client)
        app = Starlette(
            routes=[Route("/cluster/seed/files", self.files.put, methods=["PUT"])],
            exception_handlers={QuadlogError: handle_error},
        )
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://m")

    async def put(self, label: ArchiveManifest, files: Path) -> dict[str, str]:
        """As a client sends it; what failed."""
        answer = await self.client.put(
            "/cluster/seed/files?here", content=b"".join(pieces_of(files)), headers=label.headers()
        )
        assert answer.status_code == 201, answer.text
        failures: dict[str, str] = answer.json()["failures"]
        return failures

    def came(self) -> dict[str, list[str]]:
        return {name: house.came for name, house in self.houses.items()}

    def kept(self) -> list[str]:
        return [name for name, house in self.houses.items() if house.ground.bed.kept()]


def test_workers_of_one_file_system_get_it_from_the_first(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    town = Town(tmp_path, "w1", "w2", "w3", far=("w3",))
    assert asyncio.run(town.put(label, files)) == {}
    assert town.came() == {"w1": ["stream"], "w2": ["near"], "w3": ["stream"]}
    one, other = (place_in(tmp_path / name, label.signature) / FILES for name in ("w1", "w2"))
    assert {f.name: f.read_bytes() for f in one.iterdir()} == {
        f.name: f.read_bytes() for f in other.iterdir()
    }
    assert not {f.stat().st_ino for f in one.iterdir()} & {f.stat().st_ino for f in other.iterdir()}, (
        "what damages one leaves the other whole"
    )
    for house in town.houses.values():
        house.ground.bed.on_seed(seed_of(label))
        check(house.ground.end(), label)


def test_who_was_to_give_it_fails(tmp_path: Path) -> None:
    """Then it comes from another data centre."""
    label, files = built(tmp_path)
    town = Town(tmp_path, "w1", "w2", peers=("m2",))
    town.others["m2"].ground.take(label, files)
    town.houses["w1"].breaks = True
    failures = asyncio.run(town.put(label, files))
    assert list(failures) == ["dc1/w1"]
    assert town.kept() == ["w2"]


def test_who_is_no_peer_is_not_asked(tmp_path: Path) -> None:
    """It may not be there yet, and the import is not to fail for it."""
    town = Town(tmp_path, "w1", peers=("m2", OUTSIDER))
    assert list(town.files.other_dcs()) == ["m2"]


def test_nobody_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_files, "TRIES", 2)
    monkeypatch.setattr(seed_files, "PAUSE_S", 0.0)
    label, files = built(tmp_path)
    town = Town(tmp_path, "w1", "w2")
    town.houses["w1"].breaks = True
    assert set(asyncio.run(town.put(label, files))) == {"dc1/w1", "dc1/w2"}
    assert town.kept() == []


@pytest.mark.parametrize("what", ["damaged", "gone", "short"])
def test_what_a_neighbour_keeps_is_checked(tmp_path: Path, what: str) -> None:
    label, files = built(tmp_path)
    town = Town(tmp_path, "w1", "w2")
    keeper = town.houses["w1"].ground
    keeper.take(label, files)
    kept = place_in(keeper.data_dir, label.signature) / FILES
    table = max(kept.glob("*.sst"), key=lambda path: path.stat().st_size)
    content = table.read_bytes()
    if what == "gone":
        table.unlink()
    else:
        table.write_bytes(content[:-1] + (bytes([content[-1] ^ 1]) if what == "damaged" else b""))

    async def scenario() -> httpx.Response:
        door = httpx.AsyncClient(transport=httpx.ASGITransport(town.houses["w2"].app()), base_url="http://w2")
        return await door.put("/seed", params={"near": str(keeper.data_dir)}, headers=label.headers())

    assert asyncio.run(scenario()).status_code == 400
    assert town.kept() == ["w1"]
    assert list((tmp_path / "w2" / "seeds").iterdir()) == []


def test_a_damaged_copy_is_not_the_only_one_that_is_tried(tmp_path: Path) -> None:
    """Else a worker that lacks the seed would be given the same damaged bytes for ever."""
    label, files = built(tmp_path)
    town = Town(tmp_path, "w1", "w2", "w3")
    for name in ("w1", "w2"):
        town.houses[name].ground.take(label, files)
    [table, *_] = sorted(place_in(tmp_path / "w1", label.signature).rglob("*.sst"))
    table.write_bytes(bytes(table.stat().st_size))
    asyncio.run(town.files.bringing.bring(town.workers[2], label.signature))
    assert town.kept() == ["w1", "w2", "w3"]
    assert (town.came()["w1"], town.came()["w2"]) == (["asked"], ["asked"])


def test_who_does_not_see_a_directory(tmp_path: Path) -> None:
    """Another machine may have one of the same name."""
    town = Town(tmp_path, "w1", "w2")

    async def is_near(**changed: str | int) -> bool:
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(town.houses["w2"].app()), base_url="http://w2"
        )
        place = SeedDoor(town.houses["w1"].ground.bed).status()["place"] | changed
        return bool((await client.get("/seed/near", params=place)).json()["near"])

    assert asyncio.run(is_near())
    for changed in ({"path": "/nowhere"}, {"inode": 7}, {"device": 7}, {"boot": "another"}):
        assert not asyncio.run(is_near(**changed)), changed
