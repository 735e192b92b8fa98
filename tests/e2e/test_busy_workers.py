"""Updates that keep workers busy for seconds."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters.cluster import (
    HTTP,
    Cluster,
    all_equal,
    applied_key,
    counted,
    lines_with,
    name,
)
from tests.support.clusters.statements import send
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from pathlib import Path

TURTLE = "text/turtle"
LONG = ((60_000, 280), (180_000, 60))
"""Quads, and the width of each: so many that an effect is applied in pieces."""


@pytest.mark.parametrize(
    ("dcs", "quads", "width"),
    [(1, 60_000, 280), *(pytest.param(2, *each, marks=pytest.mark.soak) for each in LONG)],
)
def test_twenty_megabytes(tmp_path: Path, dcs: int, quads: int, width: int) -> None:
    """Nobody is replaced: else the successor would be busy as well, be replaced in turn, and so on for ever.

    In a small cluster: every worker takes seconds of CPU for it.  Two of one data centre, of which one could replace
    the other; one in each of two data centres in the soak, since that megabytes come to others is test_sizes.py's.
    """
    with BROKERS.lab(tmp_path / "lab", dcs=dcs, workers=2 // dcs) as lab:
        cluster, graph = Cluster(lab), name()
        assert cluster.update(f"INSERT DATA {{ {name()} <urn:is> 'the first' }}").status_code == 204
        cluster.wait_until_equal()
        attempts = [state["attempt"] for state in states(cluster)]
        lines = "".join(f'<urn:large:{n}> <urn:is> "{n:0>{width}} and more" .\n' for n in range(quads))
        assert len(lines) > 18_000_000
        key = f"large/{uuid.uuid4()}"
        began = time.monotonic()
        answer = send(
            cluster, "PUT", lines, TURTLE, given={"context": graph}, master=dcs - 1, Idempotency_Key=key
        )
        assert answer.status_code in {204, 504}, answer.text  # it may take longer than request-timeout
        applied_key(cluster, key, master=dcs - 1)
        print(f"applied after {time.monotonic() - began:.1f} s")
        for url in cluster.workers.values():
            assert counted(url, f"GRAPH {graph} {{ ?s ?p ?o }}") == quads
        key = f"large/{uuid.uuid4()}"
        send(cluster, "DELETE", given={"context": graph}, Idempotency_Key=key)
        applied_key(cluster, key)
        assert not lines_with(cluster, "<urn:large:")
        all_equal(cluster)
        assert [state["attempt"] for state in states(cluster)] == attempts
        assert not any(state["void_effects"].get("old attempt") for state in states(cluster))


def states(cluster: Cluster) -> list[dict[str, Any]]:
    """What the workers say of themselves."""
    return [HTTP.get(f"{url}/status", timeout=30).json() for url in cluster.workers.values()]
