"""Trouble with workers, as whoever watches a lab sees it."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
from structlog.processors import LogfmtRenderer

from tests.support.clusters.cluster import PATIENCE_S, Cluster, index_of

if TYPE_CHECKING:
    from collections.abc import Iterator

RENDERED = LogfmtRenderer(bool_as_flag=False)
"""Fields, as `quadlog.logs` has them in a line."""
TOLD_S = 5.0
"""Within which trouble has to be told."""


def alarms(cluster: Cluster) -> list[dict[str, Any]]:
    """What the master tells, but that it has no witness: that is of the shape of a cluster, and lasts."""
    found: list[dict[str, Any]] = cluster.status()["alarms"]
    return [alarm for alarm in found if alarm["name"] != "no-witness"]


def told(cluster: Cluster, *names: str, seconds: float | None = None) -> list[dict[str, Any]]:
    """Wait until these alarms, as "name worker", are raised, and no others.

    Trouble has to be told soon; that there is none any more takes as long as a worker needs to catch up.
    """
    began = time.monotonic()
    deadline = began + (seconds or (TOLD_S if names else PATIENCE_S))
    while True:
        found = alarms(cluster)
        if [f"{alarm['name']} {alarm['worker']}" for alarm in found] == list(names):
            print(f"{', '.join(names) or 'no alarm'}: told after {time.monotonic() - began:.2f} s")
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


@contextmanager
def reads_served(cluster: Cluster) -> Iterator[None]:
    """Reads at the master go on, and none fails or shows too little."""
    stop, failures, count = threading.Event(), [], 0
    first = Cluster.status(cluster)["settled_index"]

    def read() -> None:
        nonlocal count
        with httpx.Client(timeout=10) as client:
            while not stop.is_set():
                answer = client.get(
                    f"{cluster.masters[0]}/sparql",
                    params={"query": "SELECT (COUNT(*) AS ?n) { ?s <urn:p> ?o }"},
                )
                count += 1
                if answer.status_code != 200 or index_of(answer) < first:
                    failures.append(answer.text)
                time.sleep(0.05)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures, failures[:3]
    assert count > 5


def logged(cluster: Cluster, event: str, who: str = "dc1-m1", **fields: object) -> int:
    """How often a log has an event, with these fields among others."""
    tokens = [f" {RENDERED(None, '', {key: value})} " for key, value in {"event": event, **fields}.items()]
    log = (
        (cluster.lab.directory / "logs" / f"{who}.log").read_bytes()[cluster.log_ends.get(who, 0) :].decode()
    )
    return sum(all(token in f"{line} " for token in tokens) for line in log.splitlines())


def printed(cluster: Cluster, text: str, who: str) -> int:
    """How often a log has a part of an error's text: of one that a process ends with, as an operator reads it."""
    return (cluster.lab.directory / "logs" / f"{who}.log").read_text().count(text)
