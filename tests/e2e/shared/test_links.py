"""The links between the data centres of a real cluster: cut, healed, one way, slow."""

from __future__ import annotations

import json
import threading
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from tests.support.clusters.cluster import PATIENCE_S, Cluster, name, objects
from tests.support.labs import RunningLab, quadlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx


@pytest.fixture
def lab(cluster: Cluster) -> Iterator[RunningLab]:
    """The shared cluster's lab; its links are as before when the test ends."""
    try:
        yield cluster.lab
    finally:
        cluster.heal()
        for one, other in (("dc1", "dc2"), ("dc1", "dc3"), ("dc2", "dc3")):
            cluster.slow(one, other, latency_ms=0, rate_mbit=0)
        cluster.wait_until_equal()


class Write:
    """An update that somebody waits for."""

    def __init__(self, cluster: Cluster, master: int) -> None:
        """Send it."""
        self.subject = name()
        self.answer: httpx.Response | None = None
        self.answered_at = 0.0
        self._cluster, self._master = cluster, master
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        self.answer = self._cluster.update(
            f"INSERT DATA {{ {self.subject} <urn:is> 1 }}", master=self._master
        )
        self.answered_at = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Wait for the answer; say whether it came."""
        self._thread.join(seconds)
        return self.answer is not None


def peers(cluster: Cluster, master: int) -> dict[str, str]:
    """How a master sees its peers."""
    return {peer["id"]: peer["state"] for peer in cluster.status(master)["peers"]}


def wait_for_peers(cluster: Cluster, master: int, **states: str) -> None:
    """Wait until a master sees its peers so."""
    wanted = {f"{dc}-m1": state for dc, state in states.items()}
    deadline = time.monotonic() + PATIENCE_S
    while (seen := peers(cluster, master)) != wanted:
        assert time.monotonic() < deadline, seen
        time.sleep(0.1)


def states(cluster: Cluster) -> list[dict[str, Any]]:
    """How the links are, without the counts."""
    counts = ("connections", "waiting", "bytes")
    return [{key: link[key] for key in link.keys() - counts} for link in cluster.links()]


def test_what_is_written_in_a_cut_waits_and_is_agreed_after_it(cluster: Cluster, lab: RunningLab) -> None:
    before = cluster.wait_until_equal()
    assert "dc1 - dc2: cut" in lab.links("cut", "dc2", "dc1")
    assert "dc1 - dc3: cut" in lab.links("cut", "dc1", "dc3")
    writes = [Write(cluster, master) for master in (0, 1)]
    wait_for_peers(cluster, 0, dc2="silent", dc3="silent")
    wait_for_peers(cluster, 1, dc1="silent", dc3="connected")
    wait_for_peers(cluster, 2, dc1="silent", dc2="connected")
    assert not any(write.wait(1) for write in writes)
    assert {cluster.status(master)["agreed_index"] for master in range(3)} == {before}
    healed = time.monotonic()
    said = lab.links("heal")
    assert "dc1 - dc2: open" in said
    assert "dc1 - dc3: open" in said
    for write in writes:
        assert write.wait(10)
        assert write.answer is not None
        assert write.answer.status_code == 204
        print(f"answered {write.answered_at - healed:.2f} s after `lab heal` was called")
    assert cluster.wait_until_equal() == before + 2
    for url in cluster.workers.values():
        assert [objects(url, write.subject) for write in writes] == [["1"]] * 2


def test_one_way(cluster: Cluster, lab: RunningLab) -> None:
    assert "dc1 - dc2: what dc1 says is cut off" in lab.links("cut", "dc1", "dc2", "--one-way")
    wait_for_peers(cluster, 1, dc1="relayed", dc3="connected")
    wait_for_peers(cluster, 0, dc2="connected", dc3="connected")
    lab.links("heal")
    wait_for_peers(cluster, 1, dc1="connected", dc3="connected")


def test_latency_makes_a_write_wait_for_two_ways(cluster: Cluster, lab: RunningLab) -> None:
    def seconds() -> list[float]:
        taken: list[float] = []
        for _ in range(9):
            began = time.monotonic()
            assert cluster.update(f"INSERT DATA {{ {name()} <urn:is> 1 }}").status_code == 204
            taken.append(time.monotonic() - began)
        return taken

    without = seconds()
    for one, other in (("dc1", "dc2"), ("dc1", "dc3"), ("dc2", "dc3")):
        assert "40 ms each way" in lab.links("link", one, other, "--latency-ms", "40")
    slow = seconds()
    half = [median(taken) for taken in (without, slow)]
    print(f"one update: {half[0] * 1000:.0f} ms, with 40 ms each way: {half[1] * 1000:.0f} ms")
    # Not the difference: on a busy machine the link's delay passes while the update waits for a core.
    assert min(slow) >= 0.08, "its payload goes one way, the peers' posts come the other"
    assert half[1] - half[0] < 1.0


def test_rate_holds_a_large_update_back(cluster: Cluster, lab: RunningLab) -> None:
    lab.links("link", "dc1", "dc2", "--rate-mbit", "4")
    text = f"INSERT DATA {{ {name()} <urn:is> '{'x' * 1_000_000}' }}"
    began = time.monotonic()
    assert cluster.update(text).status_code == 204
    took = time.monotonic() - began
    print(f"1 MB through 4 Mbit/s: {took:.1f} s")
    assert took >= 1.6


def test_the_links_process_is_killed_and_comes_back_with_its_cuts(cluster: Cluster, lab: RunningLab) -> None:
    lab.links("cut", "dc2", "dc3", "--one-way")
    lab.links("link", "dc1", "dc3", "--latency-ms", "3", "--rate-mbit", "50")
    assert "exited(-9)" in lab.kill("links")
    for master, others in enumerate((("dc2", "dc3"), ("dc1", "dc3"), ("dc1", "dc2"))):
        wait_for_peers(cluster, master, **dict.fromkeys(others, "silent"))
    write = Write(cluster, 1)
    refused = quadlog("lab", "heal", "--dir", str(lab.directory))
    assert refused.returncode == 1
    assert refused.stderr == "Unavailable: the links are exited(-9): quadlog lab start links\n"
    assert "ready in" in lab.start("links")
    assert "dc1 - dc3: open, 3 ms each way, 50 Mbit/s each way" in lab.links("link", "dc1", "dc3")
    wait_for_peers(cluster, 2, dc1="connected", dc2="relayed")
    assert write.wait(10), "what dc2 says comes to dc3 by way of dc1"
    lab.links("heal")
    wait_for_peers(cluster, 2, dc1="connected", dc2="connected")
    assert lab.data["links"]["pid"] in lab.pids()


def test_kafkas_clients_are_kept_on_the_link(cluster: Cluster, lab: RunningLab) -> None:
    ports = json.loads((lab.directory / "lab.json").read_text())["ports"]
    door = ports["links/dc2>broker-dc1"]
    options: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{door}", "group.id": "test"}
    consumer = Consumer(options)
    try:
        brokers: dict[int, Any] = consumer.list_topics(timeout=10).brokers
        assert [broker.port for broker in brokers.values()] == [door]
    finally:
        consumer.close()
    assert door not in {int(dc["kafka"].rpartition(":")[2]) for dc in cluster.lab.dcs}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cut dc1 dc9", "UserError: the lab has no data centre dc9; it has dc1, dc2, dc3"),
        ("cut dc2 dc2", "UserError: dc2 has no link to itself"),
        ("heal dc1", "UserError: a link has two ends"),
        ("heal dc1 dc1", "UserError: dc1 has no link to itself"),
        ("link dc4 dc1", "UserError: the lab has no data centre dc4"),
        ("link dc1 dc2 --latency-ms -1", "UserError: a latency is 0 to 60000 ms, not -1"),
        ("link dc1 dc2 --latency-ms nan", "UserError: a latency is 0 to 60000 ms, not nan"),
        (
            "link dc1 dc2 --rate-mbit -1",
            "UserError: a rate is 0.01 Mbit/s or more, or 0 for no limit, not -1",
        ),
        ("link dc1 dc2 --rate-mbit inf --latency-ms 9", "UserError: a rate is 0.01"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    cluster: Cluster, lab: RunningLab, command: str, said: str
) -> None:
    before = states(cluster)
    failed = quadlog("lab", *command.split(), "--dir", str(lab.directory))
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.startswith(said)
    assert failed.stderr.count("\n") == 1
    assert states(cluster) == before


def test_without_a_running_lab(tmp_path: Path) -> None:
    for command in ("cut dc1 dc2", "heal", "link dc1 dc2"):
        failed = quadlog("lab", *command.split(), "--dir", str(tmp_path))
        assert failed.returncode == 1
        assert "is no lab's directory" in failed.stderr
        assert failed.stderr.count("\n") == 1
