"""Which way a worker catches up: what each would take, and when the other one replaces the log's own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIN_S: Final = 600.0
"""Seconds that the incremental way has to take before another one is considered."""
FACTOR: Final = 1.3
"""How many times as long it has to take as the other one."""


class Way(StrEnum):
    """How a worker comes to the end of the log."""

    INCREMENTAL = "incremental"
    """Effect by effect."""
    COMPACTED = "compacted"
    """All that is missing as one change, by Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Of this worker, as it measured them; before that, guesses from two slow cores."""

    incremental: float = 10_000.0
    """Effects/s."""
    compacted: float = 40_000.0
    """Effects/s, with the loading of what they come to."""
    start_s: float = 15.0
    """Until Spark is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is done, and why."""

    way: Way
    reason: str


def choose(behind: int, rates: Rates, *, least_s: float = MIN_S, factor: float = FACTOR) -> Choice:
    """By the documented rule, which is for copies and holds for bundles as well.

    >>> choose(1_000, Rates()).reason
    'incremental takes 0 s, compacted 15 s: not above 600 s'
    >>> choose(10_000_000, Rates()).reason
    'incremental takes 1000 s, compacted 265 s: above 600 s and above 1.3 times as long'
    >>> choose(10_000_000, Rates(compacted=11_000.0)).way
    <Way.INCREMENTAL: 'incremental'>
    >>> choose(1_000_000, Rates(), least_s=0, factor=1).way
    <Way.COMPACTED: 'compacted'>

    Args:
        behind: effects that are missing.
        rates: of this worker.
        least_s: `min-time-to-consider-full-replication`.
        factor: `full-replication-time-factor`.

    """
    incremental = behind / rates.incremental
    compacted = rates.start_s + behind / rates.compacted
    times = f"incremental takes {incremental:.0f} s, compacted {compacted:.0f} s"
    if incremental <= least_s:
        return Choice(way=Way.INCREMENTAL, reason=f"{times}: not above {least_s:g} s")
    if incremental <= compacted * factor:
        return Choice(way=Way.INCREMENTAL, reason=f"{times}: not above {factor:g} times as long")
    return Choice(
        way=Way.COMPACTED, reason=f"{times}: above {least_s:g} s and above {factor:g} times as long"
    )
