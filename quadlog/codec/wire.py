"""The wire format of a record.

byte 0      0, the magic byte
bytes 1-4   schema id, big-endian (see `schemas`)
the rest    Avro, schemaless
"""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any, Final, cast

import fastavro

import schemas
from quadlog.errors import ForeignRecord

CHUNK: Final = 512 * 1024
"""Bytes of body or lines in one record: fits well into Kafka's default limit of 1 MB."""

_NEWEST: Final = {name: schema_id for schema_id, name in sorted(schemas.IDS.items())}
PAYLOAD, POST, ENTRY, EFFECT = (_NEWEST[name] for name in ("payload", "post", "entry", "effect"))
FENCE, HEARTBEAT, HANDOVER, SEED = (_NEWEST[name] for name in ("fence", "heartbeat", "handover", "seed"))
EFFECT_2, UNDECIDED, VIOLATION = (_NEWEST[name] for name in ("effect-2", "undecided", "violation"))
CUT, REWIND, CHECKPOINT = (_NEWEST[name] for name in ("cut", "rewind", "checkpoint"))
_MAGIC: Final = [b"\0" + schema_id.to_bytes(4, "big") for schema_id in range(max(schemas.IDS) + 1)]
_HEADER: Final = 5
_OURS: Final = frozenset(_MAGIC[schema_id] for schema_id in schemas.IDS)

# Cast to Any: fastavro's types are partly unknown.
_writer = cast("Any", fastavro).schemaless_writer
_reader = cast("Any", fastavro).schemaless_reader


@cache
def _schema(schema_id: int) -> Any:  # noqa: ANN401 - fastavro's own type is a union with Any
    """Return the schema with timestamps as numbers: converting each to a datetime takes as long as all the rest."""
    return fastavro.parse_schema(json.loads(schemas.text(schema_id), object_hook=_without_logical_type))


def _without_logical_type(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "logicalType"}


def is_ours(value: bytes) -> bool:
    """Return whether these bytes begin like a quadlog record."""
    return value[:_HEADER] in _OURS


def write(schema_id: int, record: dict[str, Any]) -> bytes:
    """Encode a record."""
    out = io.BytesIO(_MAGIC[schema_id])
    out.seek(_HEADER)
    _writer(out, _schema(schema_id), record)
    return out.getvalue()


def read(value: bytes) -> tuple[int, dict[str, Any]]:
    """Return the schema id and the fields of a record.

    Raises:
        ForeignRecord: the bytes are not a quadlog record.

    """
    schema_id = int.from_bytes(value[1:_HEADER], "big")
    if len(value) <= _HEADER or value[0] != 0 or schema_id not in schemas.IDS:
        message = f"not a quadlog record: it starts with {value[:_HEADER].hex()}; was it written by another program?"
        raise ForeignRecord(message)
    stream = io.BytesIO(value)
    stream.seek(_HEADER)
    try:
        record: dict[str, Any] = _reader(stream, _schema(schema_id), None)
    except Exception as error:  # depending on the bytes, fastavro raises EOFError, IndexError, ValueError, …
        message = f"not a quadlog record: bytes of a {schemas.record_name(schema_id)} that cannot be read ({error!r})"
        raise ForeignRecord(message) from error
    return schema_id, record
