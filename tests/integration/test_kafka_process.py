"""A real broker from jars: it starts, keeps what it acknowledged through kill -9, and has its tools."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from quadlog.errors import SetupError
from quadlog.kafka.jars import LOCK, cache_directory, locked, resolve
from quadlog.kafka.java import find_java
from quadlog.kafka.prepare import prepare
from quadlog.kafka.tool_names import TOOLS
from tests.support.labs import quadlog, running_broker

if TYPE_CHECKING:
    from concurrent.futures import Future


def _silent(line: str) -> None:
    del line


def create(bootstrap: str, topic: str) -> None:
    """Create a topic of one partition."""
    client = AdminClient({"bootstrap.servers": bootstrap})  # a client without a name ends at once
    new = [NewTopic(topic, 1, 1)]
    made: dict[str, Future[None]] = client.create_topics(new)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    made[topic].result(20)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """Produce, and wait until all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """Read `count` values from the topic's begin."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=20)]
    finally:
        consumer.close()


def test_acknowledged_records_survive_kill_9(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        create(broker.bootstrap, "t")
        produce(broker.bootstrap, "t", [b"one", b"two"])
        broker.kill()
        broker.start()
        produce(broker.bootstrap, "t", [b"three"])
        assert read(broker.bootstrap, "t", 3) == [b"one", b"two", b"three"]


def test_console_tools_see_what_clients_wrote(kafka: str) -> None:
    create(kafka, "console")
    produce(kafka, "console", [b"a", b"b"])
    listed = quadlog("kafka", "topics", "--bootstrap-server", kafka, "--list")
    assert "console" in listed.stdout.split()
    offsets = quadlog("kafka", "get-offsets", "--bootstrap-server", kafka, "--topic", "console")
    assert offsets.stdout.split() == ["console:0:2"]
    options = ("--topic", "console", "--from-beginning", "--max-messages", "2")
    consumed = quadlog("kafka", "console-consumer", "--bootstrap-server", kafka, *options)
    assert consumed.stdout.split() == ["a", "b"]
    configs = quadlog("kafka", "configs", "--bootstrap-server", kafka, "--describe", "--topic", "console")
    assert configs.returncode == 0, configs.stderr


def test_topics_are_not_created_by_mistake(kafka: str) -> None:
    client = AdminClient({"bootstrap.servers": kafka})
    client.list_topics("never-made", timeout=10)
    assert "never-made" not in client.list_topics(timeout=10).topics


def test_an_unknown_tool_is_answered_with_those_there_are() -> None:
    failed = quadlog("kafka", "topicz")
    assert failed.returncode == 1
    assert failed.stderr.startswith("UserError: Kafka has no tool topicz; there are: ")
    assert "console-consumer" in failed.stderr


@pytest.mark.parametrize("name", ["dump-log", "consumer-groups", "log-dirs", "storage"])
def test_tools_load(name: str) -> None:
    said = quadlog("kafka", name, "--help")
    assert "ClassNotFound" not in said.stderr
    assert "NoClassDefFound" not in said.stderr
    assert name in TOOLS


def test_without_java_one_line_says_what_to_install(tmp_path: Path) -> None:
    failed = quadlog("kafka", "setup", environment={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert "install Java 17 or newer" in failed.stderr


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    (tmp_path / "java").chmod(0o755)
    with pytest.raises(SetupError, match=r"needs Java 17 or newer, .* is 11\.0\.2"):
        find_java({"PATH": f"{tmp_path}:/bin:/usr/bin"})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for a Maven repository, with the jars of this machine's cache."""
    folder = tmp_path / "maven"
    here = prepare(_silent).jars
    for line in (files("quadlog.kafka") / LOCK).read_text().splitlines():
        kind, path, _, _ = line.split()
        (folder / path).parent.mkdir(parents=True)
        (folder / path).hardlink_to(here.home / kind / Path(path).name)
    monkeypatch.setenv("QUADLOG_MAVEN", folder.as_uri() + "/")
    return folder


def test_from_another_repository(tmp_path: Path, repository: Path) -> None:
    said = list[str]()
    jars = resolve(tmp_path / "cache", said.append)
    assert [path.name for path in jars.kafka] == [path.name for path in prepare(_silent).jars.kafka]
    assert str(repository) in said[0]
    assert said[-1] == "50 of 53 files are there"
    assert resolve(tmp_path / "cache", said.append) == jars
    assert not (tmp_path / "cache" / "downloads").exists()


@pytest.mark.parametrize("damage", ["absent", "shorter", "another", "unreachable"])
def test_a_failed_download_says_so(
    tmp_path: Path, repository: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = next(repository.rglob("kafka-clients-4*.jar"))
    good = jar.read_bytes()
    jar.unlink()
    match damage:
        case "shorter":
            jar.write_bytes(good[:-1])
        case "another":
            jar.write_bytes(good[:-1] + b"x")
        case "unreachable":
            monkeypatch.setenv("QUADLOG_MAVEN", "http://127.0.0.1:1")
        case _:
            pass
    with pytest.raises(SetupError, match=r"jar could not be downloaded: .* run it again") as failed:
        resolve(tmp_path / "cache", _silent)
    assert damage == "unreachable" or jar.name in str(failed.value)
    assert not list((tmp_path / "cache").glob("jars-*")), "half a download must not look like one"


def test_what_has_arrived_is_kept(tmp_path: Path, repository: Path) -> None:
    (arrived := tmp_path / "cache" / "downloads" / "kafka").mkdir(parents=True)
    jar = next(repository.rglob("kafka-clients-4*.jar"))
    jar.rename(arrived / jar.name)
    half = next(repository.rglob("lz4-java-*.jar"))
    (arrived / half.name).write_bytes(half.read_bytes()[:1000])
    jars = resolve(tmp_path / "cache", _silent)
    assert {jar.name, half.name} <= {path.name for path in jars.kafka}


def test_the_jars_are_resolved_once_and_damage_is_seen() -> None:
    installation = prepare(_silent)
    names = [path.name for path in installation.jars.kafka]
    assert any(name.startswith("kafka_2.13-4.3.1") for name in names)
    assert any(path.name.startswith("spark-avro") for path in installation.jars.spark)
    marker = json.loads((installation.jars.home / "versions.json").read_text())
    assert set(marker["files"]["kafka"]) == set(names)
    assert installation.has_archive


@pytest.mark.usefixtures("repository")
def test_a_damaged_cache_is_resolved_again(tmp_path: Path) -> None:
    good = prepare(_silent)
    home = tmp_path / good.jars.home.name
    shutil.copytree(good.jars.home, home, ignore=shutil.ignore_patterns("*.jsa"))
    damaged = home / "kafka" / good.jars.kafka[0].name
    damaged.write_bytes(b"half")
    assert resolve(tmp_path, _silent).kafka[0] == damaged
    assert damaged.read_bytes() == good.jars.kafka[0].read_bytes()


def test_a_second_process_waits_for_the_one_that_fills_the_cache(tmp_path: Path) -> None:
    home = prepare(_silent).jars.home
    program = "import sys; from pathlib import Path; from quadlog.kafka.prepare import prepare; "
    program += "prepare(lambda line: print(line, flush=True), cache=Path(sys.argv[1]))"
    with locked(tmp_path, _silent):
        waiting = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert waiting.stdout is not None
        assert "waiting" in waiting.stdout.readline()
        shutil.copytree(home, tmp_path / home.name)
    with waiting:
        rest, _ = waiting.communicate(timeout=60)
    assert rest == "", "it found what the other one made"


def test_the_cache_is_a_setting() -> None:
    assert cache_directory({"QUADLOG_CACHE": "/x"}) == Path("/x")
