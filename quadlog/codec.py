"""Values of the core to bytes and back: Avro in Confluent wire format.  Avro stops here.

byte 0      0, the magic byte
bytes 1-4   schema id, big-endian (see `schemas`)
the rest    Avro, schemaless
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import fastavro

import schemas
from quadlog.core.model import (
    Effect,
    Fence,
    Heartbeat,
    Kind,
    LoggedEntry,
    Outcome,
    Pair,
    Payload,
    Point,
    Post,
    Rank,
    Transaction,
    View,
    WorkerState,
)
from quadlog.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHUNK: Final = 512 * 1024
"""Bytes of body or lines in one record: fits Kafka's default limit of 1 MB with room to spare."""

Said = Payload | Post | LoggedEntry | Effect | Fence | Heartbeat
"""Whatever a record can hold; of payloads, entries and effects it may be one chunk."""

_PAYLOAD, _POST, _ENTRY, _EFFECT, _FENCE, _HEARTBEAT = sorted(schemas.IDS)
_MAGIC: Final = [b"\0" + schema_id.to_bytes(4, "big") for schema_id in range(max(schemas.IDS) + 1)]
_HEADER: Final = 5

# Typed by hand: fastavro's own types are partly unknown.
_writer = cast("Any", fastavro).schemaless_writer
_reader = cast("Any", fastavro).schemaless_reader


@cache
def _schema(schema_id: int) -> Any:  # noqa: ANN401 - fastavro's own type is a union with Any
    return fastavro.parse_schema(json.loads(schemas.text(schema_id)))


def _write(schema_id: int, record: dict[str, Any]) -> bytes:
    out = io.BytesIO(_MAGIC[schema_id])
    out.seek(_HEADER)
    _writer(out, _schema(schema_id), record)
    return out.getvalue()


def _read(value: bytes) -> tuple[int, dict[str, Any]]:
    schema_id = int.from_bytes(value[1:_HEADER], "big")
    if len(value) <= _HEADER or value[0] != 0 or schema_id not in schemas.IDS:
        message = f"not a quadlog record: it starts with {value[:_HEADER].hex()}; was it written by another program?"
        raise StateError(message)
    stream = io.BytesIO(value)
    stream.seek(_HEADER)
    try:
        record: dict[str, Any] = _reader(stream, _schema(schema_id), None)
    except Exception as error:  # fastavro raises EOFError, IndexError, ValueError, … as the bytes have it
        message = f"not a quadlog record: bytes of a {schemas.record_name(schema_id)} that cannot be read ({error!r})"
        raise StateError(message) from error
    return schema_id, record


# --- payloads and entries: a body in chunks ---------------------------------------------------------


def _bodies(body: bytes) -> Iterator[dict[str, Any]]:
    chunks = max(1, -(-len(body) // CHUNK))
    for chunk in range(chunks):
        yield {"chunk": chunk, "chunks": chunks, "body": body[chunk * CHUNK : (chunk + 1) * CHUNK]}


def encode_payload(payload: Payload) -> list[bytes]:
    """The records of one payload: more than one above `CHUNK`."""
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
    return [_write(_PAYLOAD, common | part) for part in _bodies(payload.body)]


def _payload(record: dict[str, Any]) -> Payload:
    return Payload(
        transaction=Transaction(
            id=record["id"], digest=record["digest"], kind=Kind(record["kind"]), options=record["options"]
        ),
        origin=record["origin"],
        origin_dc=record["origin_dc"],
        created=_millis(record["created"]),
        media_type=record["media_type"],
        body=record["body"],
        traceparent=record["traceparent"],
    )


def encode_entry(entry: LoggedEntry) -> list[bytes]:
    """The records of one entry."""
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
    return [_write(_ENTRY, common | part) for part in _bodies(entry.body)]


def _entry(record: dict[str, Any]) -> LoggedEntry:
    record = record | {"kind": Kind(record["kind"]), "created": _millis(record["created"])}
    del record["chunk"], record["chunks"]
    return LoggedEntry(**record)


def _millis(moment: Any) -> int:  # noqa: ANN401 - a datetime with fastavro's logical types
    millis: int = round(moment.timestamp() * 1000)
    return millis


# --- effects: lists of lines in chunks ---------------------------------------------------------------


def encode_effect(effect: Effect) -> list[bytes]:
    """The records of one effect: their lists, one after the other, are the effect's."""
    common = {
        "index": effect.index,
        "id": effect.id,
        "entry_chain": effect.entry_chain,
        "term": effect.term,
        "attempt": effect.attempt,
        "outcome": effect.outcome.value,
        "reason": effect.reason,
        "quads": effect.quads,
        "signature_before": effect.signature_before,
        "signature_after": effect.signature_after,
        "chain": effect.chain,
    }
    parts = list(_lists(effect))
    return [
        _write(_EFFECT, common | part | {"chunk": chunk, "chunks": len(parts)})
        for chunk, part in enumerate(parts)
    ]


_LISTS: Final = ("deleted", "inserted", "emptied", "filled")
_PIECE: Final = CHUNK // 4
"""Characters of a line that is longer than a chunk: UTF-8 has at most four bytes for one."""


def _lists(effect: Effect) -> Iterator[dict[str, Any]]:
    """The chunks' lists; a line that is too long for one stands in pieces, each a chunk of its own."""
    part: dict[str, Any] = {}
    size = 0
    for name in _LISTS:
        for line in getattr(effect, name):
            length = len(line) if line.isascii() else len(line) * 4
            if size and size + length > CHUNK:
                yield _part(part)
                part, size = {}, 0
            if length > CHUNK:
                pieces = [line[at : at + _PIECE] for at in range(0, len(line), _PIECE)]
                for piece in pieces[:-1]:
                    yield _part({name: [piece], "continues": True})
                part, size = {name: [pieces[-1]]}, length % CHUNK
            else:
                part.setdefault(name, []).append(line)
                size += length
    yield _part(part)


def _part(lists: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {name: [] for name in _LISTS}
    return empty | {"continues": False} | lists


def _effect(record: dict[str, Any]) -> Effect:
    record = record | {name: tuple(record[name]) for name in _LISTS} | {"outcome": Outcome(record["outcome"])}
    del record["chunk"], record["chunks"]
    return Effect(**record)


# --- posts -------------------------------------------------------------------------------------------


def encode_post(post: Post) -> bytes:
    """The record of one post."""
    return _write(
        _POST,
        {
            "node": post.node,
            "incarnation": post.incarnation,
            "sequence": post.sequence,
            "base_sequence": None,
            "view": _view_record(post.view),
            "ballot": post.ballot and _view_record(post.ballot),
            "rank": {"epoch": post.rank.epoch, "members": post.rank.members, "ids": list(post.rank.ids)},
            "joining": post.joining and _view_record(post.joining),
            "given_up": list(post.given_up),
            "base": {"index": post.base.index, "chain": post.base.chain},
            "counter": post.counter,
            "queue": [pair._asdict() for pair in post.queue],
            "added": [pair._asdict() for pair in post.added],
        },
    )


def _post(record: dict[str, Any]) -> Post:
    rank = record["rank"]
    return Post(
        node=record["node"],
        incarnation=record["incarnation"],
        sequence=record["sequence"],
        view=_view(record["view"]),
        ballot=record["ballot"] and _view(record["ballot"]),
        rank=Rank(rank["epoch"], rank["members"], tuple(rank["ids"])),
        joining=record["joining"] and _view(record["joining"]),
        given_up=tuple(record["given_up"]),
        base=Point(**record["base"]),
        counter=record["counter"],
        queue=tuple(Pair(**pair) for pair in record["queue"]),
        added=tuple(Pair(**pair) for pair in record["added"]),
    )


def _view_record(view: View) -> dict[str, Any]:
    return {"epoch": view.epoch, "members": list(view.members), "parent": view.parent}


def _view(record: dict[str, Any]) -> View:
    return View(epoch=record["epoch"], members=tuple(record["members"]), parent=record["parent"])


# --- fences and heartbeats ---------------------------------------------------------------------------


def encode_fence(fence: Fence) -> bytes:
    """The record of one fence."""
    return _write(_FENCE, {"term": fence.term, "attempt": fence.attempt, "worker": fence.worker})


def encode_heartbeat(beat: Heartbeat) -> bytes:
    """The record of one heartbeat."""
    return _write(
        _HEARTBEAT,
        {
            "worker": beat.worker,
            "dc": beat.dc,
            "url": beat.url,
            "state": beat.state.value,
            "evaluating": beat.evaluating,
            "attempt": beat.attempt,
            "applied_index": beat.applied.index,
            "applied_chain": beat.applied.chain,
            "signature": beat.signature,
            "quads": beat.quads,
            "sent": beat.sent,
        },
    )


def _heartbeat(record: dict[str, Any]) -> Heartbeat:
    applied = Point(record.pop("applied_index"), record.pop("applied_chain"))
    record |= {"state": WorkerState(record["state"]), "sent": _millis(record["sent"])}
    return Heartbeat(applied=applied, **record)


# --- decoding ------------------------------------------------------------------------------------------


def decode(value: bytes) -> Said | None:
    """What one record says; None while its later chunks are still to come is `Chunks`' business.

    Raises:
        StateError: the bytes are not a record of ours.

    """
    said, _, chunks = decode_chunk(value)
    return said if chunks == 1 else None


def decode_chunk(value: bytes) -> tuple[Said, int, int]:
    """What one record says, which chunk it is (from 0), of how many."""
    schema_id, record = _read(value)
    chunk, chunks = record.get("chunk", 0), record.get("chunks", 1)
    if not 0 <= chunk < chunks:
        message = f"not a quadlog record: it says that it is chunk {chunk} of {chunks}"
        raise StateError(message)
    decoders: dict[int, Any] = {
        _PAYLOAD: _payload,
        _POST: _post,
        _ENTRY: _entry,
        _EFFECT: _effect,
        _FENCE: Fence,
        _HEARTBEAT: _heartbeat,
    }
    decoder = decoders[schema_id]
    return (Fence(**record) if decoder is Fence else decoder(record)), chunk, chunks


def is_last_chunk(value: bytes) -> bool:
    """Is what this record is part of whole with it, for one who follows without putting it together?"""
    _, record = _read(value)
    return bool(record.get("chunk", 0) == record.get("chunks", 1) - 1)


class Chunks:
    """Puts the chunks of one topic together.

    Chunks are told apart by what they are part of, so several writers may be at it at once, and a
    set that a dead writer left unfinished does no harm: its successor writes the whole set again.
    """

    UNFINISHED: Final = 64
    """Sets kept waiting; the oldest is forgotten first."""

    def __init__(self) -> None:
        """Start with nothing half said."""
        self._sets: dict[Any, dict[int, Said]] = {}

    @property
    def unfinished(self) -> int:
        """Sets that still miss a chunk."""
        return len(self._sets)

    def join(self, value: bytes) -> Said | None:
        """What is complete with this record, or None."""
        said, chunk, chunks = decode_chunk(value)
        if chunks == 1:
            return said
        name = _part_of(said)
        parts = self._sets.setdefault(name, {})
        parts[chunk] = said
        if len(parts) < chunks:
            if len(self._sets) > self.UNFINISHED:
                del self._sets[next(iter(self._sets))]
            return None
        del self._sets[name]
        return _joined([parts[number] for number in range(chunks)])


def _part_of(said: Said) -> Any:  # noqa: ANN401 - any hashable name will do
    match said:
        case Payload(transaction=transaction):
            return transaction.key
        case LoggedEntry(chain=chain):
            return chain
        case Effect(index=index, term=term, attempt=attempt):
            return index, term, attempt
        case _:
            message = f"a {type(said).__name__} has no chunks"
            raise StateError(message)


def _joined(parts: Sequence[Any]) -> Said:
    first = parts[0]
    if isinstance(first, Effect):
        lists: dict[str, Any] = {name: tuple(_lines(parts, name)) for name in _LISTS}
        return replace(first, **lists, continues=False)
    whole: Said = replace(first, body=b"".join(part.body for part in parts))
    return whole


def _lines(parts: Sequence[Effect], name: str) -> list[str]:
    """One list of an effect from its chunks, with what was cut put together."""
    lines: list[list[str]] = []
    goes_on = False
    for part in parts:
        for line in getattr(part, name):
            if goes_on:
                lines[-1].append(line)
            else:
                lines.append([line])
            goes_on = False
        goes_on = part.continues and bool(getattr(part, name))
    return ["".join(pieces) for pieces in lines]
