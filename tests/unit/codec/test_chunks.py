"""What is too large for one record is cut, and joined again whoever writes beside it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from quadlog import codec
from tests.support.agreement.said import encode, large_effect, large_payload

if TYPE_CHECKING:
    from quadlog.codec import Said


@pytest.mark.parametrize("size", [0, 1, codec.CHUNK - 1, codec.CHUNK, codec.CHUNK + 1, 3 * codec.CHUNK + 7])
def test_a_body_is_cut_and_joined(size: int) -> None:
    payload = large_payload(7, size)
    records = codec.encode_payload(payload)
    assert len(records) == max(1, -(-size // codec.CHUNK))
    chunks = codec.ChunkJoiner()
    joined = [chunks.join(record) for record in records]
    assert joined == [None] * (len(records) - 1) + [payload]
    assert chunks.unfinished == 0
    assert (codec.decode(records[0]) is None) == (len(records) > 1)


def test_no_record_is_above_what_kafka_takes() -> None:
    """Also where one line alone is longer than a chunk, and of four-byte characters."""
    lone = replace(large_effect(1, 1, 3), inserted=(f'<urn:s> <urn:p> "{"🐍" * 600_000}" .', "<a> <b> <c> ."))
    for effect in (lone, large_effect(1, 1, 2500)):
        records = codec.encode_effect(effect)
        assert len(records) > 1
        assert max(map(len, records)) < 1_000_000
        chunks = codec.ChunkJoiner()
        assert [chunks.join(record) for record in records][-1] == effect


def test_chunks_of_two_writers_may_stand_in_any_order() -> None:
    """Two masters of one data centre write at once; what stands between is told apart by what it is part of."""
    whole: list[Said] = [
        large_payload(1, 3 * codec.CHUNK),
        large_payload(2, 2 * codec.CHUNK + 1),
        large_effect(5, 1, 900),
        large_effect(5, 2, 700),
        large_effect(6, 2, 700),
    ]
    for seed in range(20):
        chance = random.Random(seed)
        writers = [encode(said) for said in whole]
        chunks = codec.ChunkJoiner()
        joined: list[Said] = []
        while any(writers):
            records = chance.choice([writer for writer in writers if writer])
            if (said := chunks.join(records.pop(0))) is not None:
                joined.append(said)
        assert sorted(map(repr, joined)) == sorted(map(repr, whole))
        assert chunks.unfinished == 0


def test_what_a_dead_writer_left_is_written_again() -> None:
    payload = large_payload(3, 3 * codec.CHUNK)
    records, chunks = codec.encode_payload(payload), codec.ChunkJoiner()
    said = [chunks.join(record) for record in (*records[:2], *records)]
    assert said[-1] == payload or payload in said
    assert len([one for one in said if one is not None]) == 1


def test_unfinished_sets_do_not_grow_for_ever() -> None:
    chunks = codec.ChunkJoiner()
    for seed in range(codec.ChunkJoiner.UNFINISHED * 2):
        assert chunks.join(codec.encode_payload(large_payload(seed, codec.CHUNK + 1))[0]) is None
        assert chunks.unfinished <= codec.ChunkJoiner.UNFINISHED
    # The newest ones are still there.
    newest = large_payload(codec.ChunkJoiner.UNFINISHED * 2 - 1, codec.CHUNK + 1)
    assert chunks.join(codec.encode_payload(newest)[1]) == newest
