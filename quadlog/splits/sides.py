"""Sides of a split: which data centres belong together, which side wins, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from quadlog.core.model import START, LogPosition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from quadlog.core.model import Post, Rank


@dataclass(slots=True, kw_only=True)
class Side:
    """Data centres whose paths have the same last entry."""

    dcs: list[str]
    last: LogPosition
    posts: list[Post] = field(default_factory=list["Post"])
    """The newest posts of the masters of its data centres."""

    @property
    def rank(self) -> Rank | None:
        """The greatest rank of its masters; None without a post or without an entry: such a side does not win."""
        best = best_of(self.posts)
        return None if best is None or self.last == START else best.rank

    @property
    def masters(self) -> tuple[str, ...]:
        """Members of its view."""
        best = best_of(self.posts)
        return () if best is None else best.view.members

    @property
    def name(self) -> str:
        """Its data centres, for sentences."""
        return ", ".join(self.dcs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A data centre that lacks entries, and has none of its own."""

    dc: str
    index: int
    entries: int
    """Number of entries that it lacks."""


def sides_of(
    lasts: Mapping[str, LogPosition],
    posts: Mapping[str, Sequence[Post]],
    has: Callable[[str, LogPosition], bool],
) -> tuple[list[Side], list[Behind]]:
    """Return the sides, the winner first, and the data centres that are only behind one.

    A data centre whose masters have another view than those ahead is a side, also without entries of its own.
    `lasts` and `posts` are by data centre; `has` returns whether an entry is on the path of a data centre.
    """
    sides, behind = list[Side](), list[Behind]()
    views = {dc: _view_of(posts.get(dc, ())) for dc in lasts}
    for dc, last in sorted(lasts.items()):
        ahead = [
            other
            for other, end in lasts.items()
            if end != last and (views[dc] in {None, views[other]} or last == START) and has(other, last)
        ]
        if ahead:
            furthest = max(lasts[other].index for other in ahead)
            behind.append(Behind(dc=dc, index=last.index, entries=furthest - last.index))
            continue
        own = next((side for side in sides if side.last == last), None)
        if own is None:
            own = Side(dcs=[], last=last)
            sides.append(own)
        own.dcs.append(dc)
        own.posts += posts.get(dc, ())
    return in_order(sides), behind


def best_of(posts: Iterable[Post]) -> Post | None:
    """Return the post that decides the rank of a side; None if there is none.

    It is one of those in views of the greatest epoch: the last post of a master that is down may have an older view.
    """
    return max(posts, key=lambda post: (post.view.epoch, post.rank), default=None)


def _view_of(posts: Iterable[Post]) -> bytes | None:
    best = best_of(posts)
    return None if best is None else best.view.id


def in_order(sides: Iterable[Side]) -> list[Side]:
    """Return sides by rank, the greatest first; those without a rank come last, by their last entries."""
    by_chain = sorted(sides, key=lambda side: side.last.chain)
    return sorted(by_chain, key=lambda side: (side.rank is not None, side.rank), reverse=True)


def reasons_of(winner: Side, losers: Sequence[Side]) -> list[str]:
    """Return sentences: why the winner wins, and what would have to differ."""
    said = list[str]()
    best = winner.rank
    if best is None:
        return [f"No side has a rank that is known: {winner.name} is named first by its chain hash only."]
    for loser in losers:
        other = loser.rank
        if other is None:
            what = "no entry" if loser.last == START else "no master whose posts are known"
            said.append(f"{loser.name} has {what}, so it does not win.")
        elif best.epoch != other.epoch:
            said.append(
                f"{winner.name} stays and {loser.name} gives way: the last view with a majority of {winner.name}"
                f" has epoch {best.epoch}, that of {loser.name} has {other.epoch}."
                f" {loser.name} would win if it had held a majority in a later view."
            )
        elif best.decided != other.decided:
            said.append(
                f"{winner.name} stays and {loser.name} gives way: both follow the majority of epoch {best.epoch},"
                f" and a change of the peers is decided only at {winner.name}."
                f" {loser.name} would win if it were decided there."
            )
        elif best.members != other.members:
            said.append(
                f"{winner.name} stays and {loser.name} gives way: both follow the majority of epoch {best.epoch},"
                f" and its view has {best.members} masters, that of {loser.name} {other.members}."
                f" {loser.name} would win with more masters in its view."
            )
        else:
            said.append(
                f"{winner.name} stays and {loser.name} gives way: both follow the majority of epoch {best.epoch}"
                f" with {best.members} masters each, so the names decide: {', '.join(best.ids)}"
                f" comes after {', '.join(other.ids)}."
                f" {loser.name} would win with one more master in its view."
            )
    return said
