"""Source topics: those from which a worker's store was fed.  The store's offsets are valid only in these topics.

If `quadlog dc rebuild` re-created them, the store is put aside, and a new one is fed from their beginning.  If
they were lost and not rebuilt, the worker stops: its quads may be all that is left.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import structlog

from consumers import rounds
from quadlog.broker import beginning_of, records_between
from quadlog.broker.identity import TopicIds
from quadlog.errors import ForeignRecord, TopicLost
from quadlog.snapshots.backups import SourceTopicIds
from quadlog.worker.repair.mender import FORKS, put_aside
from quadlog.worker.replica.out_of_log import KnownHoles

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.anchors import Gap
    from quadlog.broker import Hole
    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics

log = structlog.get_logger()

_FILE: Final = "fed-from.json"


class SourceTopics:
    """Topics of one worker's store.  The thread that reads them calls `recognise` before it reads."""

    def __init__(self, settings: WorkerSettings, topics: Topics, leave: Callable[[], None]) -> None:
        """Load the stored topic ids; `leave` ends the process in order, from any thread."""
        self._settings, self._topics, self._leave = settings, topics, leave
        self._path: Final = settings.data_dir / _FILE
        self._ids: Final = TopicIds(self._path, "the worker takes the topics for those it knew")
        self.known: Final[dict[str, str | None]] = {
            topic: self._ids.get(topic) for topic in (topics.agreed, topics.effects)
        }
        """See `Watched`."""
        self.wanted = False
        """True if the process must restart without a store."""
        self.is_out_of_log = False
        """True if the process must restart and copy another worker's store: the log does not continue from its own."""
        self._holes: Final = KnownHoles(settings.data_dir)

    def recognise(self, topic: str, identity: str | None, is_other: bool) -> None:  # noqa: FBT001 - as in `Watched`
        """Store the id of a topic, unless it is not the topic that the store was fed from.

        Raises:
            TopicLost: it is another topic, or gone, and nobody rebuilt the data centre.

        """
        if not is_other and identity is not None:
            self._ids.note({topic: identity})
        elif identity is not None and self._was_rebuilt():
            log.warning("data_centre_rebuilt", topic=topic)
            self.wanted = True
            self._leave()
        else:
            seen = "gone" if identity is None else "another topic than this worker was fed from"
            raise TopicLost(f"{topic} is {seen}")

    def lacks(self, topic: str, gap: Gap) -> None:
        """Restart with a copy if records were deleted before they were read.

        Raises:
            TopicLost: the topic went back: the store holds what the topic no longer has, and may be all that is
                left.

        """
        if not gap.is_front:
            raise TopicLost(f"{topic} {gap}")
        log.error("records_deleted", topic=topic, read=gap.read, begins=gap.begins, ends=gap.ends)
        self._begin_anew()

    def has_hole(self, hole: Hole) -> None:
        """Restart with a copy, because records that were not read yet are missing in the middle of a topic."""
        log.error("log_has_a_hole", topic=hole.topic, first=hole.first, next=hole.end)
        self._holes.note(hole)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.is_out_of_log = True
        self._leave()

    def fed_from(self) -> SourceTopicIds | None:
        """Return which topics the store was fed from; None if not all of them were seen yet."""
        agreed, effects = self._ids.get(self._topics.agreed), self._ids.get(self._topics.effects)
        if agreed is None or effects is None:
            return None
        return SourceTopicIds(self._settings.repository, self._settings.dc, agreed, effects)

    def put_aside(self) -> None:
        """Put the store aside: the next start begins without one.  A crash between any two steps is harmless."""
        shutil.rmtree(self._settings.data_dir / FORKS, ignore_errors=True)
        put_aside(self._settings.data_dir)
        self._path.unlink(missing_ok=True)
        self._holes.forget()

    def _was_rebuilt(self) -> bool:
        """Return True if `quadlog dc rebuild` wrote the first post, for a master: its view has no members."""
        kafka, topic = self._settings.kafka, self._topics.rounds
        first = beginning_of(kafka, topic)
        try:
            posts = [rounds.hear(record) for record in records_between(kafka, topic, first, first + 1)]
        except ForeignRecord:
            return False
        return any(not post.view.members for post in posts)
