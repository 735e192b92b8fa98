"""Workers that share a file system: one of them receives a seed from the network, the others read its directory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from quadlog.master.seeds.fan_out import answered_in, message_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.master.workers.worker_registry import Worker
    from quadlog.snapshots.store_archive import ArchiveManifest


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


@dataclass(frozen=True, slots=True)
class LocalWorkers:
    """Requests to workers about their directories."""

    client: httpx.AsyncClient

    async def groups(self, all_of_them: Iterable[SeedlessWorker]) -> list[list[SeedlessWorker]]:
        """Return groups of workers, each of which sees the directory of the first one in its group."""
        groups: list[list[SeedlessWorker]] = []
        for one in all_of_them:
            for group in groups:
                if await self._sees(one, group[0]):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return groups

    async def _sees(self, one: SeedlessWorker, other: SeedlessWorker) -> bool:
        with suppress(httpx.HTTPError, ValueError, KeyError):
            answer = await self.client.get(f"{one.door}/near", params=other.place)
            return bool(answer.raise_for_status().json()["near"])
        return False

    async def copy(self, label: ArchiveManifest, source: SeedlessWorker, target: SeedlessWorker) -> str:
        """Have the target copy the seed from the source's directory; return the reason for a failure, or ""."""
        try:
            answer = await self.client.put(
                target.door,
                params={"near": source.place["path"]},
                headers=label.headers(),
                timeout=answered_in(label),
            )
        except httpx.HTTPError as error:
            return f"{type(error).__name__} {error}".strip()
        return "" if answer.is_success else message_of(answer)
