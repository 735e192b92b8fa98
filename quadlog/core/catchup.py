"""Choice of the way in which a worker catches up, by the estimated time of each way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIN_S: Final = 600.0
"""Seconds that the incremental way must take before another way is considered."""
FACTOR: Final = 1.3
"""How many times as long as the other way the incremental way must take."""


class CatchUpMethod(StrEnum):
    """Ways in which a worker reaches the end of the log."""

    INCREMENTAL = "incremental"
    """Effect by effect."""
    COMPACTED = "compacted"
    """All missing effects as one change, computed by Spark."""
    FULL = "full"
    """Another worker's whole store, or a backup of one."""


SPEED: Final = 104_857_600.0
"""Bits/s of the network, before any copy was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates that this worker has measured; before that, guesses from two slow cores."""

    incremental: float = 20_000.0
    """Effects/s."""
    compacted: float = 80_000.0
    """Effects/s, including the loading of the result."""
    start_s: float = 8.0
    """Seconds until Spark has started."""
    copied: float = SPEED
    """Bits/s of another worker's store, until it is served."""
    restored: float = SPEED
    """Bits/s of a backup, until it is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen way and the reason for it."""

    way: CatchUpMethod
    reason: str


ASKING_S: Final = 0.2
"""Seconds until the first byte of a copy arrives, however small it is: the donor first creates the copy."""


def choose(
    behind: int,
    rates: Rates,
    *,
    size: int | None = None,
    left: int = 0,
    is_backup: bool = False,
    is_empty: bool = False,
    least_s: float = MIN_S,
    factor: float = FACTOR,
) -> Choice:
    """Choose by the documented rule: the faster one of the other two ways, if the incremental way takes too long.

    A worker that has applied nothing loses nothing by a copy or a bundle: it uses the fastest way.

    >>> choose(1_000, Rates()).reason
    'incremental takes 0 s, compacted 8 s: not above 600 s'
    >>> choose(20_000_000, Rates()).reason
    'incremental takes 1000 s, compacted 258 s: above 600 s and above 1.3 times as long'
    >>> choose(20_000_000, Rates(), size=1_000_000_000).reason
    'incremental takes 1000 s, compacted 258 s, full 76 s: above 600 s and above 1.3 times as long'
    >>> choose(20_000_000, Rates(compacted=22_000.0)).way
    <CatchUpMethod.INCREMENTAL: 'incremental'>
    >>> choose(1_000_000, Rates(), least_s=0, factor=1).way
    <CatchUpMethod.COMPACTED: 'compacted'>
    >>> choose(100_000, Rates(), size=10_000_000, is_empty=True).way
    <CatchUpMethod.FULL: 'full'>
    >>> choose(20_000_000, Rates(), size=1_000_000_000, left=18_000_000, is_backup=True).reason
    'incremental takes 1000 s, compacted 258 s, full 976 s: above 600 s and above 1.3 times as long'

    Args:
        behind: number of missing effects.
        rates: rates of this worker.
        size: bytes of the store that another worker offers, or of a backup; None: there is neither.
        left: number of effects that are missing after that store.
        is_backup: True if that store is a backup.
        is_empty: True if this worker has applied nothing.
        least_s: `min-time-to-consider-full-replication`.
        factor: `full-replication-time-factor`.

    """
    least_s, factor = (0.0, 1.0) if is_empty else (least_s, factor)
    incremental = behind / rates.incremental
    others = {CatchUpMethod.COMPACTED: rates.start_s + behind / rates.compacted}
    if size is not None:
        rate = rates.restored if is_backup else rates.copied
        others[CatchUpMethod.FULL] = ASKING_S + size * 8 / rate + left / rates.incremental
    way, other = min(others.items(), key=lambda item: item[1])
    each = {CatchUpMethod.INCREMENTAL: incremental} | others
    times = ", ".join(f"{name}{' takes' * (not at)} {s:.0f} s" for at, (name, s) in enumerate(each.items()))
    if incremental <= least_s:
        return Choice(way=CatchUpMethod.INCREMENTAL, reason=f"{times}: not above {least_s:g} s")
    if incremental <= other * factor:
        return Choice(way=CatchUpMethod.INCREMENTAL, reason=f"{times}: not above {factor:g} times as long")
    return Choice(way=way, reason=f"{times}: above {least_s:g} s and above {factor:g} times as long")
