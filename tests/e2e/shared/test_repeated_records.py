"""Records of all topics of all data centres stand there again, byte for byte: nobody ends, nothing counts twice."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.clusters.cluster import TOPICS, all_equal, name, objects, records, until

if TYPE_CHECKING:
    from tests.support.clusters.cluster import Cluster

pytestmark = pytest.mark.spoils

NEWEST, OLDEST = 20, 5


def repeat(bootstrap: str, topic: str) -> int:
    """The newest records, and some of the oldest; returns how many."""
    there = list(records(bootstrap, topic))
    producer = Producer({"bootstrap.servers": bootstrap})
    again = [*there[-NEWEST:], *there[:OLDEST]]
    for message in again:
        producer.produce(
            topic, key=message.key(), value=message.value(), headers=message.headers() or [], partition=0
        )
    assert producer.flush(30) == 0
    return len(again)


def test_repeated_records(cluster: Cluster) -> None:
    subject = name()
    for number in range(3):
        text = f"INSERT DATA {{ {subject} <urn:is> {number} }}"
        assert cluster.update(text, master=number, Idempotency_Key=f"{subject}-{number}").status_code == 204
    before = {master["id"]: master["pid"] for master in [*cluster.lab.masters, *cluster.lab.workers]}
    for dc in cluster.lab.dcs:
        for topic in TOPICS:
            assert repeat(dc["kafka"], f"main.{dc['name']}.{topic}") > OLDEST
    rounds = cluster.status()["rounds"]
    until(lambda: cluster.status()["rounds"] > rounds + 3)  # a master looks at what stands between its posts
    for number in range(3):
        text = f"INSERT DATA {{ {subject} <urn:is> {number + 3} }}"
        assert cluster.update(text, master=number).status_code == 204
    all_equal(cluster)
    assert objects(cluster.masters[1], subject) == [str(number) for number in range(6)]
    time.sleep(0.5)
    assert set(cluster.lab.states().values()) == {"running"}
    assert {one["id"]: one["pid"] for one in [*cluster.lab.masters, *cluster.lab.workers]} == before
