"""Chunks on their way: whole again however they are cut, and noticed where one was damaged."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlog.errors import DamagedChunk, StateError
from quadlog.snapshots import chunk_codec
from quadlog.snapshots.chunk_codec import (
    CHUNK,
    COMPRESSED,
    LEAST_WINDOW,
    PROBE,
    WINDOW,
    ChunkDecoder,
    Compression,
    encode_chunks,
    prefetch,
    window_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@given(
    st.lists(st.binary(max_size=200) | st.binary(max_size=20).map(lambda piece: piece * 50), max_size=5),
    st.sampled_from(Compression),
    st.integers(1, 100),
)
def test_what_is_packed_comes_out_again(pieces: list[bytes], how: Compression, cut: int) -> None:
    sent = b"".join(encode_chunks(pieces, how))
    unpacked = ChunkDecoder()
    came = [piece for at in range(0, len(sent), cut) for piece in unpacked.feed(sent[at : at + cut])]
    assert came == pieces


@pytest.mark.parametrize("how", Compression)
def test_any_bit_that_is_turned_is_noticed(how: Compression) -> None:
    """In the head it may also be that more is waited for; what is given out was sent."""
    pieces = [random.Random(n).randbytes(40) + b"-" * 60 for n in range(3)]
    sent = b"".join(encode_chunks(pieces, how))
    noticed = 0
    for at in range(len(sent) * 8):
        damaged = bytearray(sent)
        damaged[at // 8] ^= 1 << at % 8
        came: list[bytes] = []
        try:
            came.extend(ChunkDecoder().feed(bytes(damaged)))
        except DamagedChunk:
            noticed += 1
        assert came == pieces[: len(came)], at
        assert len(came) < len(pieces)
    assert noticed > len(sent) * 8 * 0.8


def test_what_compresses_is_smaller() -> None:
    piece = b"<urn:s> <urn:p> <urn:o> .\n" * 30_000
    none, zstd, snappy = (
        len(b"".join(encode_chunks([piece], Compression(how)))) for how in ("none", "zstd", "snappy")
    )
    assert len(piece) < none < len(piece) + 100
    assert zstd < snappy < none / 10


def test_a_chunk_that_is_too_large_is_not_waited_for() -> None:
    with pytest.raises(DamagedChunk, match=f"more than {CHUNK}"):
        list(ChunkDecoder().feed(b"\xff" * 30))


def lengths(pieces: list[bytes], how: Compression, window: int) -> list[int]:
    """Of each chunk."""
    return [len(chunk) for chunk in encode_chunks(pieces, how, window=window)]


def test_what_stands_far_behind_is_seen_as_far_as_the_window_goes() -> None:
    """No chunk can be compressed by itself."""
    chance = random.Random(1)
    once = [chance.randbytes(CHUNK) for _ in range(3)]
    within, beyond = (lengths(once + once, Compression.ZSTD, window) for window in (4 * CHUNK, 2 * CHUNK))
    assert all(size > CHUNK for size in within[:3] + beyond[:3])
    assert all(size < CHUNK / 20 for size in within[3:])
    assert all(size > CHUNK for size in beyond[3:])


def test_more_memory_than_is_lent_is_not_taken() -> None:
    chance = random.Random(1)
    sent = b"".join(
        encode_chunks([chance.randbytes(CHUNK) for _ in range(9)], Compression.ZSTD, window=8 * CHUNK)
    )
    assert len(list(ChunkDecoder(window=8 * CHUNK).feed(sent))) == 9
    with pytest.raises(DamagedChunk, match="a chunk is no zstd"):
        list(ChunkDecoder(window=4 * CHUNK).feed(sent))


@pytest.mark.parametrize(
    ("size", "most", "window"),
    [
        (0, (WINDOW,), LEAST_WINDOW),
        (CHUNK, (WINDOW,), CHUNK),
        (CHUNK + 1, (WINDOW,), 2 * CHUNK),
        (1 << 40, (WINDOW, 8 * CHUNK), 8 * CHUNK),
        (1 << 40, (7 * CHUNK, WINDOW), 4 * CHUNK),
    ],
)
def test_the_window_is_no_larger_than_need_be(size: int, most: tuple[int, ...], window: int) -> None:
    assert window_for(size, *most) == window


@pytest.mark.parametrize("rate", [COMPRESSED / 3, COMPRESSED * 3])
def test_what_the_way_takes_decides(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first chunks are swallowed at once, by buffers."""
    moment = [0.0]
    monkeypatch.setattr(chunk_codec, "time", SimpleNamespace(monotonic=lambda: moment[0]))
    pieces = [bytes([n]) * CHUNK for n in range(PROBE + 5)]
    found: list[int] = []
    for number, chunk in enumerate(encode_chunks(pieces, Compression.AUTO)):
        found.append(len(chunk))
        if number >= PROBE // 2:
            moment[0] += CHUNK / rate
    assert all(size > CHUNK for size in found[:PROBE])
    assert [size < CHUNK for size in found[PROBE:]] == [rate < COMPRESSED] * 5


def test_what_is_made_ahead_is_the_same_and_not_more() -> None:
    made: list[int] = []

    def making() -> Iterator[int]:
        for number in range(1, 20):
            made.append(number)
            yield number

    came: list[int] = []
    for number in prefetch(making(), 3):
        came.append(number)
        assert len(made) <= number + 3
    assert came == made == list(range(1, 20))


def test_what_goes_wrong_ahead_is_told_in_its_place() -> None:
    def making() -> Iterator[int]:
        yield 1
        yield 2
        raise StateError("it became shorter")

    came: list[int] = []
    with pytest.raises(StateError, match="became shorter"):
        came.extend(prefetch(making()))
    assert came == [1, 2]


def test_who_takes_no_more_ends_it() -> None:
    """No thread is left."""
    before = threading.active_count()
    given = prefetch(iter(range(1, 1000)))
    assert next(given) == 1
    given.close()
    assert threading.active_count() == before
