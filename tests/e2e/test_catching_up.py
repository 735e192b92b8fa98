"""A worker that was away takes what it lacks as one change, and goes on with the others."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.cluster import Cluster, ask, evaluating, recount, until
from tests.e2e.test_controls import put
from tests.e2e.trouble import logged
from tests.lab_helpers import running_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.alone

AWAY = 200
"""Updates while it is away."""


@contextmanager
def writing(cluster: Cluster) -> Iterator[list[float]]:
    """Updates, one after the other, and reads; how long each took."""
    took: list[float] = []
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            began = time.monotonic()
            number += 1
            answer = cluster.update(f"INSERT DATA {{ <urn:beside> <urn:p> {number} }}")
            assert answer.is_success, answer.text
            answer = ask(cluster.masters[0], "ASK { <urn:beside> ?p ?o }")
            assert answer.is_success, answer.text
            took.append(time.monotonic() - began)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield took
    finally:
        ended.set()
        thread.join()


def the_other(cluster: Cluster) -> str:
    """A worker that does not evaluate."""
    return next(name for name in cluster.workers if name != evaluating(cluster))


def test_a_worker_that_was_away_takes_a_bundle(tmp_path: Path) -> None:
    """Quads, graphs, a control and a rejected entry; it can evaluate afterwards, and holds the control then."""
    with running_lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        cluster.update("INSERT DATA { <urn:s> <urn:p> 0 . GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
        cluster.wait_until_equal()
        away = the_other(cluster)
        lab.kill(away)
        assert put(cluster, "one", "ASK { FILTER NOT EXISTS { <urn:no> ?p ?o } }").status_code < 300
        for number in range(AWAY):
            cluster.update(
                f"DELETE WHERE {{ <urn:s> <urn:p> ?o }} ; INSERT DATA {{ <urn:s> <urn:p> {number} }}"
            )
        assert cluster.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409
        cluster.update("DROP GRAPH <urn:g> ; CREATE GRAPH <urn:empty>")
        with writing(cluster) as took:
            lab.start(away, QUADLOG_CATCH_UP="compacted")
        assert logged(cluster, "took a bundle", away) == 1
        assert len(took) > 5
        print(f"{len(took)} updates and reads beside, the longest {max(took):.2f} s")
        cluster.wait_until_equal()
        signatures = {recount(url)[0] for url in cluster.workers.values()}
        assert len(signatures) == 1
        lab.kill(evaluating(cluster))
        until(lambda: evaluating(cluster) == away)
        assert cluster.update("INSERT DATA { <urn:no> <urn:p> 1 }").status_code == 409
        assert cluster.update("INSERT DATA { <urn:yes> <urn:p> 1 }").status_code == 204


def test_where_none_can_be_made_the_log_is_heard(tmp_path: Path) -> None:
    """No Spark at that address: the worker says so, and catches up effect by effect."""
    with running_lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        cluster.update("INSERT DATA { <urn:s> <urn:p> 0 }")
        cluster.wait_until_equal()
        away = the_other(cluster)
        lab.kill(away)
        cluster.update("INSERT DATA { <urn:s> <urn:p> 1 }")
        lab.start(away, QUADLOG_CATCH_UP="compacted", QUADLOG_SPARK_MASTER="nonsense")
        assert logged(cluster, "no bundle is taken", away) == 1
        cluster.wait_until_equal()
