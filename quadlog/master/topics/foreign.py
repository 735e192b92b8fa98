"""What other programs wrote to a topic of ours: passed over, and told of once each time the topic is looked at."""

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
    """The records that are ours, each with what it says.

    Args:
        records: of a topic.
        hear: what one of them says; ForeignRecord if it is none of ours.

    """
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
