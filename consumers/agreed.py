"""The synchronised queue as a worker hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quadlog import codec
from quadlog.core.model import LoggedEntry, Point
from quadlog.errors import StateError

if TYPE_CHECKING:
    from quadlog.ports import Record


class AgreedConsumer:
    """Entries in the order of their indexes, each once, each chained to the one before."""

    def __init__(self, last: Point) -> None:
        """`last`: the entry before the first one to be heard."""
        self._last = last
        self._chunks = codec.Chunks()

    def hear(self, record: Record) -> LoggedEntry | None:
        """The entry that is whole with this record; None for chunks before, and for what was heard already.

        Raises:
            StateError: an index is missing, or the chain does not fit.

        """
        entry = self._chunks.join(record.value)
        if not isinstance(entry, LoggedEntry) or entry.index <= self._last.index:
            return None  # a master that was killed writes again what it cannot know to be there
        if entry.index != self._last.index + 1 or entry.previous != self._last.chain:
            message = (
                f"{record.topic} at {record.offset}: entry {entry.index} on {entry.previous.hex()[:16]} does not"
                f" follow entry {self._last.index} with {self._last.chain.hex()[:16]}"
            )
            raise StateError(message)
        self._last = Point(entry.index, entry.chain)
        return entry


def held_with(record: Record) -> int:
    """The topic holds all entries up to this index, as this record shows; for one who only follows how far it is."""
    said, chunk, chunks = codec.decode_chunk(record.value)
    if not isinstance(said, LoggedEntry):
        return 0
    return said.index if chunk == chunks - 1 else said.index - 1
