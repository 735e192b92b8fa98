"""An audit trail: what each transaction changed, in the order that all data centres agree on.

    python audit.py 127.0.0.1:9092 dc1

It reads the effects topic of one data centre, without a consumer group: the topic is the trail.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from consumers.effects import EffectsConsumer
from quadlog.core.model import GENESIS
from quadlog.core.records import Effect, Rewind
from quadlog.ports import Record
from quadlog.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

EMPTY = bytes(32)
"""Signature of the empty state."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one transaction did: its quads are canonical lines of N-Quads."""

    index: int
    transaction: str
    outcome: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    signature: str
    """Signature of the state after it."""


class AuditTrail:
    """The changes of a cluster, as one data centre knows them."""

    def __init__(self, kafka: Consumer, topic: str) -> None:
        self._kafka = kafka
        kafka.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        self._effects = EffectsConsumer(index=0, signature=EMPTY, term=GENESIS, attempt=0)
        self.changes: list[Change] = []

    def poll(self, timeout: float) -> Change | None:
        """Return the change that the next record completes; None if it completes none, or none comes in time."""
        message = self._kafka.poll(timeout)
        if message is None:
            return None
        if (error := message.error()) is not None:
            if error.retriable() or not error.fatal():
                return None  # the client connects again by itself
            raise KafkaException(error)
        effect = self._effects.on_record(_record(message))
        if isinstance(effect, Rewind):  # the cluster took over another log: what followed this effect is void
            del self.changes[effect.index :]
            self._effects.set_signature(bytes.fromhex(self.changes[-1].signature) if self.changes else EMPTY)
        if not isinstance(effect, Effect):
            return None
        change = Change(
            index=effect.index,
            transaction=str(uuid.UUID(bytes=effect.id)),
            outcome=effect.outcome.name.lower(),
            added=effect.inserted,
            removed=effect.deleted,
            signature=effect.signature_after.hex(),
        )
        self.changes.append(change)
        return change

    def follow(self, index: int, timeout: float) -> None:
        """Read until the change with this index is in the trail.

        Raises:
            TimeoutError: it did not come within `timeout` seconds.

        """
        deadline = time.monotonic() + timeout
        while len(self.changes) < index:
            self.poll(0.2)
            if time.monotonic() > deadline:
                raise TimeoutError(f"change {index} did not come, {len(self.changes)} is the last one")

    def quads(self) -> set[str]:
        """Return the quads that there are after all changes."""
        quads = set[str]()
        for change in self.changes:
            quads = quads.difference(change.removed).union(change.added)
        return quads


def _record(message: Message) -> Record:
    headers: Any = message.headers() or []
    key, value = message.key() or b"", message.value() or b""
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    return Record(message.topic() or "", message.offset() or 0, key, value, headers)


@contextmanager
def audit_trail(bootstrap: str, dc: str, repository: str = "main") -> Iterator[AuditTrail]:
    """Open the trail of a data centre."""
    kafka = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        yield AuditTrail(kafka, Topics(repository, dc).effects)
    finally:
        kafka.close()


def main() -> None:
    """Print changes as they come, without end."""
    bootstrap, dc = sys.argv[1:]
    with audit_trail(bootstrap, dc) as trail:
        while True:
            if (change := trail.poll(1.0)) is not None:
                print(json.dumps(asdict(change)), flush=True)


if __name__ == "__main__":
    main()
