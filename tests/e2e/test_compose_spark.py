"""The profile `spark` of compose.yaml: executors in containers of their own compact a million effects, and foresee."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from quadlog.kafka.ports import free_ports
from quadlog.replay.bundle import BundleManifest, LastWord
from tests.bench.catching_up import made
from tests.support.clusters.compose import build, composed, needs_docker
from tests.support.masters.random_effects import RandomTopic, with_small_chunks
from tests.support.split_logs import DCS, MAJORITY, MINORITY, SideLog, SplitTopics, quad
from tests.support.workers.replayed import agreed_for, produced, said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters.compose import Compose

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.long("an image is built, and a million effects are made and compacted"),
]

IMAGE = "quadlog:test-spark"
EFFECTS, SUBJECTS = 1_000_000, 100_000
COMPACT_S = 600.0
SPLIT = 2_000
"""Updates of each side of a split."""
CLUSTER = "spark://spark-master:7077"
PUBLISHED = """
services:
  kafka-dc1:
    environment:
      KAFKA_LISTENERS: DC://:9092,WAN://:9094,CONTROLLER://:9093,HOST://:9095
      KAFKA_ADVERTISED_LISTENERS: DC://kafka.dc1:9092,WAN://kafka.dc1.wan:9094,HOST://127.0.0.1:{port}
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: DC:PLAINTEXT,WAN:PLAINTEXT,CONTROLLER:PLAINTEXT,HOST:PLAINTEXT
    ports: ["127.0.0.1:{port}:9095"]
"""


@pytest.fixture(scope="module")
def kafka() -> str:
    """The Kafka of dc1, for this process."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(scope="module")
def compose(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compose]:
    needs_docker()
    build(IMAGE)
    overlay = tmp_path_factory.mktemp("compose") / "published.yaml"
    overlay.write_text(PUBLISHED.format(port=kafka.partition(":")[2]), encoding="utf-8")
    with composed(IMAGE, "kafka-dc1", "spark-master", "spark-worker", overlays=[overlay]) as up:
        yield up


def job(compose: Compose, command: str, target: str, repository: str, spark: str, *more: str) -> str:
    """Run a command of quadlog on a Spark; its output, which has no word about what is missing in the image."""
    options = [
        "--kafka",
        "kafka.dc1:9092",
        "--dc",
        "dc1",
        "--repository",
        repository,
        "--spark",
        spark,
        *more,
    ]
    words = ["--profile", "spark", "run", "--rm", "--no-TTY", "job", command, target, *options]
    output = compose.run(*words, timeout=COMPACT_S)
    assert "archive of its classes" not in output, (
        "the image says that there is none, so that nobody tries to make it"
    )
    return output


def fetched(
    compose: Compose, target: str, directory: Path
) -> tuple[BundleManifest, dict[LastWord, list[str]]]:
    """A bundle: its manifest without its files, which have been verified, and all lines in order."""
    compose.run("cp", f"spark-master:/var/lib/quadlog/{target}", str(directory / target))
    manifest = BundleManifest.read(directory / target)
    manifest.verify(directory / target)
    lines = said(directory / target, manifest)
    return replace(manifest, files=()), {word: sorted(some) for word, some in lines.items()}


def finished(compose: Compose) -> list[int]:
    """Cores of each application that has ended on the cluster."""
    state = httpx.get(f"{compose.spark}/json/").json()
    assert not state["activeapps"]
    return [app["cores"] for app in state["completedapps"] if app["state"] == "FINISHED"]


def test_a_million_effects_give_the_same_bundle_as_on_one_machine(
    compose: Compose, kafka: str, tmp_path: Path
) -> None:
    """The same states before and after and the same lines; which file has a line, and where, is Spark's affair."""
    repository = made(kafka, EFFECTS, SUBJECTS)
    print(job(compose, "compact", "alone", repository, "local[2]"))
    assert finished(compose) == []
    print(job(compose, "compact", "together", repository, CLUSTER))
    assert finished(compose) == [2], "a core of each worker"
    alone, together = fetched(compose, "alone", tmp_path), fetched(compose, "together", tmp_path)
    assert together == alone
    manifest, lines = together
    assert (manifest.effects, manifest.after.index) == (EFFECTS, EFFECTS)
    assert len(lines[LastWord.INSERTED]) == manifest.after.quads > SUBJECTS * 0.99


def test_what_is_archived_on_the_cluster_is_compacted_from_there(
    compose: Compose, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random effects: with all kinds of changes, and some in several records, which executors join in Python."""
    with_small_chunks(monkeypatch)
    topic = RandomTopic(random.Random(4))
    while topic.index < 200:
        topic.say()
    produced(kafka, topic.records, "archived.dc1.effects")
    agreed_for(kafka, topic.effects, "archived.dc1.agreed")
    job(compose, "archive", "archive", "archived", CLUSTER)
    job(compose, "compact", "from-archive", "archived", CLUSTER, "--archive", "archive")
    manifest, _ = fetched(compose, "from-archive", tmp_path)
    assert manifest.after.index == topic.index
    assert manifest.after.signature == topic.worlds[topic.index].signature()


def test_its_containers_have_no_rights_and_only_the_page_is_published(compose: Compose) -> None:
    names = compose.run(
        "--profile", "spark", "ps", "--format", "{{.Name}}", "spark-master", "spark-worker"
    ).split()
    assert len(names) == 3
    for found in json.loads(compose.docker("inspect", *names)):
        limits = found["HostConfig"]
        assert (limits["ReadonlyRootfs"], limits["CapDrop"], found["Config"]["User"]) == (
            True,
            ["ALL"],
            "quadlog",
        )
        published = [one for some in limits["PortBindings"].values() for one in some]
        assert [one["HostIp"] for one in published] == (["127.0.0.1"] if "master" in found["Name"] else [])


def previewed(compose: Compose, target: str, repository: str, directory: Path, spark: str) -> dict[str, Any]:
    """The preview that a Spark makes, without its time."""
    kafkas = [word for dc in DCS for word in ("--kafka", f"{dc}=kafka.dc1:9092")]
    words = ["split", "preview", target, *kafkas, "--repository", repository, "--spark", spark]
    compose.run("--profile", "spark", "run", "--rm", "--no-TTY", "job", *words, timeout=COMPACT_S)
    for name in ("report.json", "report.html", "report.ttl"):
        compose.run(
            "cp", f"spark-master:/var/lib/quadlog/{target}/{name}", str(directory / f"{target}.{name}")
        )
    report: dict[str, Any] = json.loads((directory / f"{target}.report.json").read_text())
    del report["made_at"]
    return report


def test_a_split_has_the_same_preview_on_one_machine_and_on_the_cluster(
    compose: Compose, kafka: str, tmp_path: Path
) -> None:
    topics, base = SplitTopics(kafka), SideLog()
    base.agree("what was there", inserted=[quad(f"urn:d{number}") for number in range(SPLIT)])
    ours, theirs = base.fork(MAJORITY), base.fork(MINORITY)
    for number in range(SPLIT):
        name = f"urn:d{number}"
        ours.agree(f'DELETE DATA {{ <{name}> <urn:p> "1" }}', deleted=[quad(name)])
        theirs.agree(f'INSERT DATA {{ <{name}> <urn:p> "1" , "2" }}', inserted=[quad(name, 2)])
    topics.apart(ours, theirs)
    topics.close()
    before = len(finished(compose))
    alone = previewed(compose, "one", topics.repository, tmp_path, "local[2]")
    together = previewed(compose, "several", topics.repository, tmp_path, CLUSTER)
    assert finished(compose)[before:] == [2], "a core of each worker"
    assert together == alone
    [branch] = alone["branches"]
    assert (branch["classes"], branch["disputed"]) == ({"opposite": SPLIT}, SPLIT)
