"""Workers that were away while the log went on."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from quadlog.broker import end_of
from tests.support.clusters.cluster import Cluster, evaluating


def one_goes_away(cluster: Cluster) -> str:
    """A worker that does not evaluate, after one update that all have."""
    cluster.update("INSERT DATA { <urn:s> <urn:p> 0 . GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
    cluster.wait_until_equal()
    away = next(name for name in cluster.workers if name != evaluating(cluster))
    cluster.lab.kill(away)
    return away


def delete_records(kafka: str, *topics: str) -> None:
    """As an operator does who needs space: all that is there now."""
    admin = AdminClient({"bootstrap.servers": kafka})
    ends = [TopicPartition(topic, 0, end_of(kafka, topic, count=0)[0]) for topic in topics]
    for done in admin.delete_records(ends).values():
        done.result()


def told_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """What a master knows of a worker."""
    told: dict[str, Any] = next(one for one in cluster.status()["workers"] if one["id"] == name)
    return told
