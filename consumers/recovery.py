"""Consumer of the agreed topics of all data centres, for what a split did: paths, and branches that cuts have ended.

A path is the entries that count, in order.  It is kept as stretches of the topic, so that it takes little memory, and
any entry of it can be read again.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from consumers.agreed import AgreedConsumer
from quadlog import codec
from quadlog.core.model import START, LogPosition
from quadlog.core.records import Cut, LoggedEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from consumers.agreed import AgreedRun
    from quadlog.ports import Record


@dataclass(slots=True)
class EntryStretch:
    """Entries that count: consecutive ones with one record each, or one entry in chunks."""

    first: int
    last: int
    start: int
    """Offset of the record that completes the first entry."""
    epoch: int
    """Epoch under which they were written."""
    cut: int
    """Epoch of the newest cut before them."""

    def offset_of(self, index: int) -> int:
        """Return the offset of the record that completes an entry."""
        return self.start + index - self.first

    def goes_on_in(self, other: EntryStretch) -> bool:
        """Return whether the other one directly continues this one."""
        is_next = (self.last + 1, self.offset_of(self.last) + 1) == (other.first, other.start)
        return is_next and (self.epoch, self.cut) == (other.epoch, other.cut)


class Path:
    """Entries in the order of the log, as one topic has them."""

    def __init__(self, stretches: Sequence[EntryStretch], before: LogPosition, last: LogPosition) -> None:
        """`before`: the position before the first entry; `last`: that of the last one."""
        self.stretches, self.before, self.last = stretches, before, last

    def __contains__(self, index: int) -> bool:
        """Return whether it has an entry with this index."""
        return bool(self.stretches) and self.stretches[0].first <= index <= self.last.index

    @property
    def end_of_stretches(self) -> int:
        """Index of the last entry in the topic that continues this path, or is its last one."""
        return max(self.last.index, self.stretches[-1].last) if self.stretches else self.last.index

    def stretch_of(self, index: int) -> EntryStretch:
        """Return the stretch that has an index of this path."""
        return self.stretches[bisect_left(self.stretches, index, key=lambda stretch: stretch.last)]

    def offset_of(self, index: int) -> int:
        """Return the offset of the record that completes an entry of this path."""
        return self.stretch_of(index).offset_of(index)

    def until(self, last: LogPosition) -> Path:
        """Return the path up to one of its entries."""
        return Path(self.stretches, self.before, last)

    def newest_before(self, epoch: int) -> int:
        """Return the index of the newest entry that was written under a smaller epoch; 0 if there is none."""
        return max((one.last for one in self.stretches if one.epoch < epoch), default=0)


class EndedBranch(NamedTuple):
    """Entries of a topic that a cut has ended."""

    path: Path
    """All entries up to its end, also those before the fork."""
    fork: LogPosition
    """The last entry that stays."""
    epoch: int
    """Epoch of the cut."""


class PathReader:
    """Reads one agreed topic from its beginning."""

    def __init__(self) -> None:
        """Start before the first record."""
        self._consumer: AgreedConsumer | None = None
        self._joiner = codec.ChunkJoiner()
        self._before = START
        self._stretches: list[EntryStretch] = []
        self.branches: list[EndedBranch] = []
        """In the order of their cuts."""

    @property
    def path(self) -> Path:
        """The path up to here."""
        last = START if self._consumer is None else self._consumer.last
        return Path(self._stretches, self._before, last)

    def on_run(self, run: AgreedRun) -> bool:
        """Read the entries of a run; return False if each must be given to `on_record`."""
        if self._consumer is None:
            self._begin(LogPosition(run.first - 1, run.previous), run.epoch)
        assert self._consumer is not None
        counts = self._consumer.on_run(run)
        if counts:
            self._add(run.first, run.last, run.offset, run.epoch)
        return counts is not None

    def on_record(self, record: Record) -> None:
        """Read a record.

        Raises:
            ForeignRecord: another program wrote the record.

        """
        said = self._joiner.join(record.value)
        if self._consumer is None:
            match said:
                case LoggedEntry() as entry:  # the topic may have been shortened
                    self._begin(LogPosition(entry.index - 1, entry.previous), entry.epoch)
                case Cut() as cut:
                    self._begin(LogPosition(cut.index, cut.chain), cut.epoch)
                    return
                case _:
                    return
        assert self._consumer is not None
        if not isinstance(said, LoggedEntry | Cut):
            return
        before = self._consumer.last
        match self._consumer.on_record(record, (said, 0, 1)):
            case LoggedEntry() as entry:
                self._add(entry.index, entry.index, record.offset, entry.epoch)
            case Cut() as cut:
                self._cut(cut, before)
            case None:
                pass

    def _begin(self, before: LogPosition, epoch: int) -> None:
        self._before = before
        self._consumer = AgreedConsumer(before, cut=epoch if before.index else 1)

    def _add(self, first: int, last: int, start: int, epoch: int) -> None:
        assert self._consumer is not None
        new = EntryStretch(first, last, start, epoch, self._consumer.cut)
        if self._stretches and self._stretches[-1].goes_on_in(new):
            self._stretches[-1].last = last
        else:
            self._stretches.append(new)

    def _cut(self, cut: Cut, before: LogPosition) -> None:
        if before.index <= cut.index:
            return
        kept = [one for one in self._stretches if one.first <= cut.index]
        ended = Path(self._stretches, self._before, before)
        self.branches.append(EndedBranch(ended, LogPosition(cut.index, cut.chain), cut.epoch))
        if kept and kept[-1].last > cut.index:
            newest = kept[-1]
            kept[-1] = EntryStretch(newest.first, cut.index, newest.start, newest.epoch, newest.cut)
        self._stretches = kept


def common(one: Path, other: Path, chain_of: Callable[[Path, int], bytes]) -> LogPosition | None:
    """Return the last entry that two paths have in common, by a search of few steps; None: not known.

    A chain hash stands for all entries before it.  If the paths have nothing in common, that is the beginning of the
    log; it is not known if one of them begins later, as its topic was shortened.  `chain_of` reads the chain hash of an
    entry.
    """
    low = max(one.before.index, other.before.index)
    high = min(one.last.index, other.last.index)
    if high < low:
        return None

    def chain(path: Path, index: int) -> bytes:
        return path.before.chain if index == path.before.index else chain_of(path, index)

    def differ(index: int) -> bool:
        return chain(one, index) != chain(other, index)

    if differ(low):
        return None
    last = low + bisect_left(range(low + 1, high + 1), x=True, key=differ)
    return LogPosition(last, chain(one, last))
