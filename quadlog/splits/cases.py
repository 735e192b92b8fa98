"""What a report is about: the log that stays, and the branches beside it, now or when a split ended."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from consumers.recovery import EndedBranch, common
from quadlog.core.approval import approval_in
from quadlog.core.model import LogPosition, TransactionKind
from quadlog.errors import StateError, UserError
from quadlog.splits.sides import Behind, Side, in_order, sides_of
from quadlog.splits.topics import DataCentreTopics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from consumers.recovery import Path
    from quadlog.replay.replay import Phase

NAME: Final = 12
"""Hexadecimal digits of the lineage in a branch's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBranch:
    """Entries that the winner's log does not have."""

    name: str
    side: Side
    topics: DataCentreTopics
    """Of the data centre whose topics it is read from."""
    path: Path
    """From the beginning of the topic to its last entry."""
    fork: LogPosition

    @property
    def entries(self) -> int:
        """Their number."""
        return self.path.last.index - self.fork.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The winner and all branches, in the order in which they are considered."""

    winner: Side
    topics: DataCentreTopics
    """Of the data centre whose topics the winner's log is read from."""
    path: Path
    """Up to the winner's last entry."""
    sides: Sequence[CaseBranch]
    """All other sides, also those without entries of their own."""
    behind: Sequence[Behind] = field(default_factory=list[Behind])
    is_over: bool

    @property
    def branches(self) -> list[CaseBranch]:
        """The sides with entries of their own."""
        return [side for side in self.sides if side.entries]


def name_of(topics: DataCentreTopics, path: Path, fork: LogPosition) -> str:
    """Return the name of a branch: its fork, and the view in which it ended."""
    lineage = topics.head_of(path, path.last.index).lineage if path.last.index in path else bytes(32)
    return f"{fork.index}-{lineage.hex()[:NAME]}"


def case_of_now(dcs: Mapping[str, DataCentreTopics], phase: Phase) -> Case:
    """Return the split of now; without branches if there is none.  `phase`: shows the progress.

    Raises:
        UserError: the topics do not go back to where they part.

    """
    posts = {dc: topics.posts() for dc, topics in dcs.items()}
    lasts = {dc: topics.path.last for dc, topics in dcs.items()}
    sides, behind = sides_of(lasts, posts, lambda dc, position: dcs[dc].has(position))
    winner = sides[0]
    own = _evaluated_furthest(dcs, winner, phase)
    branches = list[CaseBranch]()
    for side in sides[1:]:
        topics = _evaluated_furthest(dcs, side, phase)
        fork = _fork(own, own.path, topics, topics.path)
        branches.append(
            CaseBranch(
                name=name_of(topics, topics.path, fork),
                side=side,
                topics=topics,
                path=topics.path,
                fork=fork,
            )
        )
    return Case(winner=winner, topics=own, path=own.path, sides=branches, behind=behind, is_over=False)


def _evaluated_furthest(dcs: Mapping[str, DataCentreTopics], side: Side, phase: Phase) -> DataCentreTopics:
    """Return the topics of the first data centre of a side that has the effect of the side's last entry.

    A data centre may have no workers, or lack effects.  If no other one has it, return those of the last one.
    """
    those, last = [dcs[dc] for dc in side.dcs], side.last.index

    def has_it(topics: DataCentreTopics) -> bool:
        with suppress(StateError):  # the topic was shortened
            return topics.effects_on(topics.path, last - 1, phase)[1] >= last
        return False

    return next((one for one in those[:-1] if last and has_it(one)), those[-1])


def ended_branches(
    dcs: Mapping[str, DataCentreTopics],
) -> Iterator[tuple[str, DataCentreTopics, EndedBranch]]:
    """Yield name, topics and branch of what cuts have ended in each data centre, in the order of the cuts."""
    found = [(branch.epoch, dc, branch) for dc, topics in dcs.items() for branch in topics.reader.branches]
    for _, dc, branch in sorted(found, key=lambda one: one[:2]):
        yield name_of(dcs[dc], branch.path, branch.fork), dcs[dc], branch


def case_that_is_over(dcs: Mapping[str, DataCentreTopics], name: str | None) -> Case:
    """Return a split that is over: the one with the named branch, or the newest one, with all of its branches.

    Raises:
        UserError: there is no such branch; or no data centre that is reached has kept the log.

    """
    ended = [*ended_branches(dcs)]
    if not ended:
        raise UserError("no split that is over has left a branch in these topics")
    epochs = {named: branch.epoch for named, _, branch in ended}
    if name is not None and name not in epochs:
        raise UserError(f"there is no branch {name}; there are {', '.join(epochs)}")
    epoch = ended[-1][2].epoch if name is None else epochs[name]
    split = dict[str, list[tuple[DataCentreTopics, EndedBranch]]]()
    for named, topics, branch in ended:
        if epochs[named] == epoch:
            split.setdefault(named, []).append((topics, branch))
    branches = [
        (topics, branch._replace(path=_before_approval(topics, branch.path)))
        for topics, branch in (max(those, key=lambda one: one[1].path.last.index) for those in split.values())
    ]
    gave_way = {topics.dc for those in split.values() for topics, _ in those}
    least = min(branch.fork.index for _, branch in branches)
    kept = [
        other
        for dc, other in sorted(dcs.items())
        if dc not in gave_way and other.path.newest_before(epoch) >= least
    ]
    if not kept:
        names = ", ".join(split)
        raise UserError(
            f"the log that stayed when {names} ended is at none of these data centres: name all with --kafka"
        )
    since = max(topics.head_of(branch.path, branch.path.last.index).created for topics, branch in branches)
    own = max(kept, key=lambda other: other.path.newest_before(epoch))
    index = own.path.newest_before(epoch)
    chain = own.path.before.chain if index == own.path.before.index else own.chain_of(own.path, index)
    winner = Side(dcs=[other.dc for other in kept], last=LogPosition(index, chain))
    for other in kept:
        winner.posts += other.posts(since=since, before=epoch)
    path, sides = _before_approval(own, own.path.until(winner.last)), list[CaseBranch]()
    winner.last = path.last
    for (named, those), (topics, branch) in zip(split.items(), branches, strict=True):
        side = Side(dcs=sorted(one.dc for one, _ in those), last=branch.path.last)
        for one, _ in those:
            side.posts += one.posts(since=since, before=epoch)
        fork = _fork(own, path, topics, branch.path)
        sides.append(CaseBranch(name=named, side=side, topics=topics, path=branch.path, fork=fork))
    order = in_order(one.side for one in sides)
    sides.sort(key=lambda one: order.index(one.side))
    return Case(winner=winner, topics=own, path=path, sides=sides, is_over=True)


def _before_approval(topics: DataCentreTopics, path: Path) -> Path:
    """Return the path without its last entry, if that has approved the end of the split: it is not part of the plan."""
    last = path.last.index
    if last not in path:
        return path
    entry = topics.head_of(path, last)
    is_approval = entry.kind is TransactionKind.CONFIG and approval_in(entry.options) is not None
    return path.until(LogPosition(last - 1, entry.previous)) if is_approval else path


def _fork(own: DataCentreTopics, path: Path, topics: DataCentreTopics, other: Path) -> LogPosition:
    def chain_of(which: Path, index: int) -> bytes:
        return (own if which is path else topics).chain_of(which, index)

    fork = common(path, other, chain_of)
    if fork is None:
        raise UserError(
            f"the topics of {own.dc} or {topics.dc} begin after the fork: give the archive with --archive"
        )
    return fork


def branches_that_are_over(dcs: Mapping[str, DataCentreTopics]) -> list[CaseBranch]:
    """Return the branches that cuts have ended; one that several data centres have is named once."""
    found = dict[str, CaseBranch]()
    for name, topics, branch in ended_branches(dcs):
        known = found.get(name)
        gave_way = sorted({topics.dc, *(() if known is None else known.side.dcs)})
        if known is not None and known.path.last.index >= branch.path.last.index:
            known.side.dcs[:] = gave_way
            continue
        side = Side(dcs=gave_way, last=branch.path.last)
        found[name] = CaseBranch(name=name, side=side, topics=topics, path=branch.path, fork=branch.fork)
    return [*found.values()]
