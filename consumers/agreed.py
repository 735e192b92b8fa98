"""Consumer of the agreed topic: the synchronised queue as a worker reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.model import LogPosition
from quadlog.core.records import Cut, LoggedEntry, Place

if TYPE_CHECKING:
    from quadlog.ports import Record


CUT_KEY: Final = b"cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedRun:
    """Consecutive records, each a complete entry that follows the one before it, all written under one epoch."""

    offset: int
    """Offset of the first record."""
    first: int
    last: int
    """Index of the last entry."""
    epoch: int
    previous: bytes
    """Chain hash before the first entry."""
    chain: bytes
    """Chain hash of the last entry."""

    def __contains__(self, index: int) -> bool:
        """Return whether the run contains the entry with an index."""
        return self.first <= index <= self.last

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return self.offset + self.last - self.first + 1


class AgreedConsumer:
    """Reader of entries in the order of their indexes, each once, each chained to the one before.

    A cut of a greater epoch than any before goes back to the entry that it names.  After it, entries of smaller
    epochs are void: a writer that resumed late still writes the branch that was cut.

    An entry that does not follow is void, too: two masters that lead for a moment may write one, and it stays in the
    topic.  The leading master follows the topic by the same rules, and writes the missing entries again.
    """

    def __init__(self, last: LogPosition, *, cut: int = 1) -> None:
        """Continue after an entry.

        `last`: the entry before the first one to receive.  `cut`: epoch of the newest cut before that entry, or its own
        epoch: under each epoch, a cut is written first.
        """
        self._last: LogPosition = last
        self._cut: int = cut
        self.epoch = cut
        """The greatest epoch received."""
        self.void: Counter[str] = Counter()
        """Number of entries and cuts that did not count and were not received before, by reason."""
        self._chunks = codec.ChunkJoiner()

    @property
    def cut(self) -> int:
        """Epoch of the newest cut received, or that with which it began."""
        return self._cut

    @property
    def last(self) -> LogPosition:
        """The newest entry received, or the entry to which a later cut went back."""
        return self._last

    def on_record(self, record: Record, part: codec.Part | None = None) -> LoggedEntry | Cut | None:
        """Return the entry that is complete with this record, or a cut; None for a void record, a part or a repetition.

        `part`: result of `codec.decode_ahead` for its value.
        """
        match self._chunks.join(record.value, part=part):
            case LoggedEntry() as entry:
                return self._follow(entry)
            case Cut() as cut:
                return self._go_back(cut)
            case _:
                return None

    def on_run(self, run: AgreedRun) -> bool | None:
        """Return True if all entries of a run count, False if none does, None if each must be passed to `on_record`.

        Each entry follows the one before it: if the first one counts, all do; if it is the next one and does not count,
        none can.
        """
        last = self._last
        if run.epoch < self._cut or run.last <= last.index:
            return False
        if run.first <= last.index:
            return None
        if (run.first, run.previous) != (last.index + 1, last.chain):
            self.void["does not follow"] += run.last - run.first + 1
            return False
        self._last = LogPosition(run.last, run.chain)
        self.epoch = max(self.epoch, run.epoch)
        return True

    def _follow(self, entry: LoggedEntry) -> LoggedEntry | None:
        last = self._last
        if entry.epoch < self._cut or entry.index <= last.index:
            return None  # a restarted master repeats entries that it cannot know to be in the topic
        if (entry.index, entry.previous) != (last.index + 1, last.chain):
            self.void["does not follow"] += 1
            return None
        self._last = LogPosition(entry.index, entry.chain)
        self.epoch = max(self.epoch, entry.epoch)
        return entry

    def _go_back(self, cut: Cut) -> Cut | None:
        if cut.epoch <= self._cut:
            return None  # two masters may write it, and either may write it twice
        fork = LogPosition(cut.index, cut.chain)
        if fork.index > self._last.index or (fork.index == self._last.index and fork != self._last):
            self.void["cuts elsewhere"] += 1
            return None
        self._last, self._cut = fork, cut.epoch
        self.epoch = max(self.epoch, cut.epoch)
        return cut


def place_of(record: Record, *, most: int | None = None) -> Place | Cut | None:
    """Return the entry that is complete with this record, or the cut; for readers that only follow positions.

    `most`: index beyond which entries are not decoded; None: no limit.

    Raises:
        ForeignRecord: another program wrote the record.

    """
    if most is not None and record.key != CUT_KEY and _index_in(record) > most:
        return None
    said, chunk, chunks = codec.decode_chunk(record.value)
    if isinstance(said, Cut):
        return said
    if not isinstance(said, LoggedEntry) or chunk < chunks - 1:
        return None
    return Place(said.epoch, said.index, said.chain, said.previous)


def _index_in(record: Record) -> int:
    try:
        return int(record.key)
    except ValueError:
        raise record.foreign("its key is no index") from None
