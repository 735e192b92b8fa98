"""What is written is read again, whatever it is; what somebody else wrote is refused."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schemas
from quadlog import codec
from quadlog.codec import wire
from quadlog.core.messages import POST_LIMIT
from quadlog.core.model import (
    Ask,
    Effect,
    Fence,
    Handover,
    Heartbeat,
    Kind,
    LoggedEntry,
    Outcome,
    Pair,
    Payload,
    Point,
    Post,
    Rank,
    Scrub,
    Seed,
    Transaction,
    View,
    WorkerState,
    first_view,
)
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.codec import Said

T = TypeVar("T")
ids = st.binary(min_size=16, max_size=16)
hashes = st.binary(min_size=32, max_size=32)
longs = st.integers(min_value=0, max_value=2**63 - 1)
moments = st.integers(min_value=0, max_value=4_102_444_800_000)
"""Milliseconds from 1970 to 2100."""
names = st.text(max_size=12)
options = st.dictionaries(names, names, max_size=3)
views = st.builds(View, epoch=longs, members=st.lists(names, max_size=4).map(tuple), parent=hashes)
points = st.builds(Point, longs, hashes)
pairs = st.builds(Pair, longs, ids, hashes)
kinds = st.sampled_from(Kind)

payloads = st.builds(
    Payload,
    transaction=st.builds(Transaction, id=ids, digest=hashes, kind=kinds, options=options),
    origin=names,
    origin_dc=names,
    created=moments,
    media_type=names,
    body=st.binary(max_size=64),
    traceparent=names,
)
entries = st.builds(
    LoggedEntry,
    index=longs,
    kind=kinds,
    id=ids,
    timestamp=longs,
    digest=hashes,
    options=options,
    previous=hashes,
    chain=hashes,
    epoch=longs,
    lineage=hashes,
    origin=names,
    created=moments,
    media_type=names,
    body=st.binary(max_size=64),
    traceparent=names,
)
lines = st.lists(st.text(max_size=20), max_size=4).map(tuple)
effects = st.builds(
    Effect,
    index=longs,
    id=ids,
    entry_chain=hashes,
    term=hashes,
    attempt=longs,
    outcome=st.sampled_from(Outcome),
    reason=st.none() | names,
    deleted=lines,
    inserted=lines,
    emptied=lines,
    filled=lines,
    dropped=lines,
    quads=longs,
    signature_before=hashes,
    signature_after=hashes,
    chain=hashes,
)
posts = st.builds(
    Post,
    node=names,
    incarnation=ids,
    sequence=longs,
    view=views,
    base=points,
    counter=longs,
    base_sequence=st.none() | longs,
    asks=st.lists(st.builds(Ask, names, longs), max_size=3).map(tuple),
    queue=st.lists(pairs, max_size=4).map(tuple),
    added=st.lists(pairs, max_size=4).map(tuple),
    ballot=st.none() | views,
    rank=st.builds(
        Rank, longs, st.integers(min_value=0, max_value=2**31 - 1), st.lists(names, max_size=3).map(tuple)
    ),
    joining=st.none() | views,
    whole=st.booleans(),
    beside=st.none() | points,
    given_up=st.lists(names, max_size=3).map(tuple),
)
fences = st.builds(Fence, term=hashes, attempt=longs, worker=names)
seeds = st.builds(
    Seed,
    signature=hashes,
    quads=longs,
    digest=hashes,
    at=moments,
    by=names,
    sources=st.lists(names, max_size=3).map(tuple),
)
handovers = st.builds(Handover, index=longs, term=hashes, dc=names, start=longs)
heartbeats = st.builds(
    Heartbeat,
    worker=names,
    dc=names,
    url=names,
    state=st.sampled_from(WorkerState),
    evaluating=st.booleans(),
    attempt=longs,
    applied=points,
    signature=hashes,
    quads=longs,
    sent=moments,
    store=names,
    scrub=st.none() | st.builds(Scrub, index=longs, at=moments, expected=hashes, found=hashes, quads=longs),
    scrub_failure=names,
    mend=names,
)
anything: st.SearchStrategy[Said] = st.one_of(
    payloads, entries, effects, posts, fences, handovers, heartbeats, seeds
)


def encode(said: Said) -> list[bytes]:  # noqa: PLR0911  one for each
    """The records of anything that can be said."""
    match said:
        case Payload():
            return codec.encode_payload(said)
        case LoggedEntry():
            return codec.encode_entry(said)
        case Effect():
            return codec.encode_effect(said)
        case Post():
            return [codec.encode_post(said)]
        case Fence():
            return [codec.encode_fence(said)]
        case Handover():
            return [codec.encode_handover(said)]
        case Heartbeat():
            return [codec.encode_heartbeat(said)]
        case Seed():
            return [codec.encode_seed(said)]


@given(heartbeats)
def test_heartbeats_of_the_first_schema_are_read(beat: Heartbeat) -> None:
    """And an old reader that takes the new schema from the registry finds all that it knows in it."""
    new, old = wire._schema(wire.HEARTBEAT), wire._schema(wire.HEARTBEAT_1)
    record = wire._reader(io.BytesIO(codec.encode_heartbeat(beat)[wire._HEADER :]), new, old)
    known = replace(beat, store="", scrub=None, scrub_failure="", mend="")
    assert codec.decode(wire.write(wire.HEARTBEAT_1, record)) == known


@settings(deadline=None)
@given(anything)
def test_what_is_written_is_read_again(said: Said) -> None:
    [record] = encode(said)
    assert codec.decode(record) == said
    assert codec.decode_chunk(record) == (said, 0, 1)
    assert codec.Chunks().join(record) == said
    # Confluent wire format: whoever has the registry can read on.
    assert record[0] == 0
    assert schemas.record_name(int.from_bytes(record[1:5], "big")) in {
        f"quadlog.{type(said).__name__}",
        "quadlog.Entry",
    }


@settings(deadline=None)
@given(payloads)
def test_a_payload_is_kept_and_found_again(payload: Payload) -> None:
    assert codec.unpack_payload(codec.pack_payload(payload)) == payload


@pytest.mark.parametrize("size", [0, 3 * codec.CHUNK + 7])
def test_a_payload_that_an_earlier_version_kept_is_found(size: int) -> None:
    payload = large_payload(7, size)
    records = codec.encode_payload(payload)
    kept = b"".join(len(record).to_bytes(4, "big") + record for record in records)
    assert codec.unpack_payload(kept) == payload
    with pytest.raises(StateError):
        codec.unpack_payload(kept[:-1])


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0", b"\1", b"\1" * 40, b"\2" + bytes(80)])
def test_a_damaged_store_is_named(value: bytes) -> None:
    with pytest.raises(StateError):
        codec.unpack_payload(value)


# --- chunks -----------------------------------------------------------------------------------------


def example(strategy: st.SearchStrategy[T], change: Callable[[T], T]) -> T:
    """One value of a strategy, changed."""
    found: list[T] = []

    @settings(max_examples=1, database=None, derandomize=True)
    @given(strategy)
    def take(value: T) -> None:
        found.append(value)

    take()
    return change(found[0])


def large_payload(seed: int, size: int) -> Payload:
    body = random.Random(seed).randbytes(size)
    key = Transaction(id=bytes([seed]) * 16, digest=bytes([seed]) * 32)
    return example(payloads, lambda payload: replace(payload, transaction=key, body=body))


def large_effect(index: int, attempt: int, count: int) -> Effect:
    many = tuple(f'<urn:s:{index}> <urn:p:{n}> "{"ü" * 1000}" .' for n in range(count))
    return example(
        effects,
        lambda effect: replace(
            effect, index=index, attempt=attempt, deleted=many[::2], inserted=many[1::2], emptied=("<urn:e>",)
        ),
    )


@pytest.mark.parametrize("size", [0, 1, codec.CHUNK - 1, codec.CHUNK, codec.CHUNK + 1, 3 * codec.CHUNK + 7])
def test_a_body_is_cut_and_joined(size: int) -> None:
    payload = large_payload(7, size)
    records = codec.encode_payload(payload)
    assert len(records) == max(1, -(-size // codec.CHUNK))
    chunks = codec.Chunks()
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
        chunks = codec.Chunks()
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
        chunks = codec.Chunks()
        joined: list[Said] = []
        while any(writers):
            records = chance.choice([writer for writer in writers if writer])
            if (said := chunks.join(records.pop(0))) is not None:
                joined.append(said)
        assert sorted(map(repr, joined)) == sorted(map(repr, whole))
        assert chunks.unfinished == 0


def test_what_a_dead_writer_left_is_written_again() -> None:
    payload = large_payload(3, 3 * codec.CHUNK)
    records, chunks = codec.encode_payload(payload), codec.Chunks()
    said = [chunks.join(record) for record in (*records[:2], *records)]
    assert said[-1] == payload or payload in said
    assert len([one for one in said if one is not None]) == 1


def test_unfinished_sets_do_not_grow_for_ever() -> None:
    chunks = codec.Chunks()
    for seed in range(codec.Chunks.UNFINISHED * 2):
        assert chunks.join(codec.encode_payload(large_payload(seed, codec.CHUNK + 1))[0]) is None
        assert chunks.unfinished <= codec.Chunks.UNFINISHED
    # The newest ones are still there.
    newest = large_payload(codec.Chunks.UNFINISHED * 2 - 1, codec.CHUNK + 1)
    assert chunks.join(codec.encode_payload(newest)[1]) == newest


# --- what others wrote --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0",
        b"\0\0\0\0\1",
        b"hello, world",
        b'{"json": true}',
        b"\0\0\0\0\0rest",
        b"\0\0\0\0\x63rest",
        b"\1\0\0\0\1rest",
    ],
)
def test_foreign_bytes_are_refused(value: bytes) -> None:
    with pytest.raises(StateError, match="not a quadlog record"):
        codec.decode(value)
    with pytest.raises(StateError):
        codec.Chunks().join(value)


@settings(deadline=None)
@given(st.sampled_from(sorted(schemas.IDS)), st.binary(max_size=200))
def test_noise_behind_a_right_header_is_refused_or_a_record(schema_id: int, noise: bytes) -> None:
    """Never another exception than ours: the caller has one thing to say for three in the morning."""
    try:
        said, chunk, chunks = codec.decode_chunk(b"\0" + schema_id.to_bytes(4, "big") + noise)
    except StateError:
        return
    assert said is not None
    assert 0 <= chunk < chunks


@settings(max_examples=300, deadline=None)
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


@settings(deadline=None)
@given(anything)
def test_a_record_that_was_cut_off_is_refused(said: Said) -> None:
    record = encode(said)[0]
    with pytest.raises(StateError):
        codec.decode(record[:-1])


@pytest.mark.parametrize(("schema_id", "fields"), [(2, 3), (8, 2)])
def test_posts_of_older_schemas_are_read(schema_id: int, fields: int) -> None:
    """Topics hold such posts for ever.  Written as its only writer did: without the last fields, of one byte each."""
    post = example(posts, lambda post: replace(post, base_sequence=None, asks=(), beside=None, whole=True))
    record = codec.encode_post(post)
    assert record[-3:] == b"\0\0\1"
    assert codec.decode(bytes([0, 0, 0, 0, schema_id]) + record[5:-fields]) == post


def test_the_largest_post_fits_a_record() -> None:
    pairs = tuple(Pair(2**62 + number, bytes([255]) * 16, bytes([255]) * 32) for number in range(POST_LIMIT))
    masters = tuple(f"a-rather-long-name-of-master-{number}" for number in range(20))
    post = Post(
        node=masters[0],
        incarnation=bytes(16),
        sequence=2**62,
        view=first_view(masters),
        base=Point(2**62, bytes(32)),
        counter=2**62,
        queue=pairs,
        added=pairs,
        asks=tuple(Ask(master, 2**62) for master in masters),
        rank=Rank(1, 20, masters),
    )
    assert len(codec.encode_post(post)) < 900_000  # librdkafka refuses 1,000,000, headers included


def test_effects_of_schema_4_stay_readable() -> None:
    """They know nothing of dropped graphs: none was dropped then."""
    effect = Effect(
        index=7, id=b"i" * 16, entry_chain=b"e" * 32, term=b"t" * 32, attempt=1, outcome=Outcome.APPLIED,
        deleted=("<urn:s> <urn:p> 1 .",), quads=3, signature_before=b"b" * 32, signature_after=b"a" * 32,
        chain=b"c" * 32,
    )  # fmt: skip
    [record] = codec.encode_effect(effect)
    schema_id, fields = wire.read(record)
    assert (schema_id, fields.pop("dropped")) == (7, [])
    assert codec.decode(wire.write(4, fields)) == effect
