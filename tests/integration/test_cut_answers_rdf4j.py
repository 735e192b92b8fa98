"""RDF4J's parsers take no answer that fails for a whole one, in every format, direct and behind nginx."""

from __future__ import annotations

import asyncio
import shutil
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

import pytest

from tests.support.cut_answers import FORMATS, Rdf4j
from tests.support.workers.failing_answers import KILLS, check_by_library, doors, in_turns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio


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
        had_a_part = await in_turns(islice(cycle(checks), KILLS * len(found.ways())))
    assert sum(had_a_part) > len(had_a_part) / 4
