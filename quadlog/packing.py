"""Packing: a stream of bytes as chunks on their way, each compressed and checked by itself.

A chunk is its length as it is sent, its length as it is, a digest of what is sent, and that.  So what was damaged is
noticed before it is used, and whoever was cut off goes on behind the last chunk that came.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import cramjam

from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK: Final = 1024 * 1024
"""Bytes of one, at the most."""

_DIGEST: Final = 16
_HEAD: Final = struct.Struct(f">II{_DIGEST}s")
_LEVEL: Final = 3
"""Of zstd: what RocksDB has compressed becomes no smaller by a higher one."""


class Compression(StrEnum):
    """How."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    NONE = "none"


class DamagedChunk(UserError):
    """What came is not what was sent: ask for it again."""


def packed(pieces: Iterable[bytes], how: Compression) -> Iterator[bytes]:
    """A chunk for each piece, which has no more than `CHUNK` bytes."""
    for piece in pieces:
        sent = _smaller(piece, how)
        yield _HEAD.pack(len(sent), len(piece), _digest(sent)) + sent


def _smaller(piece: bytes, how: Compression) -> bytes:
    match how:
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(piece, level=_LEVEL))
        case Compression.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(piece))
        case Compression.NONE:
            return piece


def _digest(sent: bytes) -> bytes:
    return blake2b(sent, digest_size=_DIGEST).digest()


class Unpacked:
    """Takes chunks in pieces of any size."""

    def __init__(self, how: Compression) -> None:
        """Nothing came yet."""
        self._how, self._held = how, bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What the chunks are that are whole now.

        Raises:
            DamagedChunk: one is not what was sent; it and what follows is not to be used.

        """
        self._held += piece
        while len(self._held) >= _HEAD.size:
            sent, size, digest = _HEAD.unpack_from(self._held)
            if size > CHUNK or sent > 2 * CHUNK:
                raise DamagedChunk(f"a chunk of {size} bytes is announced, and none has more than {CHUNK}")
            end = _HEAD.size + sent
            if len(self._held) < end:
                return
            found = bytes(self._held[_HEAD.size : end])
            if _digest(found) != digest:
                raise DamagedChunk("a chunk has not the digest that stands before it")
            del self._held[:end]
            yield self._larger(found, size)

    def _larger(self, sent: bytes, size: int) -> bytes:
        whole = bytearray(size)
        try:
            match self._how:
                case Compression.ZSTD:
                    count: int = cramjam.zstd.decompress_into(sent, whole)
                case Compression.SNAPPY:
                    count = cramjam.snappy.decompress_raw_into(sent, whole)
                case Compression.NONE:
                    whole, count = bytearray(sent), len(sent)
        except cramjam.DecompressionError as error:
            raise DamagedChunk(f"a chunk is no {self._how}: {error}") from error
        if count != size:
            raise DamagedChunk(f"a chunk has {count} bytes, and {size} were announced")
        return bytes(whole)
