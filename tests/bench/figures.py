"""Figures as values: what one run measured, and the median of several."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median_low
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CATCH_UP_LIMIT_S = 2.0
"""Workers that need longer after the end were not carrying the load: the rate would be a loan."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed.

    >>> [percentile([1, 2, 3, 4], share) for share in (0.25, 0.5, 0.51, 1.0)]
    [1, 2, 3, 4]
    """
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Milliseconds."""

    p50: float
    p99: float
    most: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Latencies:
        """Of at least one request."""
        ordered = sorted(one * 1000 for one in seconds)
        return Latencies(p50=percentile(ordered, 0.5), p99=percentile(ordered, 0.99), most=ordered[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One closed loop."""

    clients: int
    updates: int
    seconds: float
    latencies: Latencies
    errors: Counter[str] = field(default_factory=Counter[str])
    generator_cpu: float
    """Share of one core that the clients took."""
    cpu_ms: Mapping[str, float]
    """Milliseconds of CPU for each update, by kind of process."""
    threads_ms: Mapping[str, float]
    """The same, by kind of process and of thread."""
    catch_up_s: float

    @property
    def rate(self) -> float:
        """Updates a second."""
        return self.updates / self.seconds

    @property
    def doubts(self) -> list[str]:
        """Why this run should not be believed."""
        doubts = [f"{count} errors: {what}" for what, count in self.errors.items()]
        if self.catch_up_s > CATCH_UP_LIMIT_S:
            doubts.append(f"workers needed {self.catch_up_s:.1f} s after the end")
        return doubts


def median_run(runs: Sequence[Run]) -> Run:
    """The run whose rate is the median: one that took place, not a mixture."""
    middle = median_low(run.rate for run in runs)
    return next(run for run in runs if run.rate == middle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a part does alone."""

    name: str
    rate: float
    """A second."""
    p50_ms: float
    cpu_ms: float
    """Of this process, for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applying:
    """Updates a second of one worker alone, and of pyoxigraph alone."""

    workload: str
    history: int
    """List appends that the store has behind it."""
    plain: float
    """pyoxigraph's own `update`."""
    bare: float
    """Its own best batch of the same quads."""
    evaluated: float
    asked: float
    """What its store is asked while it evaluates, asked again by nobody else: evaluating cannot be faster."""
    followed: Mapping[int, float]
    """By the number of effects that are there at once."""
