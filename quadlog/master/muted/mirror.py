"""A mirror: a topic of another data centre, copied record by record into the own one.

The copies are the beginning of that topic, one to one and in order, also what other programs wrote there: whoever
reads them comes to the history that readers there come to, through all cuts, rewinds, handovers and chunks.
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
"""Records at the end of the own topic that are looked at: the last copies of a writer that was killed may stand behind
those of the next one, and other programs may have written there."""


def next_offset(topic: str, records: Sequence[Record], *, source: str) -> int:
    """Where to go on in the source, as the newest records of the own topic tell.

    What is copied is copied in order, so all before the furthest copy is there.

    Args:
        topic: the own one, for the error.
        records: its last ones; none if it is empty.
        source: the data centre that is followed.

    Raises:
        SetupError: they are not copies of that data centre's.

    """
    furthest = -1
    for record in records:
        origin = record.header(MIRRORED_FROM)
        with suppress(ForeignRecord):
            offset = record.number(MIRRORED)
            if offset is None or origin is None:
                continue
            if origin != source.encode():
                message = (
                    f"{topic} was copied from {origin.decode(errors='replace')}, and {source} is to be followed: the"
                    f" one's offsets mean nothing in the other. Set follow as it was, or {BEGIN_ANEW}"
                )
                raise SetupError(message)
            furthest = max(furthest, offset)
    if records and furthest < 0:
        message = (
            f"{topic} has records, and the last {len(records)} are no copies: a muted master writes to topics that"
            f" nobody else wrote to. Give it its former role, or {BEGIN_ANEW}"
        )
        raise SetupError(message)
    return furthest + 1


BEGIN_ANEW: Final = "stop this master and its workers, and run `quadlog dc rebuild --config MASTER.toml`"


class Mirror:
    """Of one topic.  Owned by the thread that reads it."""

    def __init__(
        self, outlet: Outlet, topic: str, *, source: str, at: int, settle: Callable[[], None] = lambda: None
    ) -> None:
        """Go on.

        Args:
            outlet: to the own Kafka; it makes whoever has too much to say wait.
            topic: the own one.
            source: the data centre whose records are copied.
            at: offset there of the next one.
            settle: waits until all that was said is in Kafka.

        """
        self._outlet, self._topic, self._settle = outlet, topic, settle
        self._source: Final = source.encode()
        self.at = at
        """Offset in the source of the next record to be copied."""
        self._is_stopped = False

    def stop(self) -> None:
        """Copy nothing more, from any thread: what is read now is another history."""
        self._is_stopped = True

    def hear(self, records: Sequence[Record]) -> None:
        """Copy what comes next; what was copied before is passed over."""
        for record in records:
            if record.offset < self.at or self._is_stopped:
                continue
            copied = [(MIRRORED, str(record.offset).encode()), (MIRRORED_FROM, self._source)]
            self._outlet.produce(
                self._topic, key=record.key, values=[record.value], headers=[*record.headers, *copied]
            )
            self.at = record.offset + 1
            visit(Failpoint.HALF_MIRROR, self._settle)
