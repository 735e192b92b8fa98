"""Chunk codec: a stream of bytes as chunks for a transfer, each verified separately.

A chunk consists of its length as sent, its original length, its compression, a digest of the sent bytes, and these
bytes.  So damage is detected before the bytes are used, and an interrupted receiver continues after the last chunk
that arrived.

All chunks compressed by zstd form one frame: a chunk may refer back to any chunk before it, within the window.  In
RocksDB's files the same terms are stored under several keys, far from each other, and hardly anything else can be
compressed.
"""

from __future__ import annotations

import struct
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeVar

import cramjam

from quadlog.errors import DamagedChunk

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

_T = TypeVar("_T")

CHUNK: Final = 1024 * 1024
"""Maximum bytes of a chunk."""
WINDOW: Final = 256 * CHUNK
"""Bytes that zstd looks back: unpacking needs this much memory, and packing half as much again."""
LEAST_WINDOW: Final = CHUNK
AHEAD: Final = 4
"""Chunks that are made while one is sent."""

PROBE: Final = 24
"""Chunks that are sent uncompressed to measure the throughput of the connection."""
_SWALLOWED: Final = 16
"""The first of these chunks, which are not measured: buffers on the way accept them at once."""
COMPRESSED: Final = 50e6
"""Bytes per second that one core compresses by zstd: a faster connection gains nothing from compression."""

RATIO: Final = 3.0
"""Approximate compression ratio of a store with zstd: 3.35 with a window of 256 MiB (decision 33)."""

_DIGEST: Final = 16
_HEAD: Final = struct.Struct(f">IIc{_DIGEST}s")
_TABLE: Final = 3
"""Binary logarithm of the window bytes per entry of the hash table; an entry has 4 bytes."""


class Compression(StrEnum):
    """The compression of chunks."""

    AUTO = "auto"
    """By zstd, if the connection is slow enough for that."""
    ZSTD = "zstd"
    SNAPPY = "snappy"
    NONE = "none"


_SIGNS: Final = {Compression.ZSTD: b"z", Compression.SNAPPY: b"s", Compression.NONE: b"-"}


def speed_of(network: float, how: Compression) -> float:
    """Estimate the bits/s of a store that arrive through a network of `network` bits/s with this compression.

    >>> speed_of(100e6, Compression.AUTO), speed_of(100e6, Compression.NONE)
    (300000000.0, 100000000.0)
    >>> speed_of(1e9, Compression.AUTO), speed_of(1e9, Compression.ZSTD)
    (1000000000.0, 400000000.0)
    """
    by_zstd = min(network * RATIO, COMPRESSED * 8)
    match how:
        case Compression.AUTO:
            return max(network, by_zstd)
        case Compression.ZSTD:
            return by_zstd
        case Compression.SNAPPY | Compression.NONE:
            return network


def encode_chunks(pieces: Iterable[bytes], how: Compression, *, window: int = WINDOW) -> Iterator[bytes]:
    """Yield a chunk for each piece, which has at most `CHUNK` bytes."""
    pieces = iter(pieces)
    packer = _ChunkEncoder(window)
    if how is Compression.AUTO:
        sent, began = 0, 0.0
        for number, piece in zip(range(PROBE), pieces, strict=False):
            if number == _SWALLOWED:
                sent, began = 0, time.monotonic()
            yield packer.chunk(piece, Compression.NONE)
            sent += len(piece)
        is_slow = sent < COMPRESSED * (time.monotonic() - began)
        how = Compression.ZSTD if is_slow else Compression.NONE
    for piece in pieces:
        yield packer.chunk(piece, how)


def window_for(size: int, *most: int) -> int:
    """Return the window for a stream of `size` bytes, within the memory limits `most`: a power of two."""
    least = min(*most, 1 << max(0, size - 1).bit_length())
    return max(LEAST_WINDOW, 1 << least.bit_length() - 1)


class _ChunkEncoder:
    """Encoder of the chunks of one stream."""

    def __init__(self, window: int) -> None:
        log = window.bit_length() - 1
        parameter = zstd.CompressionParameter
        self._frame: Final = zstd.ZstdCompressor(
            options={
                parameter.strategy: zstd.Strategy.fast,
                parameter.window_log: log,
                parameter.hash_log: log - _TABLE,
                parameter.min_match: 7,
            }
        )

    def chunk(self, piece: bytes, how: Compression) -> bytes:
        sent = self._smaller(piece, how)
        return _HEAD.pack(len(sent), len(piece), _SIGNS[how], _digest(sent)) + sent

    def _smaller(self, piece: bytes, how: Compression) -> bytes:
        match how:
            case Compression.ZSTD:
                return self._frame.compress(piece, zstd.ZstdCompressor.FLUSH_BLOCK)
            case Compression.SNAPPY:
                return bytes(cramjam.snappy.compress_raw(piece))
            case _:
                return piece


def _digest(sent: bytes) -> bytes:
    return blake2b(sent, digest_size=_DIGEST).digest()


def prefetch(pieces: Iterator[_T], count: int = AHEAD) -> Generator[_T]:
    """Yield the same pieces, which a thread makes while earlier ones are used."""
    executor = ThreadPoolExecutor(1)
    try:
        waiting = deque(executor.submit(next, pieces, None) for _ in range(count))
        while (piece := waiting.popleft().result()) is not None:
            waiting.append(executor.submit(next, pieces, None))
            yield piece
    finally:
        executor.shutdown(cancel_futures=True)


class ChunkDecoder:
    """Decoder of chunks that arrive in pieces of any size."""

    def __init__(self, *, window: int = WINDOW) -> None:
        """Start without data; `window`: the largest one that this side provides memory for."""
        self._held = bytearray()
        self._window = window
        self._frame: zstd.ZstdDecompressor | None = None

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the contents of the chunks that are complete with this piece.

        Raises:
            DamagedChunk: a chunk is not the one that was sent; neither it nor the data after it may be used.

        """
        self._held += piece
        while len(self._held) >= _HEAD.size:
            sent, size, sign, digest = _HEAD.unpack_from(self._held)
            if size > CHUNK or sent > 2 * CHUNK:
                raise DamagedChunk(f"a chunk of {size} bytes is announced, and none has more than {CHUNK}")
            end = _HEAD.size + sent
            if len(self._held) < end:
                return
            found = bytes(self._held[_HEAD.size : end])
            if _digest(found) != digest:
                raise DamagedChunk("a chunk has not the digest that stands before it")
            del self._held[:end]
            yield self._larger(found, size, sign)

    def _larger(self, sent: bytes, size: int, sign: bytes) -> bytes:
        how = next((how for how, known in _SIGNS.items() if known == sign), None)
        try:
            match how:
                case Compression.ZSTD:
                    whole = self._of_frame(sent, size)
                case Compression.SNAPPY:
                    room = bytearray(size)
                    whole = bytes(room[: cramjam.snappy.decompress_raw_into(sent, room)])
                case Compression.NONE:
                    whole = sent
                case _:
                    raise DamagedChunk(f"a chunk is compressed in a way that is not known: {sign!r}")
        except (zstd.ZstdError, cramjam.DecompressionError) as error:
            raise DamagedChunk(f"a chunk is no {how}: {error}") from error
        if len(whole) != size:
            raise DamagedChunk(f"a chunk has {len(whole)} bytes, and {size} were announced")
        return whole

    def _of_frame(self, sent: bytes, size: int) -> bytes:
        if self._frame is None:
            log = self._window.bit_length() - 1
            self._frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: log})
        if self._frame.eof:
            raise DamagedChunk("a chunk comes behind the end of its frame")
        return self._frame.decompress(sent, size + 1)
