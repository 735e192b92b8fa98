"""The example that needs no more than Kafka's client and the registry, on the topics of a cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from producers.status import StatusProducer
from quadlog import codec
from quadlog.broker import Admin, KafkaOutlet, end_of
from quadlog.core.model import hash_of
from quadlog.core.records import Heartbeat
from quadlog.topics import Topics
from tests.support.brokers import never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clusters.cluster import Cluster

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_audit.py"
FOUND_S = 20.0


@contextmanager
def running(
    cluster: Cluster, output: Path, repository: str, *dcs: str
) -> Iterator[Callable[[str], list[str]]]:
    """The example reads these data centres; a function that waits for lines that begin with a word."""
    kafkas = [f"{dc['name']}={dc['kafka']}" for dc in cluster.lab.dcs if dc["name"] in dcs]
    command = [sys.executable, str(EXAMPLE), f"{cluster.masters[0]}/registry", repository, *kafkas]

    def lines(word: str) -> list[str]:
        deadline = time.monotonic() + FOUND_S
        while not (found := [line for line in output.read_text().splitlines() if line.startswith(word)]):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)
        return found

    with output.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            yield lines
        finally:
            process.kill()


def test_all_workers_are_right(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.update("INSERT DATA { <urn:plain> <urn:is> 1 }").is_success
    cluster.wait_until_equal()
    with running(cluster, tmp_path / "output", "main", "dc1", "dc2", "dc3") as lines:
        assert {lines(f"right {worker} ")[0].split()[1] for worker in cluster.workers} == {*cluster.workers}
        assert "WRONG" not in (tmp_path / "output").read_text()


def test_a_wrong_one_is_found(cluster: Cluster, tmp_path: Path) -> None:
    """In a copy of the topics, so that the cluster stays as it is."""
    assert cluster.update("INSERT DATA { <urn:plain> <urn:is> 2 }").is_success
    cluster.wait_until_equal()
    kafka, here, copied = cluster.lab.dcs[0]["kafka"], Topics("main", "dc1"), Topics("copied", "dc1")
    Admin(kafka).ensure([copied.effects, copied.status], replication=1, config={})
    outlet = KafkaOutlet(kafka, client="copies", failed=never)
    _, effects = end_of(kafka, here.effects, count=500)
    for record in effects:
        outlet.produce(copied.effects, key=record.key, values=[record.value], headers=record.headers)
    _, beats = end_of(kafka, here.status, count=1)
    beat = codec.decode(beats[0].value)
    assert isinstance(beat, Heartbeat)
    StatusProducer(outlet, copied.status).publish(replace(beat, signature=hash_of(b"wrong")))
    outlet.flush()
    outlet.close()
    with running(cluster, tmp_path / "output", "copied", "dc1") as lines:
        assert lines("WRONG") == [f"WRONG {beat.worker} {beat.applied.index} {hash_of(b'wrong').hex()}"]
