"""Limits of the log: up to which entry a data centre's topics may be shortened, and which readers keep them longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SLACK: Final = 100
"""Entries kept before the lowest index that a reader reports: a reported index is newer than the saved one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """Configured limits of the log; None: no such limit."""

    size: int | None = None
    """Number of entries."""
    depth_s: float | None = None
    """Age of the oldest entry, in seconds."""
    hard_size: int | None = None
    """Number of entries above which the log waits for no worker: a worker that lacks entries will take a copy."""

    @property
    def is_any(self) -> bool:
        """True if the log is ever shortened."""
        return self.size is not None or self.depth_s is not None


@dataclass(frozen=True, slots=True)
class Needs:
    """Index up to which each reader has the log, by name."""

    workers: Mapping[str, int]
    """Workers and the newest backups: above the hard limit the log does not wait for them."""
    others: Mapping[str, int]
    """Readers that cannot take a copy: masters, and what may still be cut."""


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Part of the log that may be deleted."""

    index: int
    """Index of the last entry that is not needed."""
    kept_by: tuple[str, ...] = ()
    """Names of the readers that need more entries than the limits keep."""


def cutoff(last: int, older: int, limits: LogLimits, needs: Needs) -> Cutoff:
    """Return which entries may be deleted: those that are beyond a limit and that no reader needs.

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
        limits: the configured limits.
        needs: the index of each reader.

    """
    beyond = max(older, last - limits.size if limits.size is not None else 0)
    least = last - limits.hard_size if limits.hard_size is not None else 0
    stays = {who: max(index - SLACK, least) for who, index in needs.workers.items()}
    stays |= {who: index - SLACK for who, index in needs.others.items()}
    kept_by = tuple(sorted(who for who, index in stays.items() if index < beyond))
    return Cutoff(max(0, min([beyond, *stays.values()])), kept_by)
