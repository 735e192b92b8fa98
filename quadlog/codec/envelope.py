"""Headers of every record: CloudEvents (Kafka binding, binary mode) and W3C trace context."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quadlog.ports import Headers


SOURCE: Final = "ce_source"
"""Of every record: the process that says it."""
ORIGIN_DC: Final = "origin-dc"
"""Of a payload: the data centre whose client gave it."""
WRITER: Final = "writer"
"""Of a payload: the master that wrote the record here, the origin itself or one that mirrored it."""
ORIGIN_OFFSET: Final = "origin-offset"
"""Of a copy of a payload: offset of the original, its last chunk's, in the topic of its origin's data centre."""
RELAYED: Final = "relayed-from"
"""Of a post that another data centre's master passed on: the data centre where it was said."""
INDEX: Final = "index"
"""Of an effect: the entry's."""
CHUNKS: Final = "chunks"
"""Of an effect: how many records it stands in."""
OUTCOME: Final = "outcome"
"""Of an effect."""
ATTEMPT: Final = "attempt"
"""Of an effect and of a fence."""
TERM: Final = "term"
"""Of an effect, a fence and a handover: in hex, what gave their writer the duty to evaluate."""
HANDOVER: Final = "handover"
"""Of a handover: the index of its entry; 0: a view's."""
REWIND: Final = "rewind"
"""Of a rewind: the index of the last effect that stays."""
EPOCH: Final = "epoch"
"""Of every record in an effects topic: of the view that its writer stands in; where it is missing, the first one."""
SEED: Final = "seed"
"""Of a seed: its signature in hex."""
EVALUATED_IN: Final = "evaluated-in"
"""Of an effect and a fence: the data centre of the worker that wrote it."""
MIRRORED: Final = "mirrored-offset"
"""Of a copy: offset of the record that this one is a copy of."""
MIRRORED_FROM: Final = "mirrored-from"
"""Of a copy: the data centre in whose topic that record stands."""


def text_id(transaction_id: bytes) -> str:
    """A transaction id as it is shown: in keys, headers, URLs.

    >>> text_id(bytes(15) + b"A")
    '00000000-0000-0000-0000-000000000041'
    """
    text = transaction_id.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def headers(*, event: str, source: str, kind: str, at: int, traceparent: str = "") -> Headers:
    """The headers of one record.

    Args:
        event: unique at its source.
        source: the process that says it.
        kind: what is said, `quadlog.payload` and so on.
        at: milliseconds since 1970.
        traceparent: of the request that led to it.

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
    """Milliseconds since 1970 as RFC 3339 writes them.

    >>> text_moment(1_000_000_000_007)
    '2001-09-09T01:46:40.007Z'
    """
    seconds, millis = divmod(at, 1000)
    return f"{_second(seconds)}.{millis:03}Z"


@lru_cache(maxsize=16)
def _second(seconds: int) -> str:
    """A second since 1970, as RFC 3339 writes it; many records are of the same one."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
