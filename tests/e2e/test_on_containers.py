"""The same cluster as elsewhere in these tests, in a container: agreement, a split, catching up, and a job on Spark."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from quadlog.replay.bundle import BundleManifest
from quadlog.testing import QuadlogCluster
from tests.support.clusters.cluster import records, recount, until
from tests.support.clusters.compose import build, composed, needs_docker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters.compose import Compose

pytestmark = [
    pytest.mark.long("an image is built, and a cluster starts in a container"),
    pytest.mark.timeout(1200),
]

IMAGE = "quadlog:test-on-containers"
SPARK = "spark://127.0.0.1:7077"
AWAY, AT_ONCE, WRITERS = 100, 60, 12
SPARK_S = 120.0
BESIDE = """
services:
  spark-master:
    networks: !reset null
    network_mode: container:{container}
    ports: !reset null
    command: [org.apache.spark.deploy.master.Master, --host, 127.0.0.1]
  spark-worker:
    networks: !reset null
    network_mode: container:{container}
    command: [org.apache.spark.deploy.worker.Worker, "{spark}"]
    deploy: {{replicas: 1}}
  job:
    networks: !reset null
    network_mode: container:{container}
"""
"""The profile `spark` on the network of the cluster's container."""


@pytest.fixture(scope="module")
def shared() -> Iterator[QuadlogCluster]:
    needs_docker()
    build(IMAGE)
    settings = {"max-peer-lag": 3, "catch-up": "compacted"}
    with QuadlogCluster(3, 1, 2, settings, backend="docker", image=IMAGE) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: QuadlogCluster) -> QuadlogCluster:
    shared.reset()
    return shared


def docker(*arguments: str) -> list[str]:
    """Lines of what `docker` says."""
    said = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=60)
    return said.stdout.split()


def container() -> str:
    """The cluster's."""
    filters = ("--filter", f"ancestor={IMAGE}", "--filter", "label=org.testcontainers=true")
    [found] = docker("ps", "--quiet", *filters)
    return found


def write(cluster: QuadlogCluster, master: str, *subjects: str) -> int:
    """Status of an update that inserts a quad for each subject."""
    quads = " ".join(f"<urn:{subject}> a <urn:Thing> ." for subject in subjects)
    body = {"update": f"INSERT DATA {{ {quads} }}"}
    return httpx.post(f"{cluster.urls[master]}/update", data=body, timeout=30).status_code


def subjects(cluster: QuadlogCluster) -> set[str]:
    """What all workers have, which is the same."""
    cluster.wait_equal()
    [(signature, *lines)] = {
        (signature, *sorted(lines))
        for signature, lines in (recount(cluster.urls[worker]) for worker in cluster.workers)
    }
    assert {state.signature for state in cluster.signatures().values()} == {signature}
    return {line.split()[0].removeprefix("<urn:").removesuffix(">") for line in lines}


def agreed(cluster: QuadlogCluster, dc: str) -> list[tuple[bytes | None, bytes | None]]:
    """What a data centre's agreed topic contains, after the changes of writers in it."""
    found = records(cluster.kafka[dc], f"main.{dc}.agreed")
    return [(record.key(), record.value()) for record in found if record.value() and record.key() != b"cut"]


def test_three_masters_agree_on_one_order(cluster: QuadlogCluster) -> None:
    """Updates that depend on their order, at all masters at once: the logs are the same byte by byte."""

    def swap(number: int) -> int:
        text = f"DELETE {{ <urn:last> <urn:is> ?o }} INSERT {{ <urn:last> <urn:is> {number} . <urn:n{number}> <urn:after> ?o }} WHERE {{ OPTIONAL {{ <urn:last> <urn:is> ?o }} }}"  # noqa: E501
        url = cluster.urls[cluster.masters[number % 3]]
        return httpx.post(f"{url}/update", data={"update": text}, timeout=30).status_code

    with ThreadPoolExecutor(WRITERS) as pool:
        assert {*pool.map(swap, range(AT_ONCE))} == {204}
    assert len(subjects(cluster)) == AT_ONCE, "the first one is after none, and one is the last"
    logs = [agreed(cluster, dc) for dc in cluster.kafka]
    assert len(logs[0]) >= AT_ONCE
    assert logs[1:] == logs[:-1]


def test_the_majority_continues_and_the_rest_comes_back(cluster: QuadlogCluster) -> None:
    cluster.cut("dc1", "dc3")
    cluster.cut("dc2", "dc3")
    until(lambda: write(cluster, "dc1-m1", "meanwhile") == 204)
    assert write(cluster, "dc3-m1", "refused") == 503
    assert write(cluster, "dc2-m1", "too") == 204
    cluster.heal()
    until(lambda: write(cluster, "dc3-m1", "healed") == 204)
    assert subjects(cluster) == {"meanwhile", "too", "healed"}


def test_a_worker_that_was_away_catches_up_by_a_bundle(cluster: QuadlogCluster) -> None:
    cluster.kill("dc2-w1")
    for number in range(AWAY):
        assert write(cluster, "dc2-m1", f"n{number}") == 204
    cluster.start("dc2-w1")
    assert subjects(cluster) == {f"n{number}" for number in range(AWAY)}
    assert docker(
        "exec", container(), "grep", "-c", "bundle_taken", "/var/lib/quadlog/lab/logs/dc2-w1.log"
    ) == ["1"]


@pytest.fixture
def spark(cluster: QuadlogCluster, tmp_path: Path) -> Iterator[Compose]:
    """The profile `spark` of compose.yaml, beside the cluster."""
    assert cluster.urls
    overlay = tmp_path / "beside.yaml"
    overlay.write_text(BESIDE.format(container=container(), spark=SPARK), encoding="utf-8")
    with composed(IMAGE, "spark-master", "spark-worker", overlays=[overlay]) as up:
        yield up


def test_the_log_is_compacted_by_a_spark_in_other_containers(
    cluster: QuadlogCluster, spark: Compose, tmp_path: Path
) -> None:
    assert write(cluster, "dc1-m1", *(f"n{number}" for number in range(AWAY))) == 204
    index = cluster.wait_equal()
    words = ["compact", "bundle", "--kafka", cluster.kafka["dc1"], "--dc", "dc1", "--spark", SPARK]
    spark.run("--profile", "spark", "run", "--rm", "--no-TTY", "job", *words, timeout=SPARK_S)
    spark.run("cp", "spark-master:/var/lib/quadlog/bundle", str(tmp_path / "bundle"))
    manifest = BundleManifest.read(tmp_path / "bundle")
    manifest.verify(tmp_path / "bundle")
    assert (manifest.after.index, manifest.after.quads) == (index, AWAY)
    assert {int(state.signature, 16) for state in cluster.signatures().values()} == {manifest.after.signature}
