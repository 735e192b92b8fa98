"""What a report says of sides and branches, as `docs/split-report.schema.json` describes it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from quadlog.core.cluster_settings import ClusterSettings

if TYPE_CHECKING:
    from consumers.recovery import Path as LogPath
    from quadlog.core.model import LogPosition
    from quadlog.splits.cases import Case, CaseBranch
    from quadlog.splits.topics import DataCentreTopics

STRATEGY: Final = "split-recovery"
"""Name of the setting."""


@dataclass(slots=True)
class Counted:
    """What was counted of one branch while its plan was made."""

    updates: int = 0
    decisions: int = 0
    classes: Counter[str] = field(default_factory=Counter[str])
    answers: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    shown: Counter[str] = field(default_factory=Counter[str])
    transactions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ended: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    disputed: int = 0
    disputed_quads: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def strategy_of(case: Case) -> str | None:
    """Return the strategy that the posts of the winner have; None if there is no post.

    A post has what entries have set, and what its master's file sets otherwise than the default.
    """
    found = [one for post in case.winner.posts for one in post.settings if one.name == STRATEGY]
    if found:
        return max(found, key=lambda one: one.index).value
    return ClusterSettings().text(STRATEGY) if case.winner.posts else None


def described_sides(case: Case) -> list[dict[str, Any]]:
    """Return the sides, the winner first."""
    oldest = min(case.sides, key=lambda one: one.fork.index, default=None)
    rows = [(case.winner, case.topics, case.path, None if oldest is None else oldest.fork)]
    rows += [(one.side, one.topics, one.path, one.fork) for one in case.sides]
    return [
        {
            "dcs": side.dcs,
            "wins": side is case.winner and side.rank is not None,
            "last": _position(side.last),
            "fork": None if fork is None else fork.index,
            "length": 0 if fork is None else side.last.index - fork.index,
            "first_at": None if fork is None else _created(topics, path, fork.index + 1),
            "last_at": None if fork is None else _created(topics, path, path.last.index, after=fork.index),
            "rank": None if side.rank is None else {**side.rank._asdict(), "ids": [*side.rank.ids]},
            "masters": [*side.masters],
        }
        for side, topics, path, fork in rows
    ]


def _created(topics: DataCentreTopics, path: LogPath, index: int, *, after: int = 0) -> str | None:
    if index not in path or index <= after:
        return None
    return datetime.fromtimestamp(topics.head_of(path, index).created / 1000, UTC).isoformat(
        timespec="milliseconds"
    )


def _position(position: LogPosition) -> dict[str, Any]:
    return {"index": position.index, "chain": position.chain.hex()}


def described_branch(branch: CaseBranch, counted: Counted) -> dict[str, Any]:
    """Return a branch with what was counted of it."""
    return {
        "name": branch.name,
        "dcs": branch.side.dcs,
        "fork": _position(branch.fork),
        "last": _position(branch.path.last),
        "entries": branch.entries,
        "updates": counted.updates,
        "decisions": counted.decisions,
        "classes": dict(sorted(counted.classes.items())),
        "answers": {
            answer: dict(sorted(classes.items())) for answer, classes in sorted(counted.answers.items())
        },
        "ended": counted.ended,
        "transactions": counted.transactions,
        "shown": dict(sorted(counted.shown.items())),
        "disputed": counted.disputed,
        "disputed_quads": counted.disputed_quads,
    }
