"""Out of the log: a worker needs records that its topics no longer have, so it cannot continue from its store.

The beginning of a topic was deleted (retention), or records in its middle were (compaction).  Kafka reports
where a topic begins; a hole is only found by reading it, and is stored for the next start.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import structlog

from consumers.effects import epoch_of, term_of
from quadlog.broker import Hole, beginning_of
from quadlog.codec.envelope import ATTEMPT, INDEX
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.ports import Record
    from quadlog.quadstore.applied import Applied
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.replica.backlog import CountedRecords

log = structlog.get_logger()

_FILE: Final = "missing-records.json"
WAY_OUT: Final = (
    "start another worker of this data centre that has a store, or have a backup in `backups` (quadlog backup); where"
    " there is neither, stop all masters and workers of this data centre and run `quadlog dc rebuild --config"
    " MASTER.toml`"
)


class KnownHoles:
    """Holes that this worker has met, stored in its data-dir."""

    def __init__(self, data_dir: Path) -> None:
        self._path: Final = data_dir / _FILE

    def note(self, hole: Hole) -> None:
        """Store a hole for the next start."""
        making = self._path.with_suffix(".new")
        making.write_text(json.dumps([*self._read(), [hole.topic, hole.first, hole.end]]))
        making.replace(self._path)

    def forget(self) -> None:
        """Delete the stored holes, because the topics were replaced."""
        self._path.unlink(missing_ok=True)

    def ahead(self, topic: str, at: int) -> Hole | None:
        """Return the first hole that a worker reading on at this offset meets; None if it meets none."""
        holes = [
            Hole(topic=topic, first=first, end=end) for name, first, end in self._read() if name == topic
        ]
        return min((hole for hole in holes if hole.end > at), key=lambda hole: hole.first, default=None)

    def _read(self) -> list[tuple[str, int, int]]:
        with suppress(OSError, ValueError, TypeError):
            said: Any = json.loads(self._path.read_text())
            return [(str(topic), int(first), int(end)) for topic, first, end in said]
        return []


def missing_after(settings: WorkerSettings, topics: Topics, applied: Applied, *, timeout: float) -> str:
    """Describe the records after a state of this worker's store that its topics lack; empty if none is known.

    Raises:
        Unavailable: no broker answers within `timeout` seconds.

    """
    holes, found = KnownHoles(settings.data_dir), list[str]()
    for topic, at in ((topics.effects, applied.effects_offset), (topics.agreed, applied.agreed_offset)):
        first = beginning_of(settings.kafka, topic, timeout=timeout)
        if first > at:
            found.append(f"{topic} begins at offset {first}, and this worker needs it from offset {at} on")
        elif hole := holes.ahead(topic, at):
            found.append(f"{hole}, and this worker needs {topic} from offset {at} on")
    return "; ".join(found)


class Gaps:
    """Offsets without records that a worker meets in its topics.  Used only by the replica's thread.

    A gap alone proves nothing: another program's transaction leaves one.  A later record that depends on
    records that were not received proves that something is missing.
    """

    def __init__(
        self, counted_records: CountedRecords, topics: Topics, applied: Applied, lacks: Callable[[Hole], None]
    ) -> None:
        """Continue after the applied state; `lacks` is called with the offsets of missing records that are needed."""
        self._counted_records, self._agreed, self._lacks = counted_records, topics.agreed, lacks
        self._next: Final = {topics.agreed: applied.agreed_offset, topics.effects: applied.effects_offset}
        self._voids = 0
        self._terms: Final = {counted_records.effects.term}
        """Terms of the effects received so far."""
        self._open: Final[dict[str, Hole]] = {}
        self.is_hole = False
        """True if records are missing that are needed: nothing after them may be applied."""

    def note(self, record: Record) -> None:
        """Check the offset of a record for a gap, before the record itself is processed."""
        topic, expected = record.topic, self._next.get(record.topic)
        self._next[topic] = record.offset + 1
        if expected is not None and record.offset > expected:
            before = self._open.get(topic)
            first = expected if before is None else before.first
            self._open[topic] = hole = Hole(topic=topic, first=first, end=record.offset)
            log.warning("records_missing", topic=topic, first=hole.first, next=hole.end)
        if self._open:
            self._voids = self._counted_records.agreed.void.total()

    def heard(self, record: Record, *, counts: bool) -> None:
        """Close the topic's gap if a record counts, or report it if the record depends on missing ones.

        Called after the record itself was processed.
        """
        self._terms.add(self._counted_records.effects.term)
        if record.topic not in self._open:
            return
        if counts:
            del self._open[record.topic]
        elif self._stands_on_missing(record):
            self.explains(record.topic)

    def explains(self, topic: str) -> bool:
        """Return True if a topic has a gap that may explain an error in it; then report the gap as missing records."""
        hole = self._open.get(topic)
        if hole is not None and not self.is_hole:
            self.is_hole = True
            self._lacks(hole)
        return hole is not None

    def _stands_on_missing(self, record: Record) -> bool:
        agreed, effects = self._counted_records.agreed, self._counted_records.effects
        if record.topic == self._agreed:
            is_void = agreed.void.total() > self._voids
            return is_void and record.key.isdigit() and int(record.key) > agreed.last.index + 1
        try:
            index, attempt, term = record.number(INDEX) or 0, record.number(ATTEMPT) or 0, term_of(record)
            is_ahead = index > effects.index + 1 or (index > effects.index and attempt > effects.highest)
            # A superseded evaluator may resume: its effects prove nothing.
            is_late = attempt < effects.attempt if term == effects.term else term in self._terms
            return is_ahead and not is_late and epoch_of(record) >= max(effects.rewound, effects.floor[0])
        except ForeignRecord:
            return False
