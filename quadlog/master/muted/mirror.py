"""Mirror: copies a topic of another data centre into the local one, record by record.

The copies are the beginning of that topic, one to one and in order, including records of other programs: a
reader of the copies arrives at the same history as a reader of the originals, through all cuts, rewinds,
handovers and chunks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from quadlog.codec.envelope import MIRRORED, MIRRORED_FROM
from quadlog.errors import ForeignRecord, SetupError
from quadlog.failpoints import Failpoint, visit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quadlog.ports import Outlet, Record

LOOK_BACK: Final = 1_000
"""Number of records that are read at the end of the local topic.

The last copies of a writer that was killed may be after those of the next one, and other programs may have
written there.
"""


def next_offset(topic: str, records: Sequence[Record], *, source: str) -> int:
    """Return the offset in the source at which to continue, by the newest records of the local topic.

    Copies are written in order, so all records before the furthest copy are there.

    Args:
        topic: the local topic, for the error.
        records: its last records; none if it is empty.
        source: the data centre that is followed.

    Raises:
        SetupError: the records are not copies from that data centre.

    """
    furthest = -1
    for record in records:
        origin = record.header(MIRRORED_FROM)
        with suppress(ForeignRecord):
            offset = record.number(MIRRORED)
            if offset is None or origin is None:
                continue
            if origin != source.encode():
                raise SetupError(
                    f"{topic} was copied from {origin.decode(errors='replace')}, and follow is {source}: the"
                    f" offsets of one mean nothing in the other. Set follow as it was, or {BEGIN_ANEW}"
                )
            furthest = max(furthest, offset)
    if records and furthest < 0:
        raise SetupError(
            f"{topic} has records, and the last {len(records)} are no copies: a muted master writes to topics that"
            f" nobody else wrote to. Give it its former role, or {BEGIN_ANEW}"
        )
    return furthest + 1


BEGIN_ANEW: Final = "stop this master and its workers, and run `quadlog dc rebuild --config MASTER.toml`"


class Mirror:
    """Mirror of one topic.  Owned by the thread that reads it."""

    def __init__(
        self, outlet: Outlet, topic: str, *, source: str, at: int, settle: Callable[[], None] = lambda: None
    ) -> None:
        """Continue at an offset of the topic in the data centre `source`.

        `outlet` blocks a caller that produces too much; `settle` waits until all produced records are in Kafka.
        """
        self._outlet, self._topic, self._settle = outlet, topic, settle
        self._source: Final = source.encode()
        self.at = at
        """Offset in the source of the next record to copy."""
        self._is_stopped = False

    def stop(self) -> None:
        """Stop copying, from any thread: records that are read from now on belong to another history."""
        self._is_stopped = True

    def on_records(self, records: Sequence[Record]) -> None:
        """Copy the next records; skip those that were copied before."""
        for record in records:
            if record.offset < self.at or self._is_stopped:
                continue
            copied = [(MIRRORED, str(record.offset).encode()), (MIRRORED_FROM, self._source)]
            self._outlet.produce(
                self._topic, key=record.key, values=[record.value], headers=[*record.headers, *copied]
            )
            self.at = record.offset + 1
            visit(Failpoint.HALF_MIRROR, self._settle)
