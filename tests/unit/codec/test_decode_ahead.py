"""What is decoded before anybody asks is what is heard, and no error is lost by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quadlog import codec
from quadlog.codec.decoding import AHEAD
from quadlog.errors import ForeignRecord
from tests.support.agreement.topics import entries


def test_what_was_decoded_ahead_is_joined_as_it_is() -> None:
    [entry] = entries(1)
    [value] = codec.encode_entry(entry)
    part = codec.decode_ahead(value)
    assert part == codec.decode_chunk(value)
    assert codec.ChunkJoiner().join(b"", part=part) == entry, "nothing is decoded again"


def test_chunks_may_be_decoded_ahead_one_by_one() -> None:
    [entry] = entries(1)
    entry = replace(entry, body=bytes(codec.CHUNK) + b"end")
    first, last = codec.encode_entry(entry)
    assert len(first) > AHEAD
    assert codec.decode_ahead(first) is None, "what is large is not kept twice"
    chunks = codec.ChunkJoiner()
    assert chunks.join(first, part=codec.decode_ahead(first)) is None
    assert chunks.join(last, part=codec.decode_ahead(last)) == entry


def test_who_asks_is_told_what_is_wrong() -> None:
    value = b"\0\0\0\0\x1c" + b"not an entry"
    assert codec.decode_ahead(value) is None
    with pytest.raises(ForeignRecord, match=r"quadlog\.Entry that cannot be read"):
        codec.ChunkJoiner().join(value, part=codec.decode_ahead(value))
