"""Delivery of a seed from a worker or master that has its files to a worker that lacks them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import structlog

from quadlog.errors import UserError
from quadlog.master.seeds.fan_out import deliver
from quadlog.snapshots.store_archive import ArchiveManifest, rechunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from quadlog.master.workers.worker_registry import Worker, WorkerRegistry

log = structlog.get_logger()


class SeedTransfer:
    """Delivery of seeds.  Used in the server's loop only."""

    def __init__(
        self, worker_registry: WorkerRegistry, client: httpx.AsyncClient, others: Callable[[], Iterable[str]]
    ) -> None:
        """Prepare; `others`: URLs in other data centres that may serve the seed, asked after the workers here."""
        self._worker_registry, self._client, self._others = worker_registry, client, others
        self._is_bringing = False

    async def open(self, door: str, signature: str) -> SeedSource | None:
        """Open the seed at this URL; return None if the seed is not available there."""
        request = self._client.build_request("GET", door, params={"signature": signature})
        with suppress(httpx.HTTPError, UserError):
            answer = await self._client.send(request, stream=True)
            if answer.is_success:
                return SeedSource(ArchiveManifest.of(answer.headers), answer)
            await answer.aclose()
        return None

    async def bring(self, worker: Worker, signature: str) -> None:
        """Deliver the seed to a worker that lacks it, one at a time, from another worker here or from elsewhere."""
        if self._is_bringing:
            return
        self._is_bringing = True
        try:
            if failure := await self.brought(worker, signature):
                log.warning("seed_delivery_failed", worker=worker.beat.worker, reason=failure)
            else:
                log.info("seed_delivered", worker=worker.beat.worker)
        finally:
            self._is_bringing = False

    async def brought(self, worker: Worker, signature: str) -> str:
        """Deliver the seed; return why it failed, or "".  A copy may be damaged, so all sources are tried."""
        why = "nobody gives the seed"
        doors = [f"{other.beat.url}/seed" for other in self._worker_registry.all() if other is not worker]
        for door in (*doors, *self._others()):
            source = await self.open(door, signature)
            if source is None:
                continue
            try:
                done = await deliver(
                    self._client, source.pieces(), source.label, {"it": f"{worker.beat.url}/seed"}
                )
            except httpx.HTTPError as error:
                why = f"{door} gave a part of it: {type(error).__name__} {error}".strip()
                continue
            if not (why := done["it"].failure):
                break
        return why


@dataclass(frozen=True, slots=True)
class SeedSource:
    """Files of a seed as an open stream."""

    label: ArchiveManifest
    answer: httpx.Response

    async def pieces(self) -> AsyncGenerator[bytes]:
        """Yield the pieces of the stream; it is closed after the last one."""
        try:
            async for piece in rechunk(self.answer.aiter_raw()):
                yield piece
        finally:
            await self.answer.aclose()


def files_of(url: str) -> str:
    """Return the URL at which a master serves a seed's files."""
    return f"{url}/cluster/seed/files"
