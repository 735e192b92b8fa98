"""Payloads: heard in the own data centre they are acquired, at a peer's they are to be mirrored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import ORIGIN_DC, ORIGIN_OFFSET, WRITER
from quadlog.core.model import Payload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.ports import Record


class PayloadsConsumer:
    """Puts chunks together; passes over what somebody else is to bring."""

    def __init__(self, *, told: tuple[str, int] | None = None, origins: Iterable[str] | None = None) -> None:
        """Listen to one topic.

        Args:
            told: a master whose records from this offset on are known from their acknowledgements.
            origins: take what these data centres' clients gave; None: everything.

        """
        self._chunks = codec.Chunks()
        self._told = told and (told[0].encode(), told[1])
        self._origins = None if origins is None else _encoded(origins)

    @property
    def between(self) -> bool:
        """Is no payload half heard?"""
        return not self._chunks.unfinished

    def forget(self) -> None:
        """Another topic is heard now: what was half heard does not go on."""
        self._chunks = codec.Chunks()

    def take_from(self, origins: Iterable[str]) -> None:
        """Take from now on what these data centres' clients gave."""
        self._origins = _encoded(origins)

    def passes_over(self, record: Record) -> tuple[str, int] | None:
        """Of a copy that is not taken, where the original stands: data centre and offset."""
        origin = record.header(ORIGIN_DC)
        if self._origins is None or origin is None or origin in self._origins:
            return None
        offset = record.number(ORIGIN_OFFSET)
        return None if offset is None else (origin.decode(errors="replace"), offset)

    def hear(self, record: Record) -> Payload | None:
        """The payload that is whole with this record, or None."""
        if self._told and record.offset >= self._told[1] and record.header(WRITER) == self._told[0]:
            return None
        if self._origins is not None and record.header(ORIGIN_DC) not in self._origins:
            return None
        said = self._chunks.join(record.value, writer=record.header(WRITER))
        return said if isinstance(said, Payload) else None


def origin_offset(record: Record, dc: str) -> int | None:
    """Where the original of a payload stands, or its last chunk; None: a copy does not say it.

    Args:
        record: its last one, in the topic of a data centre.
        dc: that data centre.

    """
    if record.header(ORIGIN_DC) == dc.encode():
        return record.offset
    return record.number(ORIGIN_OFFSET)


def _encoded(names: Iterable[str]) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)
