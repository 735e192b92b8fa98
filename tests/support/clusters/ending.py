"""What there is to be seen of a cluster that was apart, once all hear each other again."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tests.support.clusters.cluster import HTTP, Cluster, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters.appends import Amiss, Appends
    from tests.support.labs import RunningLab

AGAIN_S = 30.0
"""Within which all is one again, once all hear each other."""


def views(cluster: Cluster) -> list[tuple[int, tuple[str, ...]]]:
    """Of each master the epoch and the members of its view."""
    found = (cluster.status(number)["view"] for number in range(len(cluster.masters)))
    return [(view["epoch"], tuple(view["members"])) for view in found]


def one_view(cluster: Cluster, *, members: int) -> bool:
    """Whether all masters are in one view of so many."""
    found = set(views(cluster))
    return len(found) == 1 and len(next(iter(found))[1]) == members


def nothing_waits(cluster: Cluster) -> bool:
    """Whether all that came in is ordered."""
    return not any(cluster.status(number)["incoming"] for number in range(len(cluster.masters)))


@contextmanager
def in_turn(lab: RunningLab) -> Iterator[Cluster]:
    """A lab that tests use one after the other: it is whole before each, and is mended after one that failed."""
    cluster = Cluster(lab)
    assert set(lab.states().values()) == {"running"}
    until(lambda: one_view(cluster, members=len(cluster.masters)) and nothing_waits(cluster))
    cluster.wait_until_equal()
    try:
        yield cluster
    finally:
        if len(lab.dcs) > 1:
            cluster.heal()
        for node, state in lab.states().items():
            if state == "stopped":
                lab.kill(node, "CONT")
            elif state != "running":
                lab.start(node)


class Ending(NamedTuple):
    """How it ended."""

    views: set[tuple[int, tuple[str, ...]]]
    """Of the masters."""
    chains: set[str]
    """At the ends of their logs."""
    signatures: set[str]
    """Of all workers."""
    seconds: float
    """From the heal until all was equal."""
    amiss: Amiss


def ending(cluster: Cluster, appends: Appends, healed: float) -> Ending:
    """Stop the clients once there is one view of all, and wait until all is equal."""
    until(lambda: one_view(cluster, members=len(cluster.masters)), AGAIN_S - (time.monotonic() - healed))
    print(f"one view {time.monotonic() - healed:.1f} s after the heal: {views(cluster)[0]}")
    appends.stop()
    until(lambda: nothing_waits(cluster), max(1.0, AGAIN_S - (time.monotonic() - healed)))
    cluster.wait_until_equal(seconds=max(1.0, AGAIN_S - (time.monotonic() - healed)))
    seconds = time.monotonic() - healed
    print(f"equal {seconds:.1f} s after the heal")
    return Ending(
        views=set(views(cluster)),
        chains=cluster.chains(),
        signatures={HTTP.get(f"{url}/status").json()["signature"] for url in cluster.workers.values()},
        seconds=seconds,
        amiss=appends.amiss(),
    )
