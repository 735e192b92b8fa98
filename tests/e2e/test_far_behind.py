"""A data centre that was cut off for long comes back, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.bench.generator import closed_loop
from tests.support.clusters.cluster import Cluster, counted, until
from tests.support.shared_brokers import BROKERS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BEHIND = int(os.environ.get("TEST_BEHIND", "3000"))
"""Entries that the joiner lacks; 100,000 take some ten minutes."""
LAG_S = 3.0
"""`max-peer-lag` here."""
DELAY_S = 1.0
"""By which nobody else's update may be delayed."""

pytestmark = pytest.mark.alone


@dataclass
class Updates:
    """Of one client after the other at one master: when it was asked for, and how long that took."""

    cluster: Cluster
    master: int
    took: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """One update after the other, each acknowledged."""
        while not self._stop.is_set():
            began = time.monotonic()
            text = f"INSERT DATA {{ <urn:m{self.master}:{len(self.took)}> <urn:while> 1 }}"
            answer = self.cluster.update(text, master=self.master)
            assert answer.status_code == 204, answer.text
            self.took.append((began, time.monotonic() - began))
            self._stop.wait(0.1)

    def longest_s(self, since: float, until: float) -> float:
        """Of those asked for in between."""
        return max(seconds for began, seconds in self.took if since <= began < until)


@contextmanager
def updating(cluster: Cluster, masters: list[int]) -> Iterator[list[Updates]]:
    """A client at each of these masters, until the block ends."""
    clients = [Updates(cluster, master) for master in masters]
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    try:
        yield clients
    finally:
        for client in clients:
            client._stop.set()
        for thread in threads:
            thread.join()


def members(cluster: Cluster) -> list[int]:
    """Of each master's view how many they are."""
    return [len(cluster.status(number)["view"]["members"]) for number in range(3)]


@pytest.mark.long("a log long enough to be behind of it")
def test_a_joiner_that_is_far_behind_delays_nobody(tmp_path: Path) -> None:
    with BROKERS.lab(
        tmp_path / "lab", dcs=3, workers=1, environment={"QUADLOG_MAX_PEER_LAG": str(LAG_S)}
    ) as lab:
        cluster = Cluster(lab)
        for other in ("dc1", "dc2"):
            lab.links("cut", "dc3", other)
        until(lambda: members(cluster) == [2, 2, 1])
        texts = (f"INSERT DATA {{ <urn:s{number}> <urn:before> {number} }}" for number in itertools.count())
        lacks = 0
        while lacks < BEHIND:
            sent = asyncio.run(closed_loop(cluster.masters[:2], texts, clients=64, seconds=1))
            assert not sent.errors
            lacks += len(sent.latencies)
        until(lambda: cluster.status(0)["agreed_index"] >= lacks)
        with updating(cluster, [0, 1]) as clients:
            time.sleep(3)
            healed = time.monotonic()
            lab.links("heal")
            until(lambda: members(cluster) == [3, 3, 3], 600)
            joined = time.monotonic()
            time.sleep(2)
        ends = time.monotonic()
        index = cluster.wait_until_equal(seconds=600)
        usual = max(client.longest_s(0, healed) for client in clients)
        longest = max(client.longest_s(healed, ends) for client in clients)
        print(
            f"{lacks} entries behind: let in after {joined - healed:.1f} s, equal {time.monotonic() - healed:.1f} s"
            f" after the heal; the longest update of the others took {longest:.2f} s, before the heal {usual:.2f} s"
        )
        told = lacks + sum(len(client.took) for client in clients)
        assert index >= told
        assert counted(cluster.masters[2], "?s ?p ?o FILTER(?p IN (<urn:before>, <urn:while>))") == told
        assert longest < usual + DELAY_S
