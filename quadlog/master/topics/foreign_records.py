"""Records of other programs in a topic of quadlog: skipped, and logged once each time that the topic is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from quadlog.ports import Record

log = structlog.get_logger()

Said = TypeVar("Said")


def understood(records: Iterable[Record], hear: Callable[[Record], Said]) -> Iterator[tuple[Record, Said]]:
    """Yield the records that are quadlog's, each with its content; `hear` raises ForeignRecord for others."""
    is_told = False
    for record in records:
        try:
            said = hear(record)
        except ForeignRecord as error:
            if not is_told:
                log.warning("record_skipped", topic=record.topic, offset=record.offset, error=str(error))
            is_told = True
        else:
            yield record, said
