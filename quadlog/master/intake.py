"""Intake: how far a payloads topic was taken in, so that a restart neither misses nor needs to guess."""

from __future__ import annotations

from collections import deque
from itertools import islice
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

    def __init__(
        self,
        consumer: PayloadsConsumer,
        position: int,
        *,
        is_own: bool = False,
        alone_from: int | None = None,
    ) -> None:
        """Go on from a saved position.

        Args:
            consumer: puts chunks together.
            position: where the topic is read from.
            is_own: this data centre's own topic.
            alone_from: of the own topic, where only this master writes to it: its end at the start.  From
                there on it is not heard; acknowledgements tell of what is new.

        """
        self._consumer = consumer
        self._is_own, self._alone_from = is_own, alone_from
        self._whole = self._began = self._written = position
        self._flying: deque[int] = deque()
        self._awaited: dict[tuple[bytes, bytes], int] = {}

    @property
    def position(self) -> int:
        """Where a restart has to read on."""
        return min((self._whole, *self._awaited.values(), *islice(self._flying, 1)))

    @property
    def awaited(self) -> int | None:
        """From where on there is a payload that another master of this data centre is to bring, and has not yet."""
        return min(self._awaited.values(), default=None)

    def await_other(self, key: tuple[bytes, bytes]) -> None:
        """What was heard last is left to the master that leads."""
        self._awaited.setdefault(key, self._began)

    def arrived(self, key: tuple[bytes, bytes]) -> None:
        """A payload is durable here, whoever brought it."""
        self._awaited.pop(key, None)

    def synchronised(self, ids: Container[bytes]) -> None:
        """Nobody needs any payload of these transactions any more, also of a twin that lost."""
        if self._awaited:
            self._awaited = {key: at for key, at in self._awaited.items() if key[0] not in ids}

    def hear(self, record: Record) -> Payload | None:
        """The payload that is whole with this record."""
        self._began = min(self._whole, record.offset)  # its first chunk is not before
        payload = self._consumer.hear(record)
        if self._consumer.between:
            self._whole = record.offset + 1
        return payload

    def sent(self) -> None:
        """Something was produced that is to be acknowledged: because of what was heard last, or to this topic."""
        self._flying.append(self._written if self._is_own else self._began)

    def acknowledged(self, offset: int) -> None:
        """The oldest of it was; `offset` is that of the record in this topic."""
        self._flying.popleft()
        if not self._is_own:
            return
        self._written = offset + 1
        if self._alone_from is not None and self._whole >= self._alone_from:
            self._whole = self._written
