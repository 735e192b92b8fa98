"""What is written is read again, whatever it is; what somebody else wrote is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schemas
from quadlog import codec
from quadlog.core.messages import POST_LIMIT
from quadlog.core.model import (
    Ask,
    LogPosition,
    Pair,
    Payload,
    Post,
    Rank,
    RejoinedMember,
    first_view,
)
from quadlog.errors import StateError
from tests.support.agreement.said import anything, encode, payloads

if TYPE_CHECKING:
    from quadlog.codec import Said


@given(anything)
def test_what_is_written_is_read_again(said: Said) -> None:
    [record] = encode(said)
    assert codec.decode(record) == said
    assert codec.decode_chunk(record) == (said, 0, 1)
    assert codec.ChunkJoiner().join(record) == said
    # Confluent wire format: whoever has the registry can read on.
    assert record[0] == 0
    assert schemas.record_name(int.from_bytes(record[1:5], "big")) in {
        f"quadlog.{type(said).__name__}",
        "quadlog.Entry",
    }


@given(payloads)
def test_a_payload_is_kept_and_found_again(payload: Payload) -> None:
    assert codec.unpack_payload(codec.pack_payload(payload)) == payload


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0", b"\1", b"\1" * 40, b"\2" + bytes(80)])
def test_a_damaged_store_is_named(value: bytes) -> None:
    with pytest.raises(StateError):
        codec.unpack_payload(value)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        b"\0\0\0\0\x1a",
        b"hello, world",
        b'{"json": true}',
        b"\0\0\0\0\0rest",
        b"\0\0\0\0\x63rest",
        b"\0\0\0\0\7" + bytes(200),  # an effect of a build before the first release
        b"\1\0\0\0\1rest",
    ],
)
def test_foreign_bytes_are_refused(value: bytes) -> None:
    with pytest.raises(StateError, match="not a quadlog record"):
        codec.decode(value)
    with pytest.raises(StateError):
        codec.ChunkJoiner().join(value)


@given(st.sampled_from(sorted(schemas.IDS)), st.binary(max_size=200))
def test_noise_behind_a_right_header_is_refused_or_a_record(schema_id: int, noise: bytes) -> None:
    """Never another exception than ours: the caller has one thing to say for three in the morning."""
    try:
        said, chunk, chunks = codec.decode_chunk(b"\0" + schema_id.to_bytes(4, "big") + noise)
    except StateError:
        return
    assert said is not None
    assert 0 <= chunk < chunks


@settings(max_examples=300)
@given(anything, st.data())
def test_a_damaged_record_is_refused_or_a_record(said: Said, data: st.DataObject) -> None:
    record = bytearray(encode(said)[0])
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(5, len(record) - 1))] = data.draw(st.integers(0, 255))
    try:
        _, chunk, chunks = codec.decode_chunk(bytes(record))
    except StateError:
        return
    assert 0 <= chunk < chunks


@given(anything)
def test_a_record_that_was_cut_off_is_refused(said: Said) -> None:
    record = encode(said)[0]
    with pytest.raises(StateError):
        codec.decode(record[:-1])


def test_the_largest_post_fits_a_record() -> None:
    pairs = tuple(Pair(2**62 + number, bytes([255]) * 16, bytes([255]) * 32) for number in range(POST_LIMIT))
    masters = tuple(f"a-rather-long-name-of-master-{number}" for number in range(20))
    view = replace(
        first_view(dict.fromkeys(masters, "a-rather-long-name-of-data-centre")),
        returned=tuple(RejoinedMember(master, bytes(16), blank=True) for master in masters),
    )
    post = Post(
        node=masters[0],
        incarnation=bytes(16),
        sequence=2**62,
        view=view,
        ballot=view,
        joining=view,
        base=LogPosition(2**62, bytes(32)),
        counter=2**62,
        queue=pairs,
        added=pairs,
        asks=tuple(Ask(master, 2**62) for master in masters),
        rank=Rank(epoch=1, decided=True, members=20, ids=masters),
    )
    assert len(codec.encode(post)) < 900_000  # librdkafka refuses 1,000,000, headers included
