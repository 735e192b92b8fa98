"""The topics of one data centre, as a report reads them: its path, its effects, its posts and its heartbeats."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from consumers.agreed import AgreedConsumer
from consumers.recovery import PathReader
from consumers.rounds import hear as hear_post
from consumers.status import hear as hear_beat
from quadlog import codec
from quadlog.broker import Admin, last_records, offset_at, records_between
from quadlog.codec.envelope import RELAYED
from quadlog.core.model import Post
from quadlog.core.records import Heartbeat, LoggedEntry
from quadlog.errors import ForeignRecord, SetupError, StateError, Unavailable
from quadlog.quadstore.applied import Applied
from quadlog.replay.compact import source
from quadlog.replay.replay import Compaction
from quadlog.settings import WorkerSettings
from quadlog.topics import Topics
from quadlog.worker.evaluate.limits import EvaluationLimits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path as FilePath

    from consumers.recovery import Path as LogPath
    from quadlog.core.model import LogPosition
    from quadlog.core.records import Effect
    from quadlog.replay.lineage import Lineage, Rewound, Span
    from quadlog.replay.replay import Phase
    from quadlog.replay.spark import SparkSettings
    from quadlog.replay.survey import Surveyor

POSTS: Final = 200
"""Posts that are read to find the newest one of each master: each sends some every second."""
BEATS: Final = 200
"""Heartbeats that are read to find the newest one of each worker."""

LIMITS: Final = EvaluationLimits.of(WorkerSettings.model_construct())
"""Of the evaluation of one update in a preview: those that workers have by default."""
WORK: Final = ".work"
"""Directory under that of a report for what does not fit into memory."""
DETAILS: Final = 1_000
"""Default of the maximum number of updates of each class, and of disputed quads, that a report lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """Options of the commands."""

    kafkas: Mapping[str, str]
    """Bootstrap servers, by data centre."""
    directory: FilePath
    """For the report, and for what does not fit into memory; with a Spark cluster, on storage that its hosts share."""
    repository: str = "main"
    is_over: bool
    """False: the split of now; True: one that is over."""
    branch: str | None = None
    """Of a split that is over; None: the newest one."""
    drop: frozenset[str] = frozenset()
    """Ids of updates that a preview takes for dropped, in hexadecimal."""
    details: int = DETAILS
    archive: FilePath | None = None
    limits: EvaluationLimits = LIMITS
    spark: SparkSettings


class DataCentreTopics(ExitStack):
    """A context manager; at its end the connections to Kafka are closed."""

    def __init__(self, dc: str, kafka: str, repository: str, *, archive: FilePath | None = None) -> None:
        """Start without reading anything.  `archive`: directory with records that the topics no longer have."""
        super().__init__()
        self.dc, self.kafka = dc, kafka
        self.topics: Final = Topics(repository, dc)
        self._archive = archive
        self._entries: dict[tuple[int, int], LoggedEntry] = {}
        """Heads of entries that were read one by one, by offset and index."""
        self.reader = PathReader()
        self._lineage: Lineage | None = None

    def open(self, surveyor: Surveyor) -> None:
        """Find the topics and their present ends.

        Raises:
            SetupError: a topic does not exist.
            Unavailable: Kafka does not answer.

        """
        own = (self.topics.agreed, self.topics.effects, self.topics.rounds, self.topics.status)
        if missing := sorted(set(own).difference(Admin(self.kafka).ids(own))):
            raise SetupError(
                f"the Kafka at {self.kafka} has no topic {missing[0]}: correct --repository, or the name {self.dc}"
            )
        self._surveyor = surveyor
        self.effects = self.enter_context(source(surveyor, self.kafka, self.topics.effects, self._archive))
        # After the effects, so that it has the entry of each effect.
        self.agreed = self.enter_context(source(surveyor, self.kafka, self.topics.agreed, self._archive))

    # --- entries ----------------------------------------------------------------------------------------

    def read_path(self) -> None:
        """Read the agreed topic: a survey by Spark, and what is between its runs one by one."""
        topic, at = self.agreed.topic, self.agreed.topic.beginning
        for run in self._surveyor.entries(topic, at):
            self._one_by_one(at, run.offset)
            if not self.reader.on_run(run):
                self._one_by_one(run.offset, run.end)
            at = run.end
        self._one_by_one(at, topic.end)

    def _one_by_one(self, start: int, end: int) -> None:
        if start >= end:
            return
        for record in self.agreed.between(start, end):
            with suppress(ForeignRecord):  # written by another program
                self.reader.on_record(record)

    @property
    def path(self) -> LogPath:
        """The entries that count."""
        return self.reader.path

    def head_of(self, path: LogPath, index: int) -> LoggedEntry:
        """Return an entry of a path of this topic; if it is in chunks, its body is that of the last one.

        Raises:
            StateError: the record is gone.

        """
        offset = path.offset_of(index)
        known = self._entries.get((offset, index))
        if known is not None:
            return known
        for record in self.agreed.between(offset, offset + 1):
            said, _, _ = codec.decode_chunk(record.value)
            if isinstance(said, LoggedEntry) and said.index == index:
                self._entries[offset, index] = said
                return said
        raise StateError(
            f"{self.topics.agreed} at {offset}: entry {index} is gone; are records being deleted?"
        )

    def chain_of(self, path: LogPath, index: int) -> bytes:
        """Return the chain hash of an entry of a path of this topic."""
        return path.last.chain if index == path.last.index else self.head_of(path, index).chain

    def has(self, position: LogPosition) -> bool:
        """Return whether an entry is on the path."""
        path = self.path
        if position.index == path.before.index:
            return position.chain == path.before.chain
        return position.index in path and self.chain_of(path, position.index) == position.chain

    def entries(self, path: LogPath, after: LogPosition) -> Iterator[LoggedEntry]:
        """Yield the entries of a path of this topic behind one of them, whole and in order."""
        if path.last.index <= after.index:
            return
        first = path.stretch_of(after.index + 1)
        start = self.agreed.topic.beginning if after == path.before else path.offset_of(after.index) + 1
        consumer = AgreedConsumer(after, cut=first.cut)
        for record in self.agreed.between(start, path.offset_of(path.last.index) + 1):
            with suppress(ForeignRecord):
                if isinstance(entry := consumer.on_record(record), LoggedEntry):
                    yield entry

    # --- effects ----------------------------------------------------------------------------------------

    def compaction(self, phase: Phase) -> Compaction:
        """Return the reader of its effects."""
        return Compaction(self._surveyor.spark, self.effects, self.agreed, phase)

    def lineage(self, phase: Phase) -> Lineage:
        """Return which of its effects count; read once.

        Raises:
            StateError: the topic was shortened.

        """
        if self._lineage is None:
            if self.effects.topic.beginning > 0:
                raise StateError(
                    f"{self.topics.effects} does not have all effects from the beginning of the log:"
                    " give the directory of `quadlog archive` with --archive"
                )
            self._lineage = self.compaction(phase).follow(Applied())
        return self._lineage

    def effects_on(self, path: LogPath, after: int, phase: Phase) -> tuple[list[Span], int]:
        """Return the records of the effects of a path's entries after an index, and the last index that has one.

        They are those that count, or those that a rewind has ended.
        """
        found = self.newest_effect_on(path, after, phase)
        if found is None:
            return [], after
        effect, rewound = found
        last = min(effect.index, path.last.index)
        return self.lineage(phase).spans(after, last, rewound=rewound), last

    def newest_effect_on(
        self, path: LogPath, after: int, phase: Phase
    ) -> tuple[Effect, Rewound | None] | None:
        """Return the newest effect of a path's entries after an index, and what has ended it; None: there is no effect.

        It may be that of an approval behind the path, which is not part of the path and changes nothing.
        """
        lineage = self.lineage(phase)
        last = min(lineage.index, path.last.index)
        if last > after:
            effect = lineage.effect_at(last)
            if effect.entry_chain == self.chain_of(path, last):
                return effect, None
        end = min(path.last.index + 1, path.end_of_stretches)
        for rewound in reversed(lineage.rewound):
            if after < rewound.last <= end:
                effect = lineage.last_of(rewound)
                if effect.entry_chain == self.chain_of(path, rewound.last):
                    return effect, rewound
        return None

    # --- posts and heartbeats ---------------------------------------------------------------------------

    def posts(self, *, since: int | None = None, before: int | None = None) -> list[Post]:
        """Return the newest post of each master.

        `since`: milliseconds since 1970, of the posts that were written then and soon after; None: the newest ones.
        `before`: epoch, of posts in earlier views only.
        """
        kafka, topic = self.kafka, self.topics.rounds
        if since is None:
            records = last_records(kafka, topic, count=POSTS)
        else:
            # Ranks do not change while nothing else does.
            start = offset_at(kafka, topic, since)
            records = records_between(kafka, topic, start, start + POSTS)
        newest = dict[str, Post]()
        for record in records:
            with suppress(ForeignRecord):
                if record.header(RELAYED) is not None:
                    continue  # of a master of another data centre
                post = hear_post(record)
                known = newest.get(post.node)
                is_newer = known is None or _age(post) > _age(known)
                if is_newer and (before is None or post.view.epoch < before):
                    newest[post.node] = post
        return [newest[node] for node in sorted(newest)]

    def beats(self) -> list[Heartbeat]:
        """Return the newest heartbeat of each worker."""
        newest = dict[str, Heartbeat]()
        for record in last_records(self.kafka, self.topics.status, count=BEATS):
            with suppress(ForeignRecord):
                if (beat := hear_beat(record)) is not None:
                    newest[beat.worker] = beat
        return [newest[name] for name in sorted(newest)]


def _age(post: Post) -> tuple[bytes, int]:
    return post.incarnation, post.sequence


@contextmanager
def opened(
    wanted: SplitOptions, surveyor: Surveyor, phase: Phase
) -> Generator[tuple[dict[str, DataCentreTopics], list[dict[str, str]]]]:
    """Open the topics of all data centres, and read their paths; also return which ones are not reached, and why.

    Raises:
        SetupError: a topic does not exist.
        Unavailable: no data centre is reached.

    """
    dcs, unreachable = dict[str, DataCentreTopics](), list[dict[str, str]]()
    with ExitStack() as stack, phase("paths"):
        for dc, kafka in wanted.kafkas.items():
            topics = stack.enter_context(
                DataCentreTopics(dc, kafka, wanted.repository, archive=wanted.archive)
            )
            try:
                topics.open(surveyor)
            except Unavailable as error:
                unknown = f"whether {dc} has entries of its own, and who wins over them"
                unreachable.append({"dc": dc, "reason": str(error), "unknown": unknown})
                continue
            dcs[dc] = topics
        if not dcs:
            raise Unavailable("no data centre is reached: " + "; ".join(one["reason"] for one in unreachable))
        for topics in dcs.values():
            topics.read_path()
        kept = stack.pop_all()
    with kept:
        yield dcs, unreachable
