"""Files of a seed: from a client to all workers, and from workers that have them to those that lack them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.errors import NotEmpty, Unavailable, UserError
from quadlog.master.clients.write_guards import refuse_writes
from quadlog.master.seeds.fan_out import answered_in, deliver, message_of
from quadlog.master.seeds.seed_transfer import SeedTransfer, files_of
from quadlog.settings import Role
from quadlog.snapshots.store_archive import ArchiveManifest, rechunk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from quadlog.master.node.node import Node
    from quadlog.master.workers.worker_registry import Worker
    from quadlog.settings import MasterSettings, PeerSettings

log = structlog.get_logger()

ASK: Final = httpx.Timeout(5.0, connect=2.0)
"""Timeout of a short request to a worker or a peer."""

TRIES: Final = 10
PAUSE_S: Final = 1.0
"""Seconds between two tries, if the worker that received the seed for its file system is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedlessWorker:
    """A worker that must receive a seed."""

    worker: Worker
    place: dict[str, Any]
    """Place of its directory, as the worker reports it."""

    @property
    def door(self) -> str:
        """URL at which it accepts seeds."""
        return f"{self.worker.beat.url}/seed"


class SeedFiles:
    """Files of seeds.  Used in the server's loop only."""

    def __init__(self, node: Node, settings: MasterSettings, client: httpx.AsyncClient) -> None:
        self._node, self._settings, self._client = node, settings, client
        self.bringing: Final = SeedTransfer(node.worker_registry, client, self._donors)

    async def kept_by(self, worker: Worker) -> list[str] | None:
        """Return the signatures of the seeds that a worker keeps; None if it does not answer."""
        said = await self._said_by(worker)
        return None if said is None else list(said["seeds"])

    async def _said_by(self, worker: Worker) -> dict[str, Any] | None:
        with suppress(httpx.HTTPError, ValueError, KeyError):
            answer = await self._client.get(f"{worker.beat.url}/status", timeout=ASK)
            found: dict[str, Any] = answer.raise_for_status().json()
            return {name: found[name] for name in ("seeds", "place")}
        return None

    def other_dcs(self) -> dict[str, list[PeerSettings]]:
        """Return the masters of each other data centre, as far as they are peers: others may not run yet."""
        found: dict[str, list[PeerSettings]] = {}
        peers = {peer.node for peer in self._node.cluster.peers}
        for peer in sorted(self._settings.peer.values(), key=lambda peer: peer.id):
            if peer.dc != self._settings.dc and peer.id in peers:
                found.setdefault(peer.dc, []).append(peer)
        return found

    def _donors(self) -> list[str]:
        return [files_of(peer.url) for peers in self.other_dcs().values() for peer in peers]

    async def there(self, peers: list[PeerSettings]) -> dict[str, Any]:
        """Return the seed status of a data centre from the first of its masters that answers."""
        why = ""
        for peer in peers:
            try:
                answer = await self._client.get(f"{peer.url}/cluster/seed?here", timeout=ASK)
                found: dict[str, Any] = answer.raise_for_status().json()["dcs"][peer.dc]
            except (httpx.HTTPError, ValueError, KeyError) as error:
                why = f"{peer.id} does not answer: {type(error).__name__} {error}".strip()
            else:
                return found
        return {"error": why}

    async def put(self, request: Request) -> Response:
        """Pass a seed's files on to workers that lack them; the answer lists the failures.

        Raises:
            NotEmpty: the log does not begin with this seed.
            NotAPeer: only peers know all data centres.
            ReadOnly: other masters accept imports.
            UserError: the files did not arrive completely.

        """
        if "here" not in request.query_params:
            refuse_writes(self._node.cluster, self._settings)
        label = ArchiveManifest.of(request.headers)
        refuse_other(self._node, label.signature, label.quads, may_begin=True)
        groups = await self._groups(await self._lacking(label))
        doors = {self._name(group[0].worker): group[0].door for group in groups}
        if "here" not in request.query_params:
            doors |= await self._peers_doors()
        try:
            done = await deliver(self._client, rechunk(request.stream()), label, doors)
        except ClientDisconnect as error:
            raise UserError(
                "the sender of the seed disconnected before its end: nothing of it is kept"
            ) from error
        failures = {name: one.failure for name, one in done.items() if one.failure}
        for one in done.values():
            if one.answer is not None and one.answer.is_success:
                failures |= one.answer.json().get("failures", {})
        for found in await asyncio.gather(*(self._complete(label, group) for group in groups)):
            failures |= found
        return JSONResponse({"failures": failures}, HTTPStatus.CREATED)

    async def _complete(self, label: ArchiveManifest, group: list[SeedlessWorker]) -> dict[str, str]:
        """Have the others of a group copy from its first worker or from any source; return failures by worker."""
        first, *others = group
        found = await asyncio.gather(*(self._completed(label, first, one) for one in others))
        return {self._name(one.worker): why for one, why in zip(others, found, strict=True) if why}

    async def _completed(self, label: ArchiveManifest, first: SeedlessWorker, one: SeedlessWorker) -> str:
        why = await self._copied(label, first, one)
        for _ in range(TRIES if why else 0):
            if not (why := await self.bringing.brought(one.worker, label.signature)):
                break
            await asyncio.sleep(PAUSE_S)  # the other data centres receive it at the same time
        return why

    async def _groups(self, workers: Iterable[SeedlessWorker]) -> list[list[SeedlessWorker]]:
        """Return groups of workers that share a file system: each sees the directory of the first one in its group."""
        groups: list[list[SeedlessWorker]] = []
        for one in workers:
            for group in groups:
                if await self._sees(one, group[0]):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return groups

    async def _sees(self, one: SeedlessWorker, other: SeedlessWorker) -> bool:
        with suppress(httpx.HTTPError, ValueError, KeyError):
            answer = await self._client.get(f"{one.door}/near", params=other.place)
            return bool(answer.raise_for_status().json()["near"])
        return False

    async def _copied(self, label: ArchiveManifest, source: SeedlessWorker, target: SeedlessWorker) -> str:
        """Have the target copy the seed from the source's directory; return the reason for a failure, or ""."""
        try:
            answer = await self._client.put(
                target.door,
                params={"near": source.place["path"]},
                headers=label.headers(),
                timeout=answered_in(label),
            )
        except httpx.HTTPError as error:
            return f"{type(error).__name__} {error}".strip()
        return "" if answer.is_success else message_of(answer)

    def _name(self, worker: Worker) -> str:
        return f"{self._settings.dc}/{worker.beat.worker}"

    async def _lacking(self, label: ArchiveManifest) -> list[SeedlessWorker]:
        """Return the workers here that answer and do not keep this seed."""
        workers = self._node.worker_registry.all()
        said = await asyncio.gather(*map(self._said_by, workers))
        return [
            SeedlessWorker(worker=worker, place=found["place"])
            for worker, found in zip(workers, said, strict=True)
            if found is not None and label.signature not in found["seeds"]
        ]

    async def _peers_doors(self) -> dict[str, str]:
        """Return for each other data centre with workers the URL of a master that answers, else of the first one."""
        doors: dict[str, str] = {}
        for dc, peers in self.other_dcs().items():
            if peers[0].role is not Role.READ_WRITE:
                continue
            said = await self.there(peers)
            peer = next((peer for peer in peers if peer.id == said.get("master")), peers[0])
            doors[dc] = f"{files_of(peer.url)}?here"
        return doors

    async def get(self, request: Request) -> Response:
        """Send a seed's files, from a worker here that keeps them.

        Raises:
            Unavailable: no worker here keeps them.

        """
        signature = request.query_params.get("signature", "")
        for worker in self._node.worker_registry.all():
            if source := await self.bringing.open(f"{worker.beat.url}/seed", signature):
                headers = source.label.headers() | {"Content-Length": str(source.label.size)}
                return StreamingResponse(source.pieces(), headers=headers)
        raise Unavailable(f"no worker of this data centre keeps the seed {signature[:16]}…")


def refuse_other(node: Node, signature: str, quads: int, *, may_begin: bool) -> None:
    """Refuse a seed, unless the log begins with it or, with `may_begin`, is empty.

    Raises:
        NotEmpty: the log has entries, or begins with another seed.

    """
    seed = node.seed
    if seed is not None and (seed.signature.hex(), seed.quads) != (signature, quads):
        raise NotEmpty(
            f"the log begins with another seed already: {seed.signature.hex()[:16]}… with {seed.quads} quads, from"
            f" {', '.join(seed.sources)}; nothing was changed"
        )
    if seed is None and (node.has_begun or not may_begin):
        raise NotEmpty(
            f"the log holds {node.cluster.last.index} entries, and a seed comes before all of them:"
            " nothing was changed. Add to what is there with updates, or import into a new repository"
        )
