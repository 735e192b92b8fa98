"""Reachability of other data centres, as seen from here and as reported by others.

A data centre counts as heard as long as posts of its own masters arrive from its own topic, and not by way of
another data centre: a master that has nothing to say posts in every idle round.  Each master lists the data
centres that it does not hear in its posts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quadlog.core.model import Post

STILL_MS: Final = 1000.0
"""Milliseconds between two calls of `update` above which this master itself stood still.

That time does not count as silence of others.
"""


@dataclass(frozen=True, slots=True)
class _LastPost:
    """Relevant part of the newest post of a master."""

    at: float
    incarnation: bytes
    sequence: int
    unheard: tuple[str, ...]


class Reachability:
    """Tracker of which data centres are heard.  Times are steady milliseconds.

    >>> hearing = Reachability("m1", {"m1": "dc1", "m2": "dc2", "m3": "dc3"}, patience_ms=2500)
    >>> hearing.update(0.0)
    >>> hearing.update(600.0), hearing.update(1500.0), hearing.update(2400.0), hearing.unheard
    (None, None, None, ())
    >>> hearing.update(2600.0)
    >>> hearing.unheard
    ('dc2', 'dc3')
    """

    def __init__(self, node: str, dc_of: Mapping[str, str], *, patience_ms: float) -> None:
        """Start with nothing heard and nobody missed; a data centre may be silent for `patience_ms` milliseconds."""
        self._node: Final = node
        self.dc_of: Final = dc_of
        self._others: Final = sorted(set(dc_of.values()) - {dc_of[node]})
        self._patience: Final = patience_ms
        self._heard_at: dict[str, float] = {}
        """Time of the last post that arrived from a data centre's own topic."""
        self._words: dict[str, _LastPost] = {}
        self._looked_at: float | None = None
        self.unheard: tuple[str, ...] = ()
        """Data centres that are out of reach."""
        self.ways: Mapping[str, tuple[str, ...]] = {}
        """For each unheard data centre: the heard ones whose masters do not report it as unheard."""
        self.missed: frozenset[str] = frozenset()
        """Data centres that another master does not hear."""

    def on_post(self, post: Post, moment: float, *, directly: bool) -> None:
        """Process a post that arrived from its own data centre's topic (`directly`) or by way of another one."""
        dc = self.dc_of.get(post.node)
        if dc is None or post.node == self._node:
            return
        if directly:
            self._heard_at[dc] = moment
        known = self._words.get(post.node)
        if known is None or post.incarnation != known.incarnation or post.sequence > known.sequence:
            self._words[post.node] = _LastPost(moment, post.incarnation, post.sequence, post.unheard)

    def heard_at(self, node: str) -> float | None:
        """Return when the last new post of a master arrived, by any way, and whether or not it is a peer."""
        word = self._words.get(node)
        return None if word is None else word.at

    def update(self, moment: float) -> None:
        """Update which data centres are unheard, by which ways they are reached, and which of them others miss."""
        still = 0.0 if self._looked_at is None else moment - self._looked_at
        self._looked_at = moment
        for dc in self._others:
            since = self._heard_at.get(dc, moment)
            self._heard_at[dc] = min(since + still, moment) if still > STILL_MS else since
        self.unheard = tuple(dc for dc in self._others if moment - self._heard_at[dc] > self._patience)
        words = {
            name: word for name, word in self._words.items() if moment - word.at <= self._patience + still
        }
        self.missed = frozenset(dc for word in words.values() for dc in word.unheard)
        self.ways = {dc: tuple(self._ways_to(dc, words)) for dc in self.unheard}

    def _ways_to(self, dc: str, words: Mapping[str, _LastPost]) -> Iterable[str]:
        for way in self._others:
            said = [word.unheard for name, word in words.items() if self.dc_of[name] == way]
            if way not in self.unheard and not any(dc in unheard for unheard in said):
                yield way
