"""A second broker beside the one of a data centre of the lab: a topic may have a replica there, and lose it."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AdminClient,
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from quadlog.kafka.ports import free_ports
from quadlog.kafka.prepare import prepare
from quadlog.kafka.tool_names import main_class
from quadlog.leash import leashed
from tests.support.clusters.cluster import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters.cluster import Cluster

NUMBER = 2


class Topic:
    """One topic of a data centre, as its operator has it in hand."""

    def __init__(self, cluster: Cluster, dc: int, name: str) -> None:
        there = cluster.lab.dcs[dc]
        self.name, self.kafka = cluster.lab.topic(there["name"], name), str(there["kafka"])
        self.client = AdminClient({"bootstrap.servers": self.kafka})

    def configure(self, name: str, value: str | None) -> None:
        """Set something; None: as it was."""
        how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value or "", incremental_operation=how)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[entry])
        for future in self.client.incremental_alter_configs([resource]).values():
            future.result(timeout=20)

    def in_sync(self) -> list[int]:
        """Its replicas that are."""
        partition: Any = self.client.list_topics(self.name, timeout=10).topics[self.name].partitions[0]
        return sorted(partition.isrs)


@contextmanager
def replicated(topic: Topic, directory: Path, beside: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Have a second broker with a replica of the topic, whose files are in `directory`.

    Args:
        topic: gets the replica.
        directory: a new one.
        beside: directory of the first broker's files.

    """
    directory.mkdir()
    properties = dict(
        line.split("=", 1)
        for line in (beside / "server.properties").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    [port] = free_ports(1)
    address = f"PLAINTEXT://127.0.0.1:{port}"
    properties |= {
        "process.roles": "broker",
        "node.id": str(NUMBER),
        "listeners": address,
        "advertised.listeners": address,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(directory / "data"),
    }
    own = directory / "server.properties"
    own.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    cluster_id = (beside / "cluster-id").read_text().strip()
    kafka = prepare(print)
    forming = kafka.command("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(own))
    subprocess.run(leashed(forming), check=True, stdout=subprocess.DEVNULL)
    with (directory / "log").open("wb") as log:
        broker = subprocess.Popen(
            leashed(kafka.command("kafka.Kafka", str(own))), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: NUMBER in topic.client.list_topics(timeout=10).brokers)
        plan = {"version": 1, "partitions": [{"topic": topic.name, "partition": 0, "replicas": [1, NUMBER]}]}
        (directory / "plan.json").write_text(json.dumps(plan))
        moving = kafka.command(
            main_class("reassign-partitions"),
            *("--bootstrap-server", topic.kafka, "--execute"),
            *("--reassignment-json-file", str(directory / "plan.json")),
        )
        subprocess.run(moving, check=True, stdout=subprocess.DEVNULL)
        until(lambda: topic.in_sync() == [1, NUMBER])
        yield broker
    finally:
        broker.send_signal(signal.SIGKILL)
        broker.wait(20)


def leave(broker: subprocess.Popen[bytes], topic: Topic) -> None:
    """Stop the second broker in order: its replica is in sync no more."""
    broker.send_signal(signal.SIGTERM)
    until(lambda: topic.in_sync() == [1])
