"""Many updates in a short time: masters gather what comes at once, and one client after the other takes long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.bench.generator import NO_CONTENT, Connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.clusters.cluster import Cluster

CLIENTS = 50


def update_all(cluster: Cluster, texts: Iterable[str], *, master: int = 0) -> None:
    """All of them at one master, by so many clients in any order: none fails."""
    asyncio.run(_update_all(cluster.masters[master], iter(texts)))


async def _update_all(url: str, texts: Iterator[str]) -> None:
    async def client() -> None:
        connection = await Connection.to(url)
        try:
            for text in texts:
                answer = await connection.update(text)
                assert answer.status == NO_CONTENT, (answer.status, answer.body)
        finally:
            await connection.close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
