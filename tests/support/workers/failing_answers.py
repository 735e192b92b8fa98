"""A worker's door whose reading processes are killed in the middle of answers, and what clients make of that."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

from quadlog.kafka.ports import free_ports
from quadlog.web.server import config_of
from tests.support.cut_answers import behind_nginx, killing
from tests.support.workers.served import served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from tests.support.cut_answers import Client, Doors, Format

KILLS: Final = int(os.environ.get("CUT_ANSWERS", "100"))
"""For each format and way, in a long version."""

_REFUSED: Final = re.compile(r"\b50\d\b")


@asynccontextmanager
async def doors(path: Path) -> AsyncIterator[Doors]:
    """A worker's door, and nginx before it."""
    [port] = free_ports(1)
    async with served(path, quads=100, most=4) as here:
        config = config_of(here.app, shutdown_s=1)
        config.port = port
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            with behind_nginx(f"http://127.0.0.1:{port}", path / "nginx") as found:
                yield found
        finally:
            server.should_exit = True
            await task


def check_by_library(found: Doors, way: str, client: Client, form: Format) -> bool:
    """That a client takes no part for the whole; whether it had a part at all, and not an error's status."""
    with killing(found.direct, form) as query:
        try:
            client(way, query, form)
        except Exception as error:  # noqa: BLE001 - each client has its own; kept, it would keep a connection open
            return _REFUSED.search(str(error)) is None
    raise AssertionError(f"a part was taken for the whole: {query}")


async def in_turns(checks: Iterable[Callable[[], bool]]) -> list[bool]:
    """What they say.  Four at a time: the worker has so many processes."""
    turns = asyncio.Semaphore(4)

    async def one(check: Callable[[], bool]) -> bool:
        async with turns:
            return await asyncio.to_thread(check)

    return await asyncio.gather(*map(one, checks))
