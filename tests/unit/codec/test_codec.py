"""What is written is read again, whatever it is; what somebody else wrote is refused."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schemas
from quadlog import codec
from quadlog.codec import wire
from quadlog.core.messages import POST_LIMIT
from quadlog.core.model import (
    NOWHERE,
    Ask,
    LogPosition,
    Pair,
    Payload,
    Post,
    Rank,
    RejoinedMember,
    View,
    first_view,
)
from quadlog.core.records import Effect, Heartbeat, Outcome
from quadlog.errors import StateError
from tests.support.agreement.said import anything, encode, heartbeats, large_payload, payloads, posts

if TYPE_CHECKING:
    from quadlog.codec import Said


@given(heartbeats)
def test_heartbeats_of_the_first_schema_are_read(beat: Heartbeat) -> None:
    """And an old reader that takes the new schema from the registry finds all that it knows in it."""
    newest = wire.HEARTBEAT if beat.catching_up is None else wire.HEARTBEAT_4
    newest = wire.HEARTBEAT_5 if beat.unsaid else newest
    newest = wire.HEARTBEAT_6 if beat.set_aside else newest
    new, old = wire._schema(newest), wire._schema(wire.HEARTBEAT_1)
    record = wire._reader(io.BytesIO(codec.encode_heartbeat(beat)[wire._HEADER :]), new, old)
    known = replace(
        beat,
        store="",
        scrub=None,
        scrub_failure="",
        mend="",
        epoch=0,
        catching_up=None,
        unsaid="",
        set_aside="",
    )
    assert codec.decode(wire.write(wire.HEARTBEAT_1, record)) == known


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


@given(posts, st.sampled_from([wire.POST_1, wire.POST_2, wire.POST_3, wire.POST_4]))
def test_posts_of_older_schemas_are_read(post: Post, schema_id: int) -> None:
    """Topics hold such posts for ever.  Their views knew neither of homes nor of lost disks nor of peers."""

    def old(view: View) -> View:
        view = replace(view, peers=(), before=())
        return view if schema_id == wire.POST_4 else replace(view, home="", returned=())

    known = replace(
        post,
        view=old(post.view),
        ballot=post.ballot and old(post.ballot),
        joining=post.joining and old(post.joining),
        rank=post.rank._replace(decided=True),
        changes=(),
        full=False,
    )
    if schema_id != wire.POST_4:
        known = replace(known, effects=NOWHERE, unheard=())
    if schema_id not in {wire.POST_3, wire.POST_4}:
        known = replace(known, beside=None, whole=True)
    if schema_id == wire.POST_1:
        known = replace(known, base_sequence=None, asks=())
    _, fields = wire.read(codec.encode_post(known))
    assert codec.decode(wire.write(schema_id, fields)) == known


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
