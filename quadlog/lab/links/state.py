"""State of the links: the cut routes, and the latency and rate of each link.  Pure values."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from quadlog.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

Pair = tuple[str, str]
"""A link: two data centres, in the lab's order."""
Route = tuple[str, str]
"""(opener, target)."""

MOST_LATENCY_MS = 60_000.0
"""Maximum latency, in ms: after a minute every client has given up, as with a cut."""
LEAST_RATE_MBIT = 0.01
"""Minimum rate, in Mbit/s: below it one packet takes more than a second, which is like a cut, too."""


def routes_of(pair: Pair) -> tuple[Route, Route]:
    """Return the two routes of a link."""
    one, other = pair
    return (one, other), (other, one)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Delay and rate of each direction of a link; 0 means no delay and no limit."""

    latency_ms: float = 0.0
    rate_mbit: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksState:
    """The state of all links of a lab.

    >>> state = LinksState(dcs=("dc1", "dc2", "dc3")).cut("dc1", "dc2", one_way=True)
    >>> state.cuts  # what dc1 says is on dc1's broker: dc2 must not read there
    frozenset({('dc2', 'dc1')})
    >>> state.with_quality("dc3", "dc1", latency_ms=40).quality(("dc1", "dc3"))
    Quality(latency_ms=40, rate_mbit=0.0)
    """

    dcs: tuple[str, ...]
    cuts: frozenset[Route] = frozenset()
    qualities: Mapping[Pair, Quality] = field(default_factory=dict[Pair, Quality])

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All links."""
        return tuple(combinations(self.dcs, 2))

    def quality(self, pair: Pair) -> Quality:
        """Return the latency and rate of a link."""
        return self.qualities.get(pair, Quality())

    def pair(self, first: str, second: str) -> Pair:
        """Return the link between two data centres.

        Raises:
            UserError: there is no such link.

        """
        for dc in (first, second):
            if dc not in self.dcs:
                raise UserError(f"the lab has no data centre {dc}; it has {', '.join(self.dcs)}")
        if first == second:
            raise UserError(f"{first} has no link to itself: name two data centres of {', '.join(self.dcs)}")
        one, other = sorted((first, second), key=self.dcs.index)
        return one, other

    def cut(self, first: str, second: str, *, one_way: bool = False) -> LinksState:
        """Cut both routes between two data centres; with `one_way`, no record of `first` reaches `second`.

        Masters receive records by reading the broker of the other data centre, so `one_way` cuts the connections that
        `second` opens to `first`.  Existing cuts remain.
        """
        self.pair(first, second)
        routes = {(second, first)} if one_way else {(first, second), (second, first)}
        return replace(self, cuts=self.cuts | routes)

    def heal(self, first: str, second: str) -> LinksState:
        """End all cuts between two data centres; latency and rate do not change."""
        self.pair(first, second)
        return replace(self, cuts=self.cuts - {(first, second), (second, first)})

    def heal_all(self) -> LinksState:
        """End all cuts."""
        return replace(self, cuts=frozenset())

    def with_quality(
        self, first: str, second: str, *, latency_ms: float | None = None, rate_mbit: float | None = None
    ) -> LinksState:
        """Change latency, rate or both; None leaves a value unchanged.

        Raises:
            UserError: a value is negative, not finite, or outside of the limits.

        """
        pair = self.pair(first, second)
        known = self.quality(pair)
        wanted = Quality(
            latency_ms=known.latency_ms if latency_ms is None else latency_ms,
            rate_mbit=known.rate_mbit if rate_mbit is None else rate_mbit,
        )
        if not 0 <= wanted.latency_ms <= MOST_LATENCY_MS:  # also refuses nan
            raise UserError(f"a latency is 0 to {MOST_LATENCY_MS:.0f} ms, not {wanted.latency_ms:g}")
        if not (wanted.rate_mbit == 0 or LEAST_RATE_MBIT <= wanted.rate_mbit < math.inf):
            raise UserError(
                f"a rate is {LEAST_RATE_MBIT:g} Mbit/s or more, or 0 for no limit, not {wanted.rate_mbit:g}"
            )
        return replace(self, qualities={**self.qualities, pair: wanted})

    def to_json(self) -> str:
        """Return the text that `from_json` reads."""
        links = [
            {"link": pair, "latency_ms": quality.latency_ms, "rate_mbit": quality.rate_mbit}
            for pair, quality in self.qualities.items()
        ]
        return json.dumps({"cuts": sorted(self.cuts), "links": links}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, dcs: tuple[str, ...]) -> LinksState:
        """Read the text of `to_json`; raises ValueError, KeyError or TypeError if it is not valid."""
        values: dict[str, Any] = json.loads(text)
        qualities = {
            (one, other): Quality(latency_ms=link["latency_ms"], rate_mbit=link["rate_mbit"])
            for link in values["links"]
            for one, other in [link["link"]]
        }
        cuts = frozenset((opener, target) for opener, target in values["cuts"])
        return cls(dcs=dcs, cuts=cuts, qualities=qualities)
