"""Encoding of payloads in a master's own store, without a schema: no other program reads or writes them.

Every transaction is stored once and, if it waits long, read again: this encoding takes a fifth of the
time of Avro.  The first byte is 1.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from quadlog.core.model import Payload, Transaction, TransactionKind
from quadlog.errors import StateError

_HEAD: Final = struct.Struct(">B16s32sQHHHHHI")
_VERSION: Final = 1


def pack_payload(payload: Payload) -> bytes:
    """Encode a payload."""
    transaction = payload.transaction
    texts = [
        text.encode()
        for text in (
            transaction.kind.value,
            payload.origin,
            payload.origin_dc,
            payload.media_type,
            payload.traceparent,
        )
    ]
    options = json.dumps(dict(transaction.options)).encode() if transaction.options else b""
    head = _HEAD.pack(
        _VERSION, transaction.id, transaction.digest, payload.created, *map(len, texts), len(options)
    )
    return b"".join((head, *texts, options, payload.body))


def unpack_payload(value: bytes) -> Payload:
    """Decode a payload.

    Raises:
        StateError: the bytes hold no payload.

    """
    try:
        return _unpack(value)
    except (struct.error, ValueError) as error:
        raise StateError(
            "a stored payload is not whole; the store is damaged: remove data-dir, the master learns again"
        ) from error


def _unpack(value: bytes) -> Payload:
    version, name, digest, created, *lengths = _HEAD.unpack_from(value)
    if version != _VERSION:
        raise ValueError(f"a payload begins with {version}")
    parts: list[bytes] = []
    at = _HEAD.size
    for length in lengths:
        parts.append(value[at : at + length])
        at += length
    kind, origin, origin_dc, media_type, traceparent, options = map(bytes.decode, parts)
    return Payload(
        transaction=Transaction(
            id=name, digest=digest, kind=TransactionKind(kind), options=json.loads(options) if options else {}
        ),
        origin=origin,
        origin_dc=origin_dc,
        created=created,
        media_type=media_type,
        body=value[at:],
        traceparent=traceparent,
    )
