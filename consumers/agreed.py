"""The synchronised queue as a worker hears it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog import codec
from quadlog.core.model import Point
from quadlog.core.records import Cut, LoggedEntry, Place

if TYPE_CHECKING:
    from quadlog.ports import Record


CUT_KEY: Final = b"cut"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedRun:
    """Consecutive records, each a whole entry that follows the one before it, all written under one epoch."""

    offset: int
    """Of the first record."""
    first: int
    """Index of its entry."""
    last: int
    """Of the last one."""
    epoch: int
    previous: bytes
    """Chain before the first one."""
    chain: bytes
    """Of the last one."""

    def __contains__(self, index: int) -> bool:
        """Whether the entry of an index is in it."""
        return self.first <= index <= self.last

    @property
    def end(self) -> int:
        """Offset behind the last record."""
        return self.offset + self.last - self.first + 1


class AgreedConsumer:
    """Entries in the order of their indexes, each once, each chained to the one before.

    A cut of a greater epoch than any before goes back to the entry that it names.  Behind it entries of smaller
    epochs are void: a writer that woke up late still stands on the branch that was cut.

    So is what does not follow: two masters that lead for a moment may write it, and it stays.  Who leads follows the
    topic by the same rules, and says again what is missing.
    """

    def __init__(self, last: Point, *, cut: int = 1) -> None:
        """Go on behind an entry.

        Args:
            last: the entry before the first one to be heard.
            cut: epoch of the newest cut before it, or that entry's own: whoever writes under an epoch cuts first.

        """
        self._last, self._cut = last, cut
        self.epoch = cut
        """The greatest one heard."""
        self.void: Counter[str] = Counter()
        """What did not count and was not heard before, by reason."""
        self._chunks = codec.Chunks()

    @property
    def last(self) -> Point:
        """The newest entry heard, or the one that was cut behind since."""
        return self._last

    def hear(self, record: Record, part: codec.Part | None = None) -> LoggedEntry | Cut | None:
        """The entry that is whole with this record, or a cut; None for what is void, part of one, or heard already.

        `part`: what `codec.decode_ahead` made of its value.
        """
        match self._chunks.join(record.value, part=part):
            case LoggedEntry() as entry:
                return self._follow(entry)
            case Cut() as cut:
                return self._go_back(cut)
            case _:
                return None

    def hear_run(self, run: AgreedRun) -> bool | None:
        """Whether all entries of a run count, or none does; None: they have to be heard one by one.

        Each follows the one before it: if the first one counts, all do; and if it is the next one and does not, none
        can.
        """
        last = self._last
        if run.epoch < self._cut or run.last <= last.index:
            return False
        if run.first <= last.index:
            return None
        if (run.first, run.previous) != (last.index + 1, last.chain):
            self.void["does not follow"] += run.last - run.first + 1
            return False
        self._last = Point(run.last, run.chain)
        self.epoch = max(self.epoch, run.epoch)
        return True

    def _follow(self, entry: LoggedEntry) -> LoggedEntry | None:
        last = self._last
        if entry.epoch < self._cut or entry.index <= last.index:
            return None  # a master that was killed writes again what it cannot know to be there
        if (entry.index, entry.previous) != (last.index + 1, last.chain):
            self.void["does not follow"] += 1
            return None
        self._last = Point(entry.index, entry.chain)
        self.epoch = max(self.epoch, entry.epoch)
        return entry

    def _go_back(self, cut: Cut) -> Cut | None:
        if cut.epoch <= self._cut:
            return None  # two masters may write it, and either may write it twice
        fork = Point(cut.index, cut.chain)
        if fork.index > self._last.index or (fork.index == self._last.index and fork != self._last):
            self.void["cuts elsewhere"] += 1
            return None
        self._last, self._cut = fork, cut.epoch
        self.epoch = max(self.epoch, cut.epoch)
        return cut


def place_of(record: Record, *, most: int | None = None) -> Place | Cut | None:
    """Which entry is whole with this record, or what it cuts; for one who only follows how far the topic is.

    Args:
        record: of an agreed topic.
        most: entries beyond this index are not looked at; None: all are.

    Raises:
        ForeignRecord: another program wrote it.

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
