"""Which records of a data centre's topics count, without `consumers`: from docs/internals.md and decision 22 alone.

It is half of the plain reader of splits (`plain_splits.py`).  It keeps everything in memory and is slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from quadlog.codec import ChunkJoiner
from quadlog.codec.envelope import EPOCH, RELAYED
from quadlog.core.model import START, LogPosition, Post, Rank
from quadlog.core.records import Cut, Effect, Fence, Handover, LoggedEntry, Rewind, Seed
from quadlog.errors import ForeignRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from quadlog.codec import Said
    from quadlog.ports import Record


class Unknown(Exception):
    """The topics do not have what the answer needs, or this reader cannot compute it."""


class DataCentreTopics(NamedTuple):
    """All records of three topics of one data centre, each in its order."""

    agreed: Iterable[Record] = ()
    effects: Iterable[Record] = ()
    rounds: Iterable[Record] = ()


def position(entry: LoggedEntry) -> LogPosition:
    """Return index and chain hash of an entry."""
    return LogPosition(entry.index, entry.chain)


@dataclass(frozen=True)
class Path:
    """The entries that count in an agreed topic, in order."""

    before: LogPosition = START
    """The position before the first of them; not the start if the topic was trimmed."""
    entries: tuple[LoggedEntry, ...] = ()

    @property
    def last(self) -> LogPosition:
        """Position of the last entry."""
        return position(self.entries[-1]) if self.entries else self.before

    def __contains__(self, at: LogPosition) -> bool:
        """Return whether a position is one of this path.  The start is one of every path."""
        return at in (START, self.before) or any(position(entry) == at for entry in self.entries)

    def fork(self, other: Path) -> LogPosition:
        """Return the last position that is on both paths.

        Raises:
            Unknown: a trimmed topic does not have it.

        """
        theirs = {START, other.before, *map(position, other.entries)}
        mine = (START, self.before, *map(position, self.entries))
        found = next(at for at in reversed(mine) if at in theirs)
        if found == START and START not in (self.before, other.before) and self.before != other.before:
            raise Unknown("the topics were trimmed, and do not have the fork any more")
        return found

    def behind(self, at: LogPosition) -> tuple[LoggedEntry, ...]:
        """Return the entries after a position of this path."""
        return tuple(entry for entry in self.entries if entry.index > at.index)

    def up_to(self, at: LogPosition) -> tuple[LoggedEntry, ...]:
        """Return the entries up to a position of this path."""
        return tuple(entry for entry in self.entries if entry.index <= at.index)


class EndedPath(NamedTuple):
    """A path that a cut has ended, and the path from that cut until the next one, or until now."""

    path: Path
    cut: Cut
    next: Path


@dataclass(frozen=True)
class AgreedHistory:
    """The paths of an agreed topic."""

    now: Path
    ended: tuple[EndedPath, ...]
    epochs: Mapping[bytes, int]
    """For each entry that ever counted, by its chain hash, the least epoch with which it was written."""


@dataclass(frozen=True)
class EffectsHistory:
    """The effects of an effects topic, by the chain hash of their entries."""

    now: Mapping[bytes, Effect]
    """Those that count."""
    ever: Mapping[bytes, Effect]
    """Those that counted when they were written; the last one for each entry."""
    has_seed: bool


@dataclass(frozen=True)
class DataCentreHistory:
    """What the topics of a data centre say."""

    agreed: AgreedHistory
    effects: EffectsHistory
    posts: tuple[Post, ...]
    """Posts of its own masters, in the order of the topic."""

    def best(self, before_epoch: int | None = None) -> Post | None:
        """Return the newest post of one of its masters that decides its rank; None if there is no post.

        Of those in views of the greatest epoch it is the one with the greatest rank.  `before_epoch`: only posts in
        views of smaller epochs count.
        """
        newest = dict[str, Post]()
        for post in self.posts:
            if before_epoch is not None and post.view.epoch >= before_epoch:
                continue
            known = newest.get(post.node)
            if known is None or (post.incarnation, post.sequence) > (known.incarnation, known.sequence):
                newest[post.node] = post
        return max(newest.values(), key=lambda post: (post.view.epoch, post.rank), default=None)

    def rank(self, before_epoch: int | None = None) -> Rank | None:
        """Return the rank of that post."""
        best = self.best(before_epoch)
        return None if best is None else best.rank


def history_of(topics: DataCentreTopics) -> DataCentreHistory:
    """Decide which records of a data centre count."""
    return DataCentreHistory(
        read_agreed(topics.agreed), read_effects(topics.effects), tuple(read_posts(topics.rounds))
    )


def read_agreed(records: Iterable[Record]) -> AgreedHistory:
    """Follow entries and cuts.

    - An entry counts if it follows the last one that counts, and its epoch is not below that of the newest cut.
    - A cut counts if its epoch is above that of the newest cut: the path then goes on after the entry that it names.
    """
    before: LogPosition | None = None
    entries: list[LoggedEntry] = []
    ended: list[tuple[Path, Cut]] = []
    newest, epochs = 0, dict[bytes, int]()

    def path() -> Path:
        return Path(before or START, tuple(entries))

    for _, said in _values(records):
        if isinstance(said, Cut) and said.epoch > newest:
            ended.append((path(), said))
            newest, to = said.epoch, LogPosition(said.index, said.chain)
            entries = [entry for entry in entries if entry.index <= to.index] if to in path() else []
            before = before if entries else to
        elif isinstance(said, LoggedEntry) and said.epoch >= newest:
            previous = LogPosition(said.index - 1, said.previous)
            before = before or previous
            if previous == path().last:
                entries.append(said)
                epochs.setdefault(said.chain, said.epoch)
    nexts = [*(path for path, _ in ended), path()][1:]
    return AgreedHistory(
        path(), tuple(EndedPath(*one, after) for one, after in zip(ended, nexts, strict=True)), epochs
    )


@dataclass
class _Effects:
    """Follows effects, and the records that decide which of them count."""

    FIRST_EPOCH = 1
    """Of records without a header that says their epoch."""

    effects: list[Effect] = field(default_factory=list[Effect])
    """Those that count."""
    ever: dict[bytes, Effect] = field(default_factory=dict[bytes, Effect])
    term: bytes | None = None
    """None: no record has named one yet."""
    attempt: int = 0
    handover: tuple[int, int] = (0, 0)
    """Epoch and index of the newest handover."""
    rewound: int = 0
    """Epoch of the newest rewind."""
    base: tuple[int, bytes] | None = None
    """Index and signature of the state before the first effect; None: unknown, the topic may have been trimmed."""
    has_seed: bool = False

    def read(self, epoch: int, said: Said) -> None:
        """Consider one record.  After a rewind, records of smaller epochs are void."""
        if epoch < self.rewound:
            return
        match said:
            case Rewind():
                self._go_back(said)
            case Handover() if (said.epoch, said.index) > self.handover:
                self.handover, self.term, self.attempt = (said.epoch, said.index), said.term, 0
            case Fence() if self.term in (None, said.term) and said.attempt > self.attempt:
                self.term, self.attempt = said.term, said.attempt
            case Effect() if self.term in (None, said.term) and said.attempt >= self.attempt:
                self._follow(said)
            case Seed() if not self.effects and not self.has_seed and not self.handover[1]:
                self.has_seed, self.base = True, (0, said.signature)
            case _:
                pass

    def _go_back(self, rewind: Rewind) -> None:
        """The second rewind of an epoch does not count.  After a rewind the order of handovers begins again."""
        if rewind.epoch == self.rewound:
            return
        self.rewound, self.handover = rewind.epoch, (0, 0)
        self.term, self.attempt = rewind.term, rewind.attempt
        self.effects = [effect for effect in self.effects if effect.index <= rewind.index]
        if rewind.index == 0:
            self.has_seed, self.base = False, None  # the seed is written again

    def _follow(self, effect: Effect) -> None:
        """An effect counts once, on the state that the one before it left."""
        last = self.effects[-1] if self.effects else None
        state = (last.index, last.signature_after) if last else self.base
        if state is None or state == (effect.index - 1, effect.signature_before):
            self.effects.append(effect)
            self.ever[effect.entry_chain] = effect


def read_effects(records: Iterable[Record]) -> EffectsHistory:
    """Follow effects, fences, handovers, rewinds and the seed."""
    state = _Effects()
    for record, said in _values(records):
        state.read(record.number(EPOCH) or _Effects.FIRST_EPOCH, said)
    return EffectsHistory({one.entry_chain: one for one in state.effects}, state.ever, state.has_seed)


def read_posts(records: Iterable[Record]) -> Iterator[Post]:
    """Yield the posts of the data centre's own masters; others were only passed on."""
    for record, said in _values(records):
        if isinstance(said, Post) and record.header(RELAYED) is None:
            yield said


def _values(records: Iterable[Record]) -> Iterator[tuple[Record, Said]]:
    """Yield what the records say, chunks joined, with the last record of each; other programs' records are skipped."""
    joiner = ChunkJoiner()
    for record in records:
        try:
            said = joiner.join(record.value)
        except ForeignRecord:
            continue
        if said is not None:
            yield record, said
