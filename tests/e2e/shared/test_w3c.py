"""The W3C's tests of SPARQL 1.1 Update, through masters over HTTP; all of them in process: `test_w3c_updates.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyoxigraph as ox
import pytest

from tests.support.clusters.cluster import HTTP, Cluster, nothing_logged
from tests.support.w3c import Suite

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    suite = Suite()
    yield suite
    suite.close()


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_evaluation(cluster: Cluster, suite: Suite, every: int) -> None:
    """The state that a master shows after its answer is the W3C's; then all workers are equal."""
    wrong: dict[str, str] = {}
    tests = suite.evaluations[::every]
    for number, test in enumerate(tests):
        prepared = cluster.update(test.preparation, master=number % 3)
        assert prepared.status_code == 204, prepared.text
        answer = cluster.update(test.text, master=number % 3)
        lines = HTTP.get(f"{cluster.masters[number % 3]}/repositories/main/statements").text
        if answer.status_code != 204 or not test.is_met_by(ox.parse(lines, ox.RdfFormat.N_QUADS)):
            wrong[test.name] = answer.text or lines
    cluster.update("DROP ALL")
    cluster.wait_until_equal()
    print(f"{len(tests) - len(wrong)} of {len(tests)} as the W3C has them")
    assert not wrong
    assert len(suite.evaluations) == 94


def test_syntax(cluster: Cluster, suite: Suite) -> None:
    """Whatever is an update is agreed, and whatever is none is 400 before it is logged."""
    updates, others = ([t for t in suite.syntax if t.is_update is good] for good in (True, False))
    for number, test in enumerate(updates):
        answer = cluster.update(test.text, master=number % 3)
        # Rejected: some are about graphs that are not there, or may not be LOADed.
        assert answer.status_code in {204, 409}, (test.name, answer.text)
    with nothing_logged(cluster):
        for number, test in enumerate(others):
            answer = cluster.update(test.text, master=number % 3)
            assert (answer.status_code, answer.json()["error"]) == (400, "SyntaxRefused"), test.name
    cluster.update("DROP ALL")
    assert (len(updates), len(others)) == (42, 13)
