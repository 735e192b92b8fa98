"""Keys and values of a master's store.  Numbers are big-endian: RocksDB iterates keys as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, cast

from quadlog.core.model import Pair, Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocksdict import Rdict

INDEX: Final = struct.Struct(">Q")
PAIR: Final = struct.Struct(">Q16s32s")
LOGGED: Final = struct.Struct(">32sQ16s32s")
"""Chain hash and pair of an entry."""
ID: Final = struct.Struct(">Q16s")
"""Index of a synchronised transaction, and the hash of its body."""


def logged_at(log: Rdict, index: int) -> tuple[bytes, Pair] | None:
    """Chain hash and pair of the entry at an index."""
    value: bytes | None = log.get(INDEX.pack(index))
    if value is None:
        return None
    chain, *pair = LOGGED.unpack(value)
    return chain, Pair(*pair)


def logged_from(log: Rdict, index: int) -> Iterator[tuple[Point, Pair]]:
    """The entries of a log from an index on."""
    items = cast("Iterator[tuple[bytes, bytes]]", log.items(from_key=INDEX.pack(index)))
    for key, value in items:
        chain, *pair = LOGGED.unpack(value)
        yield Point(INDEX.unpack(key)[0], chain), Pair(*pair)


def newest(log: Rdict) -> int:
    """Index of the last entry of a log; 0: it has none."""
    key = cast("Any", next(iter(log.keys(backwards=True)), None))
    return 0 if key is None else int(INDEX.unpack(key)[0])


def logged_id(ids: Rdict, transaction_id: bytes) -> tuple[int, bytes] | None:
    """Index of a synchronised transaction, and the hash of its body."""
    value = cast("Any", ids.get(transaction_id))
    return None if value is None else ID.unpack(value)
