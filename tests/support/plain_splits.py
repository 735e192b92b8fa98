"""A plain reader of splits: the plan of docs/splits.md, from that page and from the records alone.

It shares the decoding of records with quadlog, and nothing else: which records count is in `plain_histories.py`, the
evaluation of updates in `plain_updates.py`.  So it is slow, keeps everything in memory, and shows by agreeing that the
Spark job does what the page says.

- `preview(repository, topics)`: the plan of the split of now;
- `report(repository, topics, branch)`: the plan of a split that is over, the newest one without a name;
- `branch_names(topics)`: the branches that have ended;
- `read_topics(repository, kafka)`: the topics, from Kafka.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from quadlog.broker import records_between
from quadlog.core.model import START, LogPosition, TransactionKind
from quadlog.core.records import Effect, Outcome
from quadlog.topics import Topics
from tests.support.plain_histories import (
    DataCentreHistory,
    DataCentreTopics,
    EndedPath,
    Path,
    Unknown,
    history_of,
    position,
)
from tests.support.plain_updates import Changes, Updates, changes_of, is_quad

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from quadlog.core.model import Rank
    from quadlog.core.records import LoggedEntry
    from quadlog.ports import Record


class UpdateClass(StrEnum):
    """What becomes of an update of a branch."""

    DUPLICATE = "duplicate"
    DROPPED = "dropped"
    WAITS = "waits"
    UNFORESEEN = "unforeseen"
    REJECTED = "rejected"
    EMPTY = "empty"
    OPPOSITE = "opposite"
    DIFFERS = "differs"
    COMMUTES = "commutes"


@dataclass(frozen=True)
class PlannedUpdate:
    """An update of a branch, and what it does behind the winner's log."""

    index: int
    id: str
    update_class: UpdateClass
    outcome: str | None = None
    deleted: int = 0
    inserted: int = 0


@dataclass(frozen=True)
class EndedEntry:
    """A CONFIG entry of a branch."""

    index: int
    id: str


class DisputedQuad(NamedTuple):
    """A quad that the winner and a branch changed, and where it exists."""

    line: str
    base: bool
    winner: bool
    branch: bool
    result: bool


@dataclass(frozen=True, kw_only=True)
class PlannedBranch:
    """What becomes of a branch."""

    dcs: tuple[str, ...]
    fork: LogPosition
    last: LogPosition
    lineage: bytes
    """View of its last entry."""
    updates: tuple[PlannedUpdate, ...]
    ended: tuple[EndedEntry, ...]
    disputed: tuple[DisputedQuad, ...]

    @property
    def name(self) -> str:
        """Name of the branch."""
        return branch_name(self.fork, self.lineage)


@dataclass(frozen=True, kw_only=True)
class SplitPlan:
    """What becomes of all branches of a split."""

    repository: str
    winner: LogPosition
    branches: tuple[PlannedBranch, ...]

    def lines(self) -> list[str]:
        """Return the canonical lines, without their line feeds."""
        branches = [
            {"fork": one.fork.index, "index": one.last.index, "chain": one.last.chain.hex()}
            for one in self.branches
        ]
        winner = {"index": self.winner.index, "chain": self.winner.chain.hex()}
        head = {"format": 1, "repository": self.repository, "winner": winner, "branches": branches}
        return [_line(head), *(line for one in self.branches for line in _lines_of(one))]

    @property
    def hash(self) -> str:
        """Return the plan hash."""
        text = "".join(f"{line}\n" for line in self.lines())
        return blake2b(text.encode(), digest_size=32).hexdigest()


def _lines_of(branch: PlannedBranch) -> Iterator[str]:
    for one in branch.updates:
        yield _line(
            {
                "index": one.index,
                "id": one.id,
                "class": one.update_class.value,
                "outcome": one.outcome,
                "deleted": one.deleted,
                "inserted": one.inserted,
            }
        )
    for entry in branch.ended:
        yield _line({"ended": "CONFIG", "index": entry.index, "id": entry.id})
    for quad in branch.disputed:
        yield _line(quad._asdict())


def _line(value: Mapping[str, object]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def branch_name(fork: LogPosition, lineage: bytes) -> str:
    """Return the name of the branch from a fork to an entry of this view."""
    return f"{fork.index}-{lineage.hex()[:12]}"


def preview(
    repository: str, topics: Mapping[str, DataCentreTopics], *, drop: frozenset[bytes] = frozenset()
) -> SplitPlan:
    """Return the plan of the split of now; without branches if there is only one side.

    Args:
        repository: name of the repository.
        topics: records by data centre.
        drop: ids of updates that are dropped.

    Raises:
        Unknown: no side has a rank; an effect of the winner is missing; or see `plain_updates.py`.

    """
    histories = _histories(topics)
    winner, *others = _sides(histories)
    if winner.rank is None:
        raise Unknown("no side has a post and an entry: none wins")
    log = winner.path
    # A data centre that is behind may have effects that the winner's topics lack.
    behind = [one for one in histories.values() if one.agreed.now.last in log]
    effects = _Effects([*(histories[dc] for dc in winner.dcs), *behind], now=True)
    forks = [(one, log.fork(one.path)) for one in others]
    branches = [_Branch(one.dcs, one.path, fork) for one, fork in forks if fork != one.path.last]
    if not branches:
        return SplitPlan(repository=repository, winner=log.last, branches=())
    has_seed = any(one.effects.has_seed for one in histories.values())
    here = _Foreseen(log, effects, has_seed=has_seed, drop=drop)
    return _plan(repository, log, branches, here, histories)


def report(repository: str, topics: Mapping[str, DataCentreTopics], branch: str | None = None) -> SplitPlan:
    """Return the plan of a split that is over, as it was executed: that of a named branch, or the newest one.

    Args:
        repository: name of the repository.
        topics: records by data centre.
        branch: name of one of its branches.

    Raises:
        Unknown: there is no such split.

    """
    histories = _histories(topics)
    ended = _ended(histories)
    named = [one for one in ended if branch in (None, one.name)]
    if not named:
        raise Unknown(f"no branch {branch or ''} has ended; those that have: {[one.name for one in ended]}")
    newest = max(one.epoch for one in named)
    split = [one for one in ended if one.epoch == newest]
    log = max((one.log for one in split), key=lambda log: log.last.index)
    # The winner's last entry is the last one that any data centre has from before the view that let the others in.
    end = START
    for entry in log.entries:
        if min(one.agreed.epochs.get(entry.chain, newest) for one in histories.values()) < newest:
            end = position(entry)
    effects = _Effects([histories[dc] for one in split for dc in one.dcs] + [*histories.values()])
    winner = _before_approval(Path(log.before, log.up_to(end)))
    here = _Executed(log, effects, winner.last)
    branches = [_Branch(one.dcs, _before_approval(one.path), one.fork) for one in split]
    return _plan(repository, winner, branches, here, histories)


def branch_names(topics: Mapping[str, DataCentreTopics]) -> list[str]:
    """Return the names of the branches that cuts have ended, those of the newest cuts first."""
    return [one.name for one in sorted(_ended(_histories(topics)), key=lambda one: -one.epoch)]


def read_topics(repository: str, kafka: Mapping[str, str]) -> dict[str, DataCentreTopics]:
    """Read all records that the topics have now; `kafka`: bootstrap servers by data centre."""

    def records(dc: str, topic: str) -> list[Record]:
        return list(records_between(kafka[dc], topic, 0, 1 << 62))

    found = dict[str, DataCentreTopics]()
    for dc in kafka:
        names = Topics(repository, dc)
        rounds, agreed = records(dc, names.rounds), records(dc, names.agreed)
        found[dc] = DataCentreTopics(agreed=agreed, effects=records(dc, names.effects), rounds=rounds)
    return found


def _before_approval(path: Path) -> Path:
    """Return a path without its last entry, if that has approved the end of the split."""
    last = path.entries[-1] if path.entries else None
    if last is not None and last.kind is TransactionKind.CONFIG and "split-approved" in last.options:
        return Path(path.before, path.entries[:-1])
    return path


def _histories(topics: Mapping[str, DataCentreTopics]) -> dict[str, DataCentreHistory]:
    return {dc: history_of(topics[dc]) for dc in sorted(topics)}


class _Side(NamedTuple):
    """Data centres whose paths have the same last entry, and that are behind none."""

    dcs: tuple[str, ...]
    path: Path
    rank: Rank | None

    @property
    def order(self) -> tuple[bool, tuple[object, ...]]:
        return self.rank is not None, self.rank or ()


class _EndedBranch(NamedTuple):
    """A path that cuts of one epoch have ended, and the log that its data centres took over."""

    dcs: tuple[str, ...]
    path: Path
    fork: LogPosition
    log: Path
    epoch: int
    rank: Rank | None = None

    @property
    def name(self) -> str:
        return branch_name(self.fork, self.path.entries[-1].lineage)

    @property
    def order(self) -> tuple[bool, tuple[object, ...]]:
        return self.rank is not None, self.rank or ()


class _Branch(NamedTuple):
    dcs: tuple[str, ...]
    path: Path
    fork: LogPosition


def _sides(histories: Mapping[str, DataCentreHistory]) -> list[_Side]:
    """Return all sides, the winner first.  A data centre without an entry is behind each one that has some."""
    paths = {dc: history.agreed.now for dc, history in histories.items()}
    groups = defaultdict[LogPosition, list[str]](list)
    for dc, path in paths.items():
        if not any(_is_behind(histories[dc], histories[other]) for other in paths):
            groups[path.last].append(dc)
    sides = [
        _Side(
            tuple(dcs),
            max((paths[dc] for dc in dcs), key=lambda path: len(path.entries)),
            None if last == START else _greatest(histories[dc].rank() for dc in dcs),
        )
        for last, dcs in groups.items()
    ]
    sides.sort(key=lambda side: side.path.last.chain)
    return sorted(sides, key=lambda side: side.order, reverse=True)  # a reverse sort is stable, too


def _is_behind(one: DataCentreHistory, other: DataCentreHistory) -> bool:
    """Return whether a data centre lacks entries of another one, and has none of its own."""
    path = one.agreed.now
    if path.last == other.agreed.now.last or path.last not in other.agreed.now:
        return False
    mine, theirs = one.best(), other.best()
    return path.last == START or mine is None or (theirs is not None and mine.view.id == theirs.view.id)


def _ended(histories: Mapping[str, DataCentreHistory]) -> list[_EndedBranch]:
    """Return all branches that cuts have ended, in the order of plans."""
    found = dict[LogPosition, _EndedBranch]()
    for dc, history in histories.items():
        for one in history.agreed.ended:
            log = _log_taken_over(one, history, histories)
            branch = _EndedBranch((dc,), one.path, log.fork(one.path), log, one.cut.epoch)
            if branch.fork == one.path.last:
                continue  # nothing gave way
            known = found.get(one.path.last, branch)
            first = min(known, branch, key=lambda one: one.epoch)
            found[one.path.last] = first._replace(dcs=tuple(sorted({*known.dcs, dc})))
    whole = [
        one
        for one in found.values()
        if not any(
            one.epoch == other.epoch and one.path.last != other.path.last and one.path.last in other.path
            for other in found.values()
        )
    ]
    ranked = [one._replace(rank=_greatest(histories[dc].rank(one.epoch) for dc in one.dcs)) for one in whole]
    ranked.sort(key=lambda one: one.path.last.chain)
    return sorted(ranked, key=lambda one: one.order, reverse=True)


def _log_taken_over(
    one: EndedPath, own: DataCentreHistory, histories: Mapping[str, DataCentreHistory]
) -> Path:
    """Return the log that a data centre took over with a cut.

    It is the path of now, of another data centre if this one is behind it; or what that path was when the next cut
    ended it.
    """
    now = [history.agreed.now for history in histories.values()]
    found = [path for path in now if one.next.last in path and one.path.last not in path]
    return max(found, key=lambda path: (own.agreed.now.last in path, path.last.index), default=one.next)


def _greatest(ranks: Iterable[Rank | None]) -> Rank | None:
    return max((rank for rank in ranks if rank is not None), default=None)


class _Effects:
    """The effects of entries, in the first data centre that has them."""

    def __init__(self, histories: Sequence[DataCentreHistory], *, now: bool = False) -> None:
        """`now`: effects that were taken back are not found."""
        self._found = [one.effects.now for one in histories]
        self._found += [] if now else [one.effects.ever for one in histories]

    def of(self, entry: LoggedEntry) -> Effect | None:
        """Return the effect of an entry."""
        return next((found[entry.chain] for found in self._found if entry.chain in found), None)


class _Timeline:
    """States of lines after each index of one history."""

    def __init__(self) -> None:
        self._changes = defaultdict[str, list[tuple[int, bool]]](list)

    def add(self, index: int, changes: Changes) -> None:
        """Note the next effect."""
        for line, state in changes.items():
            self._changes[line].append((index, state))

    def state(self, line: str, index: int) -> bool | None:
        """Return whether a line exists after an index; None if no effect of this history changes it."""
        changes = self._changes.get(line)
        if not changes:
            return None
        number = bisect_right([at for at, _ in changes], index)
        return changes[number - 1][1] if number else not changes[0][1]  # an effect changes what it names

    def changed(self, after: int, up_to: int) -> set[str]:
        """Return the lines that effects with these indexes change."""
        return {
            line for line, changes in self._changes.items() if any(after < at <= up_to for at, _ in changes)
        }


@dataclass(frozen=True)
class _Here:
    """What an update of a branch does behind the winner's log."""

    index: int
    outcome: Outcome
    changes: Changes
    is_dropped: bool = False


class _Foreseen:
    """Updates of branches, evaluated one after the other behind the winner's log."""

    missing = UpdateClass.UNFORESEEN

    def __init__(
        self, log: Path, effects: _Effects, *, has_seed: bool, drop: frozenset[bytes] = frozenset()
    ) -> None:
        self._drop = drop
        if has_seed or log.before != START:
            raise Unknown("the topics do not have all effects from the empty state on")
        found = [effects.of(entry) for entry in log.entries]
        known = [effect for effect in found if effect is not None]
        if len(known) < len(found):
            raise Unknown(f"the winner's entry {found.index(None) + 1} has no effect yet")
        self.timeline, self.end = _Timeline(), log.last.index
        for effect in known:
            self.timeline.add(effect.index, changes_of(effect))
        self._updates = Updates(known)

    def of(self, entry: LoggedEntry) -> _Here | None:
        if entry.id in self._drop:
            return _Here(self.end, Outcome.REJECTED, {}, is_dropped=True)
        result = self._updates.evaluate(entry)
        if result is None:
            return None
        self.end += 1
        self.timeline.add(self.end, result.changes)
        return _Here(self.end, result.outcome, result.changes)


class _Executed:
    """Updates of branches, as the log has them after the winner's last entry."""

    missing = UpdateClass.WAITS

    def __init__(self, log: Path, effects: _Effects, winner: LogPosition) -> None:
        self.timeline, self.end = _Timeline(), winner.index
        self._effects = dict[bytes, Effect]()
        for entry in log.entries:
            effect = effects.of(entry)
            if effect is not None:
                self.timeline.add(entry.index, changes_of(effect))
                self._effects[entry.id] = effect

    def of(self, entry: LoggedEntry) -> _Here | None:
        effect = self._effects.get(entry.id)
        if effect is None:
            return None
        self.end = max(self.end, effect.index)
        is_dropped = (effect.reason or "").startswith("dropped: an operator approved")
        return _Here(effect.index, effect.outcome, changes_of(effect), is_dropped)


class _Classifier:
    """Decides the classes of the updates of one branch, and its disputed quads."""

    def __init__(
        self, branch: _Branch, winner: Path, here: _Foreseen | _Executed, effects: _Effects, taken: set[bytes]
    ) -> None:
        """`taken`: ids of the updates of the branches before, which are agreed before those of this one."""
        self._branch, self._here, self._effects = branch, here, effects
        self._end = winner.last.index
        self._ids = taken | {entry.id for entry in winner.behind(branch.fork)}
        self._there = _Timeline()
        for entry in branch.path.entries:
            self._there.add(entry.index, self._changes_there(entry))
        self._winners = here.timeline.changed(branch.fork.index, self._end)
        self._lines = set[str]()
        """Lines that updates of the branch change, there or here."""
        self.entries = branch.path.behind(branch.fork)
        self.result_at = self._end
        """Index of its last update behind the winner's log."""

    def _changes_there(self, entry: LoggedEntry) -> Changes:
        effect = self._effects.of(entry)
        return {} if effect is None else changes_of(effect)

    def update(self, entry: LoggedEntry) -> PlannedUpdate:
        """Return what becomes of the next update."""
        there = self._changes_there(entry)
        self._lines |= there.keys()
        names = entry.index, entry.id.hex()
        if entry.id in self._ids:
            return PlannedUpdate(*names, UpdateClass.DUPLICATE)
        here = self._here.of(entry)
        if here is None:
            return PlannedUpdate(*names, self._here.missing)
        self._lines |= here.changes.keys()
        self.result_at = max(self.result_at, here.index)
        quads = [state for line, state in here.changes.items() if is_quad(line)]
        return PlannedUpdate(
            *names,
            self._class_of(there, here),
            here.outcome.value,
            deleted=quads.count(False),
            inserted=quads.count(True),
        )

    def _class_of(self, there: Changes, here: _Here) -> UpdateClass:
        if here.outcome is Outcome.REJECTED:
            return UpdateClass.DROPPED if here.is_dropped else UpdateClass.REJECTED
        if there and not here.changes:
            return UpdateClass.EMPTY
        if any(
            line in self._winners and state is not self._here.timeline.state(line, self._end)
            for line, state in here.changes.items()
        ):
            return UpdateClass.OPPOSITE
        if any(there.get(line) is not state for line, state in here.changes.items()):
            return UpdateClass.DIFFERS
        if any(self._state_here(line, here.index) is not state for line, state in there.items()):
            return UpdateClass.DIFFERS
        return UpdateClass.COMMUTES

    def _state_here(self, line: str, index: int) -> bool | None:
        """Return whether a line exists here; if nothing changes it here, it is as it was at the fork."""
        state = self._here.timeline.state(line, index)
        return self._there.state(line, self._branch.fork.index) if state is None else state

    def disputed(self) -> Iterator[DisputedQuad]:
        """Yield the disputed quads, once all updates of the branch are known."""
        for line in sorted(filter(is_quad, self._winners & self._lines)):
            base = self._here.timeline.state(line, self._branch.fork.index)
            winner = self._here.timeline.state(line, self._end)
            branch = self._there.state(line, self._branch.path.last.index)
            result = self._here.timeline.state(line, self.result_at)
            found = DisputedQuad(
                line, bool(base), bool(winner), bool(base if branch is None else branch), bool(result)
            )
            if not found.winner == found.branch == found.result:
                yield found


def _plan(
    repository: str,
    winner: Path,
    branches: Sequence[_Branch],
    here: _Foreseen | _Executed,
    histories: Mapping[str, DataCentreHistory],
) -> SplitPlan:
    parts = list[tuple[_Branch, _Classifier, list[PlannedUpdate]]]()
    taken = set[bytes]()
    for branch in branches:
        effects = _Effects([histories[dc] for dc in branch.dcs])
        classifier = _Classifier(branch, winner, here, effects, taken)
        updates = [one for one in classifier.entries if one.kind is TransactionKind.TX]
        parts.append((branch, classifier, [classifier.update(one) for one in updates]))
        taken = taken | {one.id for one in updates}
    return SplitPlan(
        repository=repository,
        winner=winner.last,
        branches=tuple(
            PlannedBranch(
                dcs=branch.dcs,
                fork=branch.fork,
                last=branch.path.last,
                lineage=branch.path.entries[-1].lineage,
                updates=tuple(updates),
                ended=tuple(
                    EndedEntry(one.index, one.id.hex())
                    for one in classifier.entries
                    if one.kind is TransactionKind.CONFIG
                ),
                disputed=tuple(classifier.disputed()),
            )
            for branch, classifier, updates in parts
            if branch.path.last != branch.fork
        ),
    )
