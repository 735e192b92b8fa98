"""Encoding and decoding of the core's values: Avro in Confluent wire format.  No other package uses Avro."""

from quadlog.codec.decoding import (
    ChunkJoiner,
    ChunkPlace,
    EffectHeads,
    Part,
    Said,
    decode,
    decode_ahead,
    decode_chunk,
    is_last_chunk,
    joined_chunks,
)
from quadlog.codec.effects import encode_effect
from quadlog.codec.kept import pack_payload, unpack_payload
from quadlog.codec.posts import encode
from quadlog.codec.transactions import encode_entry, encode_payload
from quadlog.codec.wire import CHUNK, is_ours

__all__ = [
    "CHUNK",
    "ChunkJoiner",
    "ChunkPlace",
    "EffectHeads",
    "Part",
    "Said",
    "decode",
    "decode_ahead",
    "decode_chunk",
    "encode",
    "encode_effect",
    "encode_entry",
    "encode_payload",
    "is_last_chunk",
    "is_ours",
    "joined_chunks",
    "pack_payload",
    "unpack_payload",
]
