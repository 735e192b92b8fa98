"""Keys and values of a master's store.  Numbers are big-endian: RocksDB iterates keys as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from quadlog.core.model import LogPosition, Pair
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocksdict import Rdict

INDEX: Final = struct.Struct(">Q")
PAIR: Final = struct.Struct(">Q16s32s")
LOGGED: Final = struct.Struct(">32sQ16s32s")
"""Chain hash and pair of an entry."""
ID: Final = struct.Struct(">Q16s")
"""Index of a synchronised transaction, and the hash of its body."""
LONGEST_REASON: Final = 60_000
"""Maximum bytes of a reason in a packed row."""


ROW: Final = struct.Struct(">Q32sQ16s32s16sH")
"""Index, chain hash and pair of an entry, the hash of its body, and the length of the bytes that follow."""


class Row(NamedTuple):
    """The part of an entry that a master keeps for ever."""

    point: LogPosition
    pair: Pair
    body_hash: bytes
    """16 bytes."""
    reason: str | None
    """Why the entry was rejected; None if it was not."""


def pack_row(row: Row) -> bytes:
    """Encode a row.

    >>> row = Row(LogPosition(7, bytes(32)), Pair(9, bytes(16), bytes(32)), bytes(16), "it breaks a rule")
    >>> list(unpack_rows(pack_row(row) * 2)) == [row, row]
    True
    """
    reason = b"" if row.reason is None else b"\0" + row.reason.encode()[:LONGEST_REASON]
    return ROW.pack(row.point.index, row.point.chain, *row.pair, row.body_hash, len(reason)) + reason


def unpack_rows(packed: bytes) -> Iterator[Row]:
    """Decode rows.

    Raises:
        StateError: the bytes end within a row.

    """
    at = 0
    while at < len(packed):
        if len(packed) < at + ROW.size:
            raise _cut_off()
        index, chain, timestamp, name, digest, body_hash, length = ROW.unpack_from(packed, at)
        at += ROW.size
        if len(packed) < at + length:
            raise _cut_off()
        reason = packed[at + 1 : at + length].decode(errors="replace") if length else None
        at += length
        yield Row(LogPosition(index, chain), Pair(timestamp, name, digest), body_hash, reason)


def _cut_off() -> StateError:
    return StateError("rows of a log that end in the middle of one: nothing of them was taken")


def logged_at(log: Rdict, index: int) -> tuple[bytes, Pair] | None:
    """Return the chain hash and the pair of the entry at an index."""
    value: bytes | None = log.get(INDEX.pack(index))
    if value is None:
        return None
    chain, *pair = LOGGED.unpack(value)
    return chain, Pair(*pair)


def logged_from(log: Rdict, index: int) -> Iterator[tuple[LogPosition, Pair]]:
    """Yield the entries of a log from an index on."""
    items = cast("Iterator[tuple[bytes, bytes]]", log.items(from_key=INDEX.pack(index)))
    for key, value in items:
        chain, *pair = LOGGED.unpack(value)
        yield LogPosition(INDEX.unpack(key)[0], chain), Pair(*pair)


def newest(log: Rdict) -> int:
    """Return the index of the last entry of a log; 0 if it has none."""
    key = cast("Any", next(iter(log.keys(backwards=True)), None))
    return 0 if key is None else int(INDEX.unpack(key)[0])


def logged_id(ids: Rdict, transaction_id: bytes) -> tuple[int, bytes] | None:
    """Return the index of a synchronised transaction, and the hash of its body."""
    value = cast("Any", ids.get(transaction_id))
    return None if value is None else ID.unpack(value)
