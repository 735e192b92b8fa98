"""Stretches of an agreed log after splits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from consumers.agreed import AgreedRun
from quadlog import codec
from quadlog.core.model import TransactionKind
from quadlog.core.records import LoggedEntry
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from quadlog.ports import Record


def runs_of(records: Sequence[Record], size: int, first: int = 0) -> Iterator[AgreedRun]:
    """As Spark finds them: `size` whole entries of one epoch that configure nothing, with nothing between them."""
    for place in range(0, len(records) if size else 0, max(size, 1)):
        heads = [
            (record.offset, said)
            for record in records[max(place, first) : place + size]
            if (said := _head(record))
        ]
        offsets, entries = [offset for offset, _ in heads], [said for _, said in heads]
        follows = all((a.index + 1, a.chain) == (b.index, b.previous) for a, b in pairwise(entries))
        configures = any(one.kind is TransactionKind.CONFIG for one in entries)
        if len(heads) == size and follows and not configures and len({one.epoch for one in entries}) == 1:
            yield AgreedRun(
                offset=offsets[0],
                first=entries[0].index,
                last=entries[-1].index,
                epoch=entries[0].epoch,
                previous=entries[0].previous,
                chain=entries[-1].chain,
            )


def _head(record: Record) -> LoggedEntry | None:
    try:
        said, _, chunks = codec.decode_chunk(record.value)
    except ForeignRecord:
        return None
    return said if isinstance(said, LoggedEntry) and chunks == 1 else None
