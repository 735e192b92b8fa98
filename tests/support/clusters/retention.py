"""Alarms of topics whose records are deleted."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from quadlog.errors import QuadlogError
from tests.support.clusters.cluster import Cluster, name


def alarms(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    return [alarm for alarm in cluster.status(0)["alarms"] if alarm["name"] == kind]


def insert(cluster: Cluster, count: int, master: int = 0) -> list[str]:
    subjects = [name() for _ in range(count)]
    for subject in subjects:
        answer = cluster.update(f"INSERT DATA {{ {subject} <urn:is> 'there' }}", master=master)
        assert answer.status_code == 204, answer.text
    return subjects


def begin_to_start(cluster: Cluster, *nodes: str) -> None:
    """Do not wait until they are ready: they may never be."""

    def start(node: str) -> None:
        with suppress(QuadlogError):
            cluster.lab.start(node)

    for node in nodes:
        threading.Thread(target=start, args=(node,), daemon=True).start()
