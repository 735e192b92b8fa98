"""An answer that cannot be completed is an error to its client, in every format, direct and behind nginx."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

import pytest
import uvicorn

from quadlog.kafka.ports import free_ports
from quadlog.server import config_of
from tests.support.cut_answers import (
    CLIENTS,
    FORMATS,
    NGINX,
    Doors,
    Rdf4j,
    behind_nginx,
    by_hand,
    document,
    killing,
)
from tests.support.raw_http import status_of
from tests.support.workers.served import served

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from tests.support.cut_answers import Client, Format

pytestmark = pytest.mark.anyio

KILLS: Final = int(os.environ.get("CUT_ANSWERS", "50"))
"""For each format and way, in each of the two long versions: a hundred in all, within the 30 minutes of a part of
`make soak`, also on a slow machine."""


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


def check_by_hand(found: Doors, way: str, form: Format, version: str) -> None:
    answer, is_whole = by_hand(found, way, form, version)
    if status_of(answer) != 200:
        assert status_of(answer) in {502, 503}, answer[:300]
        return
    body = document(answer)
    assert len(body) > 1000
    # nginx ends what it passes on to HTTP/1.0 without a length as if it were whole: only the document can tell.
    assert not is_whole or (version == "1.0" and way == found.nginx_1_1), answer[:300]
    with pytest.raises(Exception, match=r"."):
        form.read(body)


def check_by_library(found: Doors, way: str, client: Client, form: Format) -> None:
    with killing(found.direct, form) as query, pytest.raises(Exception, match=r"."):
        client(way, query, form)


async def in_turns(checks: Iterable[Callable[[], None]]) -> None:
    """Four at a time: the worker has so many processes."""
    turns = asyncio.Semaphore(4)

    async def one(check: Callable[[], None]) -> None:
        async with turns:
            await asyncio.to_thread(check)

    await asyncio.gather(*map(one, checks))


async def test_a_part_of_an_answer_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    """Each format directly, and one in each of the other ways."""
    async with doors(tmp_path) as found:
        others = [(way, version) for way in found.ways() for version in ("1.1", "1.0")][1:]
        tries = [(form, found.direct, "1.1") for form in FORMATS.values()]
        tries += [(form, *other) for form, other in zip(FORMATS.values(), others, strict=False)]
        await in_turns(partial(check_by_hand, found, way, form, version) for form, way, version in tries)
    if NGINX is None:
        pytest.skip("nginx is not installed: only the direct way was tried")


@pytest.fixture(scope="module")
def rdf4j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rdf4j]:
    if not (shutil.which("mvn") and shutil.which("java")):
        pytest.skip("Maven is not installed: RDF4J's parsers were not tried")
    client = Rdf4j(tmp_path_factory.mktemp("rdf4j"))
    yield client
    client.close()


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FORMATS)
async def test_of_a_hundred_answers_that_fail_rdf4j_takes_none_for_whole(
    tmp_path: Path, rdf4j: Rdf4j, name: str
) -> None:
    form = FORMATS[name]
    async with doors(tmp_path) as found:
        small = "CONSTRUCT WHERE" if form.query.startswith("CONSTRUCT") else "SELECT *"
        for way in found.ways():
            await asyncio.to_thread(rdf4j, way, f"{small} {{ ?a ?b ?c }}", form)
        checks = [partial(check_by_library, found, way, rdf4j, form) for way in found.ways()]
        await in_turns(islice(cycle(checks), KILLS * len(found.ways())))


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", FORMATS)
async def test_of_a_hundred_answers_that_fail_none_is_taken_for_whole(tmp_path: Path, name: str) -> None:
    """By a client by hand, over both versions of HTTP, and by client libraries; directly and behind nginx."""
    form = FORMATS[name]
    async with doors(tmp_path) as found:
        checks: list[Callable[[], None]] = []
        for way in found.ways():
            checks += [partial(check_by_hand, found, way, form, version) for version in ("1.1", "1.0")]
            checks += [partial(check_by_library, found, way, client, form) for client in CLIENTS]
        await in_turns(islice(cycle(checks), KILLS * len(found.ways())))
    if NGINX is None:
        pytest.skip("nginx is not installed: only the direct way was tried")
