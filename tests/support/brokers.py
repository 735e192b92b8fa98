"""Records on a real broker, and waiting for what is told of them."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from quadlog.broker import Admin

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.broker import KafkaOutlet


def new_topic(kafka: str) -> str:
    """Of one partition; its name."""
    name = f"test.{uuid.uuid4()}"
    Admin(kafka).ensure([name], replication=1, config={})
    return name


def delete_before(kafka: str, topic: str, offset: int) -> None:
    """Have the topic begin there."""
    client = AdminClient({"bootstrap.servers": kafka})
    for deleted in client.delete_records([TopicPartition(topic, 0, offset)]).values():
        deleted.result(timeout=20)


def never(reason: str) -> None:
    pytest.fail(reason)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def fill(outlet: KafkaOutlet, topic: str, count: int) -> None:
    """Produce `count` records and wait for the last one's acknowledgement."""
    done = threading.Event()
    for number in range(count):
        outlet.produce(
            topic,
            key=b"k",
            values=[str(number).encode()],
            headers=[],
            acked=(lambda _: done.set()) if number == count - 1 else None,
        )
    assert done.wait(20)
