"""Producers on a real broker, and what they said."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # their stubs forget to export them
    AdminClient,
    AlterConfigOpType,  # pyright: ignore[reportPrivateImportUsage]
    ConfigEntry,  # pyright: ignore[reportPrivateImportUsage]
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.broker import RenewableOutlet


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


def say(outlet: RenewableOutlet, topic: str, *values: bytes) -> None:
    for value in values:
        outlet.produce(topic, key=b"k", values=[value], headers=[])
