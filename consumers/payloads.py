"""Consumer of payloads: those in the local data centre are acquired, those in a peer's must be mirrored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.codec.envelope import ORIGIN_DC, ORIGIN_OFFSET, WRITER
from quadlog.core.model import Payload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quadlog.ports import Record


class PayloadsConsumer:
    """Assembler of payloads from their chunks; skips payloads that are received in another way."""

    def __init__(self, *, told: tuple[str, int] | None = None, origins: Iterable[str] | None = None) -> None:
        """Read one topic.

        `told`: id of a master, and the offset from which on its records are skipped: acknowledgements report these.
        `origins`: data centres whose clients' payloads are accepted; None: all.
        """
        self._chunks = codec.ChunkJoiner()
        self._told = told and (told[0].encode(), told[1])
        self._origins = None if origins is None else _encoded(origins)

    @property
    def between(self) -> bool:
        """True if no payload is received in part."""
        return not self._chunks.unfinished

    def forget(self) -> None:
        """Drop partly received payloads: another topic is read from now on."""
        self._chunks = codec.ChunkJoiner()

    def take_from(self, origins: Iterable[str]) -> None:
        """Accept from now on the payloads of these data centres' clients."""
        self._origins = _encoded(origins)

    def passes_over(self, record: Record) -> tuple[str, int] | None:
        """Return the data centre and offset of the original, if this record is a copy that is skipped."""
        origin = record.header(ORIGIN_DC)
        if self._origins is None or origin is None or origin in self._origins:
            return None
        offset = record.number(ORIGIN_OFFSET)
        return None if offset is None else (origin.decode(errors="replace"), offset)

    def on_record(self, record: Record) -> Payload | None:
        """Return the payload that is complete with this record, or None."""
        if self._told and record.offset >= self._told[1] and record.header(WRITER) == self._told[0]:
            return None
        if self._origins is not None and record.header(ORIGIN_DC) not in self._origins:
            return None
        said = self._chunks.join(record.value, writer=record.header(WRITER))
        return said if isinstance(said, Payload) else None


def origin_offset(record: Record, dc: str) -> int | None:
    """Return the offset of the last record of a payload's original; None if a copy does not state it.

    `record`: the last record of the payload in the topic of the data centre `dc`.
    """
    if record.header(ORIGIN_DC) == dc.encode():
        return record.offset
    return record.number(ORIGIN_OFFSET)


def _encoded(names: Iterable[str]) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)
