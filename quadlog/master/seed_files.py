"""The files of a seed: from a client to all workers, and from who has them to who lacks them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx
import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from quadlog.errors import Unavailable, UserError
from quadlog.master.tee import UNREACHABLE, deliver
from quadlog.parcel import Label, gathered

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

    from quadlog.master.crew import Worker
    from quadlog.master.node import Node
    from quadlog.settings import MasterSettings, Peer

log = structlog.get_logger()

ASK: Final = httpx.Timeout(5.0, connect=2.0)
"""For a word from a worker or a peer."""


class Refuse(Protocol):
    """Raises NotEmpty, unless the log begins with this seed or may begin with it."""

    def __call__(self, signature: str, quads: int, *, may_begin: bool) -> None:
        """Look."""
        ...


class SeedFiles:
    """Used on the server's loop only."""

    def __init__(
        self, node: Node, settings: MasterSettings, client: httpx.AsyncClient, refuse: Refuse
    ) -> None:
        """`refuse` knows which seed may come."""
        self._node, self._settings, self._client, self._refuse = node, settings, client, refuse
        self._bringing = False

    async def kept_by(self, worker: Worker) -> list[str] | None:
        """Signatures of the seeds that a worker keeps; None: it does not say."""
        with suppress(*UNREACHABLE, ValueError, KeyError):
            answer = await self._client.get(f"{worker.beat.url}/status", timeout=ASK)
            return list(answer.raise_for_status().json()["seeds"])
        return None

    def other_dcs(self) -> dict[str, list[Peer]]:
        """Of each other data centre its masters."""
        found: dict[str, list[Peer]] = {}
        for peer in sorted(self._settings.peer.values(), key=lambda peer: peer.id):
            if peer.dc != self._settings.dc:
                found.setdefault(peer.dc, []).append(peer)
        return found

    async def there(self, peers: list[Peer]) -> dict[str, Any]:
        """What the first master says that answers."""
        why = ""
        for peer in peers:
            try:
                answer = await self._client.get(f"{peer.url}/cluster/seed?here", timeout=ASK)
                found: dict[str, Any] = answer.raise_for_status().json()["dcs"][peer.dc]
            except (*UNREACHABLE, ValueError, KeyError) as error:
                why = f"{peer.id} does not answer: {type(error).__name__} {error}".strip()
            else:
                return found
        return {"error": why}

    async def put(self, request: Request) -> Response:
        """Pass a seed's files on to whoever lacks them; says who has them then.

        Raises:
            NotEmpty: this log does not begin with it.
            UserError: they did not come whole.

        """
        label = Label.of(request.headers)
        self._refuse(label.signature, label.quads, may_begin=True)
        here = {f"{self._settings.dc}/{worker.beat.worker}": worker for worker in await self._lacking(label)}
        doors = {name: f"{worker.beat.url}/seed" for name, worker in here.items()}
        if "here" not in request.query_params:
            doors |= await self._peers_doors()
        try:
            done = await deliver(self._client, gathered(request.stream()), label, doors)
        except ClientDisconnect as error:
            raise UserError("whoever sent the seed left in the middle: nothing of it is kept") from error
        failures = {name: one.failure for name, one in done.items() if one.failure}
        for one in done.values():
            if one.answer is not None and one.answer.is_success:
                failures |= one.answer.json().get("failures", {})
        return JSONResponse({"failures": failures}, HTTPStatus.CREATED)

    async def _lacking(self, label: Label) -> list[Worker]:
        """Workers here that are there and do not keep it."""
        workers = self._node.crew.all()
        kept = await asyncio.gather(*map(self.kept_by, workers))
        return [
            w
            for w, keeps in zip(workers, kept, strict=True)
            if keeps is not None and label.signature not in keeps
        ]

    async def _peers_doors(self) -> dict[str, str]:
        """Of each other data centre a master that answers; the first one if none does."""
        doors: dict[str, str] = {}
        for dc, peers in self.other_dcs().items():
            said = await self.there(peers)
            peer = next((peer for peer in peers if peer.id == said.get("master")), peers[0])
            doors[dc] = f"{peer.url}/cluster/seed/files?here"
        return doors

    async def get(self, request: Request) -> Response:
        """A seed's files, from a worker here that keeps them.

        Raises:
            Unavailable: none does.

        """
        signature = request.query_params.get("signature", "")
        source = await self._open([worker.beat.url + "/seed" for worker in self._node.crew.all()], signature)
        if source is None:
            raise Unavailable(f"no worker of this data centre keeps the seed {signature[:16]}…")
        headers = source.label.headers() | {"Content-Length": str(source.label.size)}
        return StreamingResponse(source.pieces(), headers=headers)

    async def _open(self, doors: list[str], signature: str) -> _Source | None:
        """The first of these doors that gives the seed."""
        for door in doors:
            request = self._client.build_request("GET", door, params={"signature": signature})
            with suppress(*UNREACHABLE, UserError):
                answer = await self._client.send(request, stream=True)
                if answer.is_success:
                    return _Source(Label.of(answer.headers), answer)
                await answer.aclose()
        return None

    async def bring(self, worker: Worker, signature: str) -> None:
        """Have the seed brought to a worker that lacks it, one at a time: from another one here, or from a peer."""
        if self._bringing:
            return
        self._bringing = True
        try:
            doors = [other.beat.url + "/seed" for other in self._node.crew.all() if other is not worker]
            doors += [f"{p.url}/cluster/seed/files" for peers in self.other_dcs().values() for p in peers]
            source = await self._open(doors, signature)
            if source is None:
                log.warning("nobody gives the seed that a worker lacks", worker=worker.beat.worker)
                return
            done = await deliver(
                self._client, source.pieces(), source.label, {"it": f"{worker.beat.url}/seed"}
            )
            log.info("brought the seed to a worker", worker=worker.beat.worker, failure=done["it"].failure)
        except UNREACHABLE as error:
            log.warning("the seed did not come whole", worker=worker.beat.worker, reason=str(error))
        finally:
            self._bringing = False


@dataclass(frozen=True, slots=True)
class _Source:
    """A seed's files, on their way."""

    label: Label
    answer: httpx.Response

    async def pieces(self) -> AsyncGenerator[bytes]:
        try:
            async for piece in gathered(self.answer.aiter_raw()):
                yield piece
        finally:
            await self.answer.aclose()
