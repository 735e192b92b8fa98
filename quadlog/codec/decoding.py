"""Decoding of records of any kind, and assembly of chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from quadlog.codec.effects import LISTS, effect_of, joined
from quadlog.codec.posts import DECODERS, Single
from quadlog.codec.transactions import entry_of, payload_of
from quadlog.codec.wire import EFFECT, EFFECT_2, ENTRY, PAYLOAD, read
from quadlog.core.model import Payload
from quadlog.core.records import Effect, LoggedEntry
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Said = Payload | LoggedEntry | Effect | Single
"""Any value that a record can hold; payloads, entries and effects may be a single chunk."""
_DECODERS: Final[dict[int, Callable[[dict[str, Any]], Said]]] = {
    PAYLOAD: payload_of,
    ENTRY: entry_of,
    EFFECT: effect_of,
    EFFECT_2: effect_of,
    **DECODERS,
}


Part = tuple[Said, int, int]
"""The value of one record, its chunk number (from 0), and the number of chunks."""


def decode(value: bytes) -> Said | None:
    """Return the value of a record; None for a chunk, which `ChunkJoiner` assembles.

    Raises:
        ForeignRecord: the bytes are not a quadlog record.

    """
    said, _, chunks = decode_chunk(value)
    return said if chunks == 1 else None


def decode_chunk(value: bytes) -> Part:
    """Return the value of a record, complete or a chunk, with the chunk's number and the number of chunks.

    Raises:
        ForeignRecord: the bytes are not a quadlog record.

    """
    schema_id, record = read(value)
    chunk, chunks = record.get("chunk", 0), record.get("chunks", 1)
    if not 0 <= chunk < chunks:
        raise ForeignRecord(f"not a quadlog record: it says that it is chunk {chunk} of {chunks}")
    return _DECODERS[schema_id](record), chunk, chunks


def decode_ahead(value: bytes) -> Part | None:
    """Decode a record before its value is needed, like `decode_chunk`; None if it is large or not a quadlog record.

    In that case `decode_chunk` decodes it, or raises the error, when the value is needed.
    """
    if len(value) > AHEAD:
        return None
    try:
        return decode_chunk(value)
    except ForeignRecord:
        return None


AHEAD: Final = 64 * 1024
"""Maximum bytes of a record that is decoded ahead: such a record is in memory twice."""


def is_last_chunk(value: bytes) -> bool:
    """Return whether this record is the last chunk of its value, for a reader that does not assemble chunks."""
    _, record = read(value)
    return bool(record.get("chunk", 0) == record.get("chunks", 1) - 1)


class ChunkJoiner:
    """Assembler of the chunks of one topic.

    Chunks are identified by the value that they are part of.  So several writers may write at once, and a set that
    a dead writer left unfinished does no harm: its successor writes the whole set again.
    """

    UNFINISHED: Final = 64
    """Maximum number of incomplete sets; the oldest is dropped first."""
    ABANDONED: Final = 2
    """Maximum number of incomplete sets that are kept although their writer continued with something else.

    That may have been an earlier record, repeated by a broker, a mirror or a tool.
    """

    def __init__(self) -> None:
        self._sets: dict[Any, dict[int, tuple[Said, int]]] = {}
        self._abandoned: dict[Any, None] = {}
        """Names of the sets that are not expected to be completed, oldest first."""

    @property
    def unfinished(self) -> int:
        """Number of sets that lack a chunk which is still expected."""
        return len(self._sets) - len(self._abandoned)

    def join(
        self, value: bytes, *, part: Part | None = None, writer: bytes | None = None, at: int = -1
    ) -> Said | None:
        """Return the value that is complete with this record, or None.

        `part`: result of `decode_ahead` for the value, if it was called.
        `writer`: writer of the record, where it is known and the chunks of one writer are consecutive: any other set
        that it began will never be completed.
        `at`: offset of the record, for `EffectHeads`.
        """
        said, chunk, chunks = part or decode_chunk(value)
        name = (writer, _part_of(said), chunks) if chunks > 1 else None
        if writer is not None and self._sets:
            self._abandon([other for other in self._sets if other[0] == writer and other != name])
        if name is None:
            return self._whole([(said, at)])
        self._abandoned.pop(name, None)
        parts = self._sets.setdefault(name, {})
        parts[chunk] = self._kept(said), at
        if len(parts) < chunks:
            if len(self._sets) > self.UNFINISHED:
                self._forget(next(iter(self._sets)))
            return None
        del self._sets[name]
        return self._whole([parts[number] for number in range(chunks)])

    def _abandon(self, names: Iterable[Any]) -> None:
        self._abandoned |= dict.fromkeys(names)
        while len(self._abandoned) > self.ABANDONED:
            self._forget(next(iter(self._abandoned)))

    def _forget(self, name: Any) -> None:  # noqa: ANN401 - any hashable name will do
        del self._sets[name]
        self._abandoned.pop(name, None)

    def _kept(self, said: Said) -> Said:
        """Return the part of a chunk's value that must be kept until the others arrive."""
        return said

    def _whole(self, parts: Sequence[tuple[Said, int]]) -> Said:
        """Return the value that these chunks make up, each given with its offset."""
        return parts[0][0] if len(parts) == 1 else _joined([said for said, _ in parts])


class ChunkPlace(NamedTuple):
    """Position of a chunk."""

    offset: int
    continues: bool
    """True if its last line continues in the next chunk."""


class EffectHeads(ChunkJoiner):
    """Assembler of effects without their lines, which may be large, and of the positions of their chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: Sequence[ChunkPlace] = ()
        """The chunks of the last complete value, in order."""

    def _kept(self, said: Said) -> Said:
        return _head(said)

    def _whole(self, parts: Sequence[tuple[Said, int]]) -> Said:
        self.pieces = [ChunkPlace(at, isinstance(said, Effect) and said.continues) for said, at in parts]
        said = _head(parts[0][0])
        return replace(said, continues=False) if isinstance(said, Effect) else said


def joined_chunks(values: Iterable[bytes]) -> Effect:
    """Return the effect that some chunks of one effect make up.

    The chunks may be in any order, but must include all whose lines continue in each other.

    Raises:
        ForeignRecord: the values are not chunks of an effect.

    """
    chunks = {chunk: said for said, chunk, _ in map(decode_chunk, values)}
    parts = [said for chunk in sorted(chunks) if isinstance(said := chunks[chunk], Effect)]
    if not parts or len(parts) < len(chunks):
        raise ForeignRecord("these are not the chunks of an effect")
    return joined(parts)


def _head(said: Said) -> Said:
    """Return an effect without its lines, and any other value unchanged."""
    empty: dict[str, Any] = dict.fromkeys(LISTS, ())
    return replace(said, **empty) if isinstance(said, Effect) else said


def _part_of(said: Said) -> Any:  # noqa: ANN401 - any hashable name will do
    match said:
        case Payload(transaction=transaction):
            return transaction.key
        case LoggedEntry(chain=chain):
            return chain
        case Effect(index=index, term=term, attempt=attempt):
            return index, term, attempt
        case _:
            raise ForeignRecord(f"a {type(said).__name__} has no chunks")


def _joined(parts: Sequence[Any]) -> Said:
    first = parts[0]
    if isinstance(first, Effect):
        return joined(parts)
    whole: Said = replace(first, body=b"".join(part.body for part in parts))
    return whole
