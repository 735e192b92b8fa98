"""The Avro schemas of every record on every topic.

A schema's id is part of the wire format for ever: ids are only ever added.
Each master serves these schemas, read-only, under `/registry`.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Final

IDS: Final = {
    26: "payload",
    28: "entry",
    29: "effect",
    30: "fence",
    32: "handover",
    33: "seed",
    34: "cut",
    36: "checkpoint",
    38: "heartbeat",
    39: "rewind",
    41: "post",
    42: "effect-2",
    43: "undecided",
    44: "violation",
}
"""File name by schema id (Confluent wire format).  Two ids of one record are two versions of it.

Records of a cluster without synchronous transactions are those of before, so an effect has a second version for what
only these need.

Ids up to 25, 27, 31, 35, 37 and 40 were those of builds before the first release (decisions 55, 57, 58 and 60).
"""


@cache
def text(schema_id: int) -> str:
    """Return the schema as JSON text, unchanged from its file."""
    return resources.files(__name__).joinpath(f"{IDS[schema_id]}.avsc").read_text(encoding="utf-8")


@cache
def record_name(schema_id: int) -> str:
    """Return the record's full name, which is also its subject (RecordNameStrategy).

    >>> record_name(26)
    'quadlog.Payload'
    """
    schema: dict[str, Any] = json.loads(text(schema_id))
    return f"{schema['namespace']}.{schema['name']}"


@cache
def versions(subject: str) -> tuple[int, ...]:
    """Return the ids of a subject's schemas, oldest first, from version 1 on.

    >>> versions("quadlog.Effect")
    (29, 42)
    """
    return tuple(schema_id for schema_id in sorted(IDS) if record_name(schema_id) == subject)


@cache
def part(schema_id: int, names: frozenset[str]) -> str:
    """Return the schema with these fields only: a reader that uses it skips the other fields.

    >>> json.loads(part(29, frozenset({"term"})))["fields"][0]["type"]["size"]
    32
    """
    schema: dict[str, Any] = json.loads(text(schema_id))
    defined: dict[str, Any] = {}
    fields: list[dict[str, Any]] = []
    for field in schema["fields"]:
        kind: Any = field["type"]
        match kind:
            case {"name": str(name)}:
                defined[name] = kind
            case str(name):
                pass
            case _:  # a union
                name = ""
        if field["name"] in names:  # a named type is defined at its first use
            fields.append(field | {"type": defined.pop(name, kind)})
    return json.dumps(schema | {"fields": fields})
