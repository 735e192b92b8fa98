"""Headers of every record: CloudEvents (Kafka binding, binary mode) and W3C trace context."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quadlog.ports import Headers


SOURCE: Final = "ce_source"
"""On every record: the process that it originates from."""
ORIGIN_DC: Final = "origin-dc"
"""On a payload: the data centre whose client sent it."""
WRITER: Final = "writer"
"""On a payload: the master that wrote the record here, either the origin or one that mirrored it."""
ORIGIN_OFFSET: Final = "origin-offset"
"""On a copy of a payload: offset of the original's last chunk in the topic of its origin's data centre."""
RELAYED: Final = "relayed-from"
"""On a post that a master of another data centre passed on: the data centre where it was written first."""
INDEX: Final = "index"
"""On an effect: the index of its entry."""
CHUNKS: Final = "chunks"
"""On an effect: the number of its records."""
OUTCOME: Final = "outcome"
"""On an effect: its outcome."""
ATTEMPT: Final = "attempt"
"""On an effect, a fence and an undecided entry: the attempt."""
TERM: Final = "term"
"""On an effect, a fence and a handover: in hex, the view or entry that gave their writer the duty to evaluate."""
HANDOVER: Final = "handover"
"""On a handover: the index of its entry; 0: the view's handover."""
REWIND: Final = "rewind"
"""On a rewind: the index of the last effect that stays."""
SYNCHRONOUS: Final = "synchronous"
"""On an effect: `by-effect`, if only the effect shows that its entry is synchronous; else the header is missing."""
UNDECIDED: Final = "undecided"
"""On a record that an entry is synchronous by its effect and undecided: the index of that entry."""
EPOCH: Final = "epoch"
"""On every record in an effects topic: the epoch of its writer's view; the first epoch where the header is missing."""
SEED: Final = "seed"
"""On a seed: its signature in hex."""
EVALUATED_IN: Final = "evaluated-in"
"""On an effect and a fence: the data centre of the worker that wrote it."""
MIRRORED: Final = "mirrored-offset"
"""On a copy: offset of the original record."""
MIRRORED_FROM: Final = "mirrored-from"
"""On a copy: the data centre in whose topic the original is stored."""


def text_id(transaction_id: bytes) -> str:
    """Format a transaction id as shown in keys, headers and URLs.

    >>> text_id(bytes(15) + b"A")
    '00000000-0000-0000-0000-000000000041'
    """
    text = transaction_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def headers(*, event: str, source: str, kind: str, at: int, traceparent: str = "") -> Headers:
    """Return the headers of one record.

    Args:
        event: an id that is unique for its source.
        source: the process that the record originates from.
        kind: the type of the record, such as `quadlog.payload`.
        at: milliseconds since 1970.
        traceparent: trace context of the request that led to the record.

    """
    result = [
        ("ce_specversion", b"1.0"),
        ("ce_id", event.encode()),
        (SOURCE, source.encode()),
        ("ce_type", kind.encode()),
        ("ce_time", text_moment(at).encode()),
        ("content-type", b"application/avro"),
    ]
    if traceparent:
        result.append(("traceparent", traceparent.encode()))
    return result


def text_moment(at: int) -> str:
    """Format milliseconds since 1970 according to RFC 3339.

    >>> text_moment(1_000_000_000_007)
    '2001-09-09T01:46:40.007Z'
    """
    seconds, millis = divmod(at, 1000)
    return f"{_second(seconds)}.{millis:03}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """Format a second since 1970 according to RFC 3339; cached, because many records share a second."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
