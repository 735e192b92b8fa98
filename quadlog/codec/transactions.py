"""Encoding of payloads and entries: a body, in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from quadlog.codec.wire import CHUNK, ENTRY, PAYLOAD, write
from quadlog.core.model import Payload, Transaction, TransactionKind
from quadlog.core.records import LoggedEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS: Final = {kind.value: kind for kind in TransactionKind}


def _bodies(body: bytes) -> Iterator[dict[str, Any]]:
    chunks = max(1, -(-len(body) // CHUNK))
    for chunk in range(chunks):
        yield {"chunk": chunk, "chunks": chunks, "body": body[chunk * CHUNK : (chunk + 1) * CHUNK]}


def encode_payload(payload: Payload) -> list[bytes]:
    """Return the records of one payload: several if its body is larger than `CHUNK`."""
    transaction = payload.transaction
    common = {
        "id": transaction.id,
        "digest": transaction.digest,
        "origin": payload.origin,
        "origin_dc": payload.origin_dc,
        "kind": transaction.kind.value,
        "created": payload.created,
        "media_type": payload.media_type,
        "options": dict(transaction.options),
        "traceparent": payload.traceparent,
    }
    return [write(PAYLOAD, common | part) for part in _bodies(payload.body)]


def payload_of(record: dict[str, Any]) -> Payload:
    """Return the payload, or the chunk of one, in a decoded record."""
    return Payload(
        transaction=Transaction(
            id=record["id"],
            digest=record["digest"],
            kind=TransactionKind(record["kind"]),
            options=record["options"],
        ),
        origin=record["origin"],
        origin_dc=record["origin_dc"],
        created=record["created"],
        media_type=record["media_type"],
        body=record["body"],
        traceparent=record["traceparent"],
    )


def encode_entry(entry: LoggedEntry) -> list[bytes]:
    """Return the records of one entry."""
    common = {
        "index": entry.index,
        "kind": entry.kind.value,
        "id": entry.id,
        "timestamp": entry.timestamp,
        "digest": entry.digest,
        "options": dict(entry.options),
        "previous": entry.previous,
        "chain": entry.chain,
        "epoch": entry.epoch,
        "lineage": entry.lineage,
        "origin": entry.origin,
        "created": entry.created,
        "media_type": entry.media_type,
        "traceparent": entry.traceparent,
    }
    return [write(ENTRY, common | part) for part in _bodies(entry.body)]


def entry_of(record: dict[str, Any]) -> LoggedEntry:
    """Return the entry, or the chunk of one, in a decoded record."""
    del record["chunk"], record["chunks"]
    record["kind"] = _KINDS[record["kind"]]
    return LoggedEntry(**record)
