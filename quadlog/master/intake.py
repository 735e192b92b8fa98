"""Intake: how far a payloads topic was taken in, so that a restart neither misses nor needs to guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from consumers.payloads import PayloadsConsumer
    from quadlog.core.model import Payload
    from quadlog.ports import Record


class Intake:
    """One payloads topic: the own one, or a peer's that is mirrored.

    Its position is the offset below which nothing is half heard and nothing that was produced
    because of it (or, in the own topic, by this master) still lacks its acknowledgement.
    """

    def __init__(self, consumer: PayloadsConsumer, position: int) -> None:
        """Go on from a saved position."""
        self._consumer = consumer
        self._whole = position
        self._acknowledged = position
        self._flying = 0
        self._awaited: dict[tuple[bytes, bytes], int] = {}

    @property
    def position(self) -> int:
        """Where a restart has to read on."""
        heard = min(self._whole, self._acknowledged) if self._flying else self._whole
        return heard if self.awaited is None else min(heard, self.awaited)

    @property
    def awaited(self) -> int | None:
        """Offset of the oldest payload that another master of this data centre is to bring, and has not yet."""
        return next(iter(self._awaited.values()), None)

    def await_other(self, key: tuple[bytes, bytes], offset: int) -> None:
        """Heard at `offset`, and left to the master that leads."""
        self._awaited.setdefault(key, offset)

    def arrived(self, key: tuple[bytes, bytes]) -> None:
        """A payload is durable here, whoever brought it."""
        self._awaited.pop(key, None)

    def synchronised(self, ids: Container[bytes]) -> None:
        """Nobody needs any payload of these transactions any more, also of a twin that lost."""
        if self._awaited:
            self._awaited = {key: at for key, at in self._awaited.items() if key[0] not in ids}

    def hear(self, record: Record) -> Payload | None:
        """The payload that is whole with this record."""
        payload = self._consumer.hear(record)
        if self._consumer.between:
            self._whole = record.offset + 1
        return payload

    def sent(self) -> None:
        """Something was produced that is to be acknowledged."""
        self._flying += 1

    def acknowledged(self, offset: int) -> None:
        """It was; `offset` is that of the record in this topic."""
        self._flying -= 1
        self._acknowledged = offset + 1
