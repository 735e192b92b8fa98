"""The log's limits: up to which entry the topics of a data centre may be shortened, and who keeps them longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SLACK: Final = 100
"""Entries that stay before all that anybody says to need: what is said is newer than what is saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """As they are set; None: there is no such limit."""

    size: int | None = None
    """Entries."""
    depth_s: float | None = None
    """Age of the oldest one, in seconds."""
    hard_size: int | None = None
    """Entries above which no worker is waited for any more: it will take a copy."""

    @property
    def is_any(self) -> bool:
        """Whether the log is ever shortened."""
        return self.size is not None or self.depth_s is not None


@dataclass(frozen=True, slots=True)
class Needs:
    """Up to which index somebody has the log, by name."""

    workers: Mapping[str, int]
    """And the newest backups: those who are not waited for above the hard limit."""
    others: Mapping[str, int]
    """Those who cannot take a copy: masters, and what may still be cut."""


@dataclass(frozen=True, slots=True)
class Cutoff:
    """What may go."""

    index: int
    """Of the last entry that is not needed."""
    kept_by: tuple[str, ...] = ()
    """Who keeps more than the limits ask for."""


def cutoff(last: int, older: int, limits: LogLimits, needs: Needs) -> Cutoff:
    """Up to where the log may go: what is beyond a limit, and nobody needs.

    >>> limits = LogLimits(size=1_000, hard_size=5_000)
    >>> cutoff(10_000, 0, limits, Needs({"w1": 9_900}, {"settled": 9_990}))
    Cutoff(index=9000, kept_by=())
    >>> cutoff(10_000, 0, limits, Needs({"w1": 7_000, "w2": 9_990}, {"settled": 9_990}))
    Cutoff(index=6900, kept_by=('w1',))
    >>> cutoff(10_000, 0, limits, Needs({"w1": 7}, {"settled": 9_990}))
    Cutoff(index=5000, kept_by=('w1',))
    >>> cutoff(10_000, 0, limits, Needs({}, {"settled": 0}))
    Cutoff(index=0, kept_by=('settled',))
    >>> cutoff(10_000, 800, LogLimits(depth_s=60.0), Needs({}, {}))
    Cutoff(index=800, kept_by=())

    Args:
        last: index of the newest entry.
        older: index of the newest entry that is older than `limits.depth_s`; 0: none is.
        limits: as they are set.
        needs: who has what.

    """
    beyond = max(older, last - limits.size if limits.size is not None else 0)
    least = last - limits.hard_size if limits.hard_size is not None else 0
    stays = {who: max(index - SLACK, least) for who, index in needs.workers.items()}
    stays |= {who: index - SLACK for who, index in needs.others.items()}
    kept_by = tuple(sorted(who for who, index in stays.items() if index < beyond))
    return Cutoff(max(0, min([beyond, *stays.values()])), kept_by)
