"""A worker's door for seeds: whole or refused, and passed on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.routing import Route

from quadlog.errors import QuadlogError
from quadlog.snapshots.store_archive import ArchiveManifest, pieces_of
from quadlog.web.answers import handle_error
from quadlog.worker.seeds.seed_door import SeedDoor
from tests.support.workers.ground import Ground, built, check, seed_of

if TYPE_CHECKING:
    from pathlib import Path


def test_door(tmp_path: Path) -> None:
    label, files = built(tmp_path)
    ground, other = Ground(tmp_path / "w"), Ground(tmp_path / "v")
    whole = b"".join(pieces_of(files))

    async def scenario() -> None:
        async with client_of(ground) as client, client_of(other) as another:
            nonsense = await client.put("/seed", content=b"x")
            assert (nonsense.status_code, nonsense.json()["error"]) == (400, "UserError")
            short = await client.put("/seed", content=whole[:-600], headers=label.headers())
            assert (short.status_code, ground.bed.kept()) == (400, [])
            assert list((ground.data_dir / "seeds").iterdir()) == []
            for _ in range(2):
                taken = await client.put("/seed", content=whole, headers=label.headers())
                assert (taken.status_code, taken.json()) == (201, {"seeds": [label.signature]})
            assert (await another.get("/seed", params={"signature": label.signature})).status_code == 404
            given = await client.get("/seed", params={"signature": label.signature})
            assert ArchiveManifest.of(given.headers) == label
            passed_on = await another.put("/seed", content=given.content, headers=label.headers())
            assert passed_on.status_code == 201

    asyncio.run(scenario())
    other.bed.on_seed(seed_of(label))
    check(other.end(), label)


def client_of(ground: Ground) -> httpx.AsyncClient:
    door = SeedDoor(ground.bed)
    app = Starlette(
        routes=[Route("/seed", door.put, methods=["PUT"]), Route("/seed", door.get)],
        exception_handlers={QuadlogError: handle_error},
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://w")
