"""Chunks on their way: whole again however they are cut, and noticed where one was damaged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadlog.packing import CHUNK, Compression, DamagedChunk, Unpacked, packed


@given(
    st.lists(st.binary(max_size=200) | st.binary(max_size=20).map(lambda piece: piece * 50), max_size=5),
    st.sampled_from(Compression),
    st.integers(1, 100),
)
def test_what_is_packed_comes_out_again(pieces: list[bytes], how: Compression, cut: int) -> None:
    sent = b"".join(packed(pieces, how))
    unpacked = Unpacked(how)
    came = [piece for at in range(0, len(sent), cut) for piece in unpacked.feed(sent[at : at + cut])]
    assert came == pieces


@pytest.mark.parametrize("how", Compression)
def test_any_bit_that_is_turned_is_noticed(how: Compression) -> None:
    """In the head it may also be that more is waited for; what is given out was sent."""
    pieces = [random.Random(n).randbytes(40) + b"-" * 60 for n in range(3)]
    sent = b"".join(packed(pieces, how))
    noticed = 0
    for at in range(len(sent) * 8):
        damaged = bytearray(sent)
        damaged[at // 8] ^= 1 << at % 8
        came: list[bytes] = []
        try:
            came.extend(Unpacked(how).feed(bytes(damaged)))
        except DamagedChunk:
            noticed += 1
        assert came == pieces[: len(came)], at
        assert len(came) < len(pieces)
    assert noticed > len(sent) * 8 * 0.8


def test_what_compresses_is_smaller() -> None:
    piece = b"<urn:s> <urn:p> <urn:o> .\n" * 30_000
    none, zstd, snappy = (
        len(b"".join(packed([piece], Compression(how)))) for how in ("none", "zstd", "snappy")
    )
    assert len(piece) < none < len(piece) + 100
    assert zstd < snappy < none / 10


def test_a_chunk_that_is_too_large_is_not_waited_for() -> None:
    with pytest.raises(DamagedChunk, match=f"more than {CHUNK}"):
        list(Unpacked(Compression.NONE).feed(b"\xff" * 30))
