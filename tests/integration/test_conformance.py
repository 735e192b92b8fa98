"""What the store does otherwise than SPARQL 1.1: a row of docs/conformance.md each.

A test that fails here says that a new version of pyoxigraph was mended: delete the row and the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.workers.rehearsal import Log, Worker
from tests.support.workers.stores import rows

if TYPE_CHECKING:
    from collections.abc import Iterator

RING = " ".join(f"<urn:n{n}> <urn:next> <urn:n{(n + 1) % 40}> ." for n in range(40))

PATHS: dict[str, list[str]] = {
    "<urn:absent> <urn:next>* ?x": [],  # 18.4: <urn:absent>
    "<urn:absent> <urn:next>? ?x": [],  # 18.4: <urn:absent>
    "?x <urn:next>* <urn:absent>": [],  # 18.4: <urn:absent>
    "<urn:absent> <urn:next>* <urn:absent> BIND(<urn:yes> AS ?x)": [],  # 18.4: <urn:yes>
}
"""Of length zero, of a term that is in no triple."""

GOOD: dict[str, list[str]] = {
    "VALUES ?x { <urn:absent> } ?x <urn:next>? ?x": [],  # W3C test values_and_path
    "<urn:n0> <urn:next>? ?x": ["urn:n0", "urn:n1"],
    "<urn:n0> (<urn:next>/<urn:next>)+ ?x FILTER(?x = <urn:n38>)": ["urn:n38"],
    "<urn:n0> ((<urn:next>+)+)+ ?x": sorted(f"urn:n{n}" for n in range(40)),
    "<urn:n0> (<urn:next>|^<urn:next>)* ?x": sorted(f"urn:n{n}" for n in range(40)),
}
"""As SPARQL has it."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(tmp_path_factory.mktemp("conformance"), Log(), "w1")
    worker.take_over()
    worker.log.agree(f"INSERT DATA {{ {RING} GRAPH <urn:g> {{ {RING} }} }}")
    worker.catch_up()
    yield worker
    worker.close()


@pytest.mark.parametrize("group", ["%s", "GRAPH <urn:g> { %s }"])
@pytest.mark.parametrize(("path", "wanted"), (PATHS | GOOD).items(), ids=PATHS | GOOD)
def test_paths_in_queries_and_updates(worker: Worker, path: str, wanted: list[str], group: str) -> None:
    where = group % path
    assert rows(worker.store, f"SELECT ?x {{ {where} }}") == wanted
    worker.log.agree(f"INSERT {{ GRAPH <urn:found> {{ ?x a <urn:Found> }} }} WHERE {{ {where} }}")
    worker.catch_up()
    assert rows(worker.store, "SELECT ?x { GRAPH <urn:found> { ?x a <urn:Found> } }") == wanted
    worker.log.agree("CLEAR GRAPH <urn:found>")
    worker.catch_up()
