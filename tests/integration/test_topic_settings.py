"""Settings of topics that somebody changed, and records that somebody deleted: told at once, with what to do."""

from __future__ import annotations

import shlex
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from producers.audit import ViolationProducer
from quadlog.broker import Admin, KafkaOutlet
from quadlog.broker.topic_settings import AUDIT, config_of
from quadlog.core.records import Violation, ViolationKind
from quadlog.kafka.ports import free_ports
from quadlog.master.recovery.startup_checks import prepare_topics
from quadlog.master.retention.topic_monitor import TopicMonitor
from quadlog.master.workers.alarms import AlarmName, Alarms
from quadlog.settings import MasterSettings
from quadlog.topics import Topics
from tests.support.brokers import never

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def settings(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> MasterSettings:
    """Of a master whose topics were just created."""
    [port] = free_ports(1)
    directory: Path = tmp_path_factory.mktemp("m1")
    settings = MasterSettings(
        node_id="dc1-m1",
        dc="dc1",
        repository=f"r{uuid.uuid4().hex[:12]}",
        data_dir=directory,
        port=port,
        kafka=kafka,
        master_url=f"http://127.0.0.1:{port}",
    )
    prepare_topics(settings)
    return settings


@pytest.fixture
def topics(settings: MasterSettings) -> Topics:
    return Topics(settings.repository, settings.dc)


@pytest.fixture
def monitor(settings: MasterSettings, topics: Topics) -> TopicMonitor:
    return TopicMonitor(settings.kafka, topics)


def alter(kafka: str, topic: str, name: str, value: str) -> None:
    """As `kafka-configs --alter --add-config`."""
    client: Any = AdminClient({"bootstrap.servers": kafka})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(timeout=20)


def follow(kafka: str, advice: str) -> None:
    """Do what an alarm advises, as it stands there."""
    words = shlex.split(advice[advice.index("kafka-configs") :])
    said = dict(zip(words[1::2], words[2::2], strict=False))
    assert said["--bootstrap-server"] == kafka
    topic = words[words.index("--entity-name") + 1]
    name, _, value = words[words.index("--add-config") + 1].partition("=")
    alter(kafka, topic, name, value)


def told(monitor: TopicMonitor) -> list[tuple[str | None, str | None, str | None]]:
    monitor.check()
    return [(one.topic, one.setting, one.value) for one in monitor.troubles]


def test_new_topics_are_as_they_have_to_be(monitor: TopicMonitor) -> None:
    assert told(monitor) == []


def test_each_wrong_setting_is_told_and_the_advice_mends_it(
    settings: MasterSettings, topics: Topics, monitor: TopicMonitor
) -> None:
    wrong: list[tuple[str, str, str]] = [
        *((topic, "retention.ms", "100000000") for topic in topics.followed),
        (topics.agreed, "cleanup.policy", "compact"),
        (topics.agreed, "retention.bytes", "100000000"),
        (topics.effects, "max.message.bytes", "999999"),
        (topics.effects, "min.insync.replicas", "2"),
        (topics.payloads, "unclean.leader.election.enable", "true"),
        (topics.status, "retention.ms", "1000"),
        (topics.checkpoint, "cleanup.policy", "delete"),
    ]
    for what in wrong:
        alter(settings.kafka, *what)
    alter(settings.kafka, topics.agreed, "max.message.bytes", "20000000")  # more is right, too
    assert sorted(told(monitor), key=str) == sorted(wrong, key=str)
    alarms = Alarms()
    alarms.set(monitor.troubles, 0)
    shown = [alarm.as_json() for alarm in alarms.all()]
    assert {one["name"] for one in shown} == {"topic-misconfigured"}
    assert [(one["topic"], one["setting"], one["value"]) for one in shown if one["value"] == "2"] == [
        (topics.effects, "min.insync.replicas", "2")
    ]
    for one in shown:
        follow(settings.kafka, one["what_to_do"])
    assert told(monitor) == []
    alarms.set(monitor.troubles, 1)
    assert alarms.all() == []


def test_partitions_that_were_added_are_told_and_stop_nobody(
    settings: MasterSettings, topics: Topics, monitor: TopicMonitor
) -> None:
    """All that quadlog writes and reads is in partition 0; Kafka cannot take others away."""
    client: Any = AdminClient({"bootstrap.servers": settings.kafka})
    for future in client.create_partitions([NewPartitions(topics.status, 2)]).values():
        future.result(timeout=20)
    prepare_topics(settings)
    assert told(monitor) == [(topics.status, "partitions", "2")]
    [trouble] = monitor.troubles
    assert "partition 0 is whole" in trouble.advice


def test_deleted_records_are_told_until_a_checkpoint_covers_them(
    settings: MasterSettings, topics: Topics, monitor: TopicMonitor
) -> None:
    outlet = KafkaOutlet(settings.kafka, client="test", failed=never)
    outlet.produce(topics.agreed, key=b"k", values=[b"1", b"2", b"3"], headers=[])
    outlet.flush(60)
    outlet.close()
    Admin(settings.kafka).delete_before({topics.agreed: 2})
    monitor.check()
    [trouble] = [one for one in monitor.troubles if one.setting is None]
    assert (trouble.name.value, trouble.topic) == ("log-records-deleted", topics.agreed)
    assert "begins at offset 2, and its records from offset 0 on are needed" in trouble.reason
    assert monitor.lacks_checkpoint


def test_what_an_audit_has_found_is_told_until_it_is_deleted(
    settings: MasterSettings, topics: Topics, monitor: TopicMonitor
) -> None:
    admin = Admin(settings.kafka)
    admin.ensure([topics.audit], replication=1, config=config_of(AUDIT, replication=1))
    before = [one.name for one in monitor.troubles]
    outlet = KafkaOutlet(settings.kafka, client="test", failed=never)
    producer = ViolationProducer(outlet, topics.audit)
    for offset in (7, 8):
        producer.publish(
            Violation(
                kind=ViolationKind.MISSING_ENTRY,
                dc="dc2",
                topic="main.dc2.agreed",
                offset=offset,
                index=offset + 1,
                explanation="it is gone",
            ),
            lambda _: None,
            at=1,
        )
    outlet.flush(60)
    outlet.close()
    for _ in range(2):
        monitor.check()
        [trouble] = [one for one in monitor.troubles if one.name is AlarmName.VIOLATIONS]
        assert (trouble.topic, trouble.index) == (topics.audit, 9)
        assert trouble.reason == (
            f"the audit has written 2 violations to {topics.audit}; the newest one is"
            " MISSING_ENTRY dc2 main.dc2.agreed@8, entry 9: it is gone"
        )
    admin.delete_before({topics.audit: 2})
    monitor.check()
    assert AlarmName.VIOLATIONS not in [*before, *(one.name for one in monitor.troubles)]
