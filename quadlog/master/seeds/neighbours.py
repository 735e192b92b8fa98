"""Workers that share a file system: one of them takes a seed from the network, the others from its directory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from quadlog.master.seeds.tee import answered_in, message_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.master.workers.crew import Worker
    from quadlog.snapshots.parcel import Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacks:
    """A worker that is to get a seed."""

    worker: Worker
    place: dict[str, Any]
    """Of its directory, as it says itself."""

    @property
    def door(self) -> str:
        """Where it takes seeds."""
        return f"{self.worker.beat.url}/seed"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Asks workers."""

    client: httpx.AsyncClient

    async def groups(self, all_of_them: Iterable[Lacks]) -> list[list[Lacks]]:
        """Those who see the directory of the first of their group."""
        groups: list[list[Lacks]] = []
        for one in all_of_them:
            for group in groups:
                if await self._sees(one, group[0]):
                    group.append(one)
                    break
            else:
                groups.append([one])
        return groups

    async def _sees(self, one: Lacks, other: Lacks) -> bool:
        with suppress(httpx.HTTPError, ValueError, KeyError):
            answer = await self.client.get(f"{one.door}/near", params=other.place)
            return bool(answer.raise_for_status().json()["near"])
        return False

    async def copy(self, label: Label, source: Lacks, target: Lacks) -> str:
        """Have one take from another what that keeps; why it did not."""
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
