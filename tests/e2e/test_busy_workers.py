"""Updates that keep workers busy for seconds."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters.cluster import (
    HTTP,
    UPDATE,
    Cluster,
    all_equal,
    applied_key,
    counted,
    lines_with,
    name,
)
from tests.support.clusters.statements import send
from tests.support.labs import BROKERS

if TYPE_CHECKING:
    from pathlib import Path

TURTLE = "text/turtle"


@pytest.mark.parametrize(
    ("quads", "width"), [(60_000, 280), pytest.param(180_000, 60, marks=pytest.mark.soak)]
)
def test_twenty_megabytes(tmp_path: Path, quads: int, width: int) -> None:
    """In a smaller cluster: every worker takes seconds of CPU for it, and more of them would show nothing more.

    So many quads that an effect is applied in pieces.
    """
    with BROKERS.lab(tmp_path / "lab", dcs=2, workers=1) as lab:
        cluster, graph = Cluster(lab), name()
        lines = "".join(f'<urn:large:{n}> <urn:is> "{n:0>{width}} and more" .\n' for n in range(quads))
        assert len(lines) > 18_000_000
        key = f"large/{uuid.uuid4()}"
        answer = send(cluster, "PUT", lines, TURTLE, given={"context": graph}, master=1, Idempotency_Key=key)
        assert answer.status_code in {204, 504}, answer.text  # it may take longer than request-timeout
        applied_key(cluster, key, master=1)
        for url in cluster.workers.values():
            assert counted(url, f"GRAPH {graph} {{ ?s ?p ?o }}") == quads
        key = f"large/{uuid.uuid4()}"
        send(cluster, "DELETE", given={"context": graph}, Idempotency_Key=key)
        applied_key(cluster, key)
        assert not lines_with(cluster, "<urn:large:")
        all_equal(cluster)


def test_a_worker_that_is_busy_for_seconds_is_not_replaced(tmp_path: Path) -> None:
    """Else its successor would be busy as well, be replaced in turn, and so on for ever."""
    subject, graph = name(), name()
    with BROKERS.lab(tmp_path / "lab", dcs=1, workers=2) as lab:
        cluster = Cluster(lab)
        assert cluster.update(f"INSERT DATA {{ {subject} <urn:is> 'the first' }}").status_code == 204
        cluster.wait_until_equal()
        attempts = {HTTP.get(f"{url}/status").json()["attempt"] for url in cluster.workers.values()}
        quads = "\n".join(f'{subject} <urn:has> "{number} {"x" * 60}" .' for number in range(80_000))
        key = {"Idempotency-Key": str(uuid.uuid4())}
        answer = HTTP.post(
            f"{cluster.masters[0]}/update",
            content=f"INSERT DATA {{ GRAPH {graph} {{ {quads} }} }}",
            headers=UPDATE | key,
        )
        assert answer.status_code in {204, 504}, answer.text  # it may take longer than request-timeout
        applied_key(cluster, key["Idempotency-Key"])
        for url in cluster.workers.values():
            status = HTTP.get(f"{url}/status", timeout=30).json()
            assert {status["attempt"]} == attempts
            assert not status["void_effects"].get("old attempt")
