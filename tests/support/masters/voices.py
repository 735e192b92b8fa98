"""Producers on a real broker, and what they said."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AdminClient,
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from quadlog.broker import Admin, RenewableOutlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def configure(kafka: str, topic: str, value: str | None, name: str = "max.message.bytes") -> None:
    how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value or "", incremental_operation=how)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": kafka})
    for future in client.incremental_alter_configs([resource]).values():
        future.result(timeout=20)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def topic(kafka: str) -> str:
    name = f"test.{uuid.uuid4()}"
    Admin(kafka).ensure([name], replication=1, config={})
    return name


@pytest.fixture
def outlet(kafka: str) -> Iterator[RenewableOutlet]:
    outlet = RenewableOutlet(kafka, client="test")
    yield outlet
    outlet.close()


def say(outlet: RenewableOutlet, topic: str, *values: bytes) -> None:
    for value in values:
        outlet.produce(topic, key=b"k", values=[value], headers=[])
