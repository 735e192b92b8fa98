"""Logs that are shortened, and what is left of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from quadlog.broker import beginning_of
from quadlog.topics import Topics
from tests.support.clusters.cluster import PATIENCE_S, Cluster, recount, until
from tests.support.clusters.many import update_all

if TYPE_CHECKING:
    from tests.support.labs import RunningLab


LOOKS_S = 0.5
"""Between two looks at the limits."""


def write(cluster: Cluster, first: int, last: int, *, master: int = 0) -> None:
    """One update for each number: none fails."""
    subjects = ((f"<urn:s{number % 10}>", number) for number in range(first, last + 1))
    update_all(
        cluster,
        (
            f"DELETE WHERE {{ {subject} <urn:p> ?o }} ; INSERT DATA {{ {subject} <urn:p> {number} }}"
            for subject, number in subjects
        ),
        master=master,
    )


def beginnings(lab: RunningLab) -> list[int]:
    """Where the agreed and the effects topic of each data centre begin."""
    topics = [(dc["kafka"], Topics(lab.repository, dc["name"])) for dc in lab.dcs]
    return [beginning_of(kafka, name) for kafka, own in topics for name in (own.agreed, own.effects)]


def until_they_begin_behind(lab: RunningLab, offset: int, seconds: float = PATIENCE_S) -> None:
    """Every look takes clients of Kafka of its own, so it is not looked all the time."""

    def behind() -> bool:
        if min(beginnings(lab)) > offset:
            return True
        time.sleep(LOOKS_S)
        return False

    until(behind, seconds)


def check_one_state(cluster: Cluster) -> None:
    """After another update."""
    until(lambda: cluster.update("INSERT DATA { <urn:after> <urn:p> 1 }").status_code == 204)
    cluster.wait_until_equal()
    assert len({recount(url)[0] for url in cluster.workers.values()}) == 1
