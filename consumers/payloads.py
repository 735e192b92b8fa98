"""Payloads: heard in the own data centre they are acquired, at a peer's they are to be mirrored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.model import Payload
from quadlog.envelope import ORIGIN_DC, WRITER

if TYPE_CHECKING:
    from quadlog.ports import Record


class PayloadsConsumer:
    """Puts chunks together; passes over what somebody else is to bring."""

    def __init__(self, *, told: tuple[str, int] | None = None, only_origin_dc: str | None = None) -> None:
        """Listen to one topic.

        Args:
            told: a master whose records from this offset on are known from their acknowledgements.
            only_origin_dc: take what that data centre's clients gave, not what it mirrored itself.

        """
        self._chunks = codec.Chunks()
        self._told = told and (told[0].encode(), told[1])
        self._only_origin_dc = only_origin_dc and only_origin_dc.encode()

    @property
    def between(self) -> bool:
        """Is no payload half heard?"""
        return not self._chunks.unfinished

    def hear(self, record: Record) -> Payload | None:
        """The payload that is whole with this record, or None."""
        if self._told and record.offset >= self._told[1] and record.header(WRITER) == self._told[0]:
            return None
        if self._only_origin_dc and record.header(ORIGIN_DC) != self._only_origin_dc:
            return None
        said = self._chunks.join(record.value, writer=record.header(WRITER))
        return said if isinstance(said, Payload) else None
