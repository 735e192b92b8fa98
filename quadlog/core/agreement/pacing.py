"""When to post, and the clock that pairs are stamped with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.messages import Now

if TYPE_CHECKING:
    from quadlog.core.messages import Pace

LOGICAL_BITS: Final = 16


class Clock:
    """A hybrid logical clock: above all that it read or was told of, and not behind the wall."""

    def __init__(self, counter: int) -> None:
        """Continue behind what was saved."""
        self.counter = counter
        self.now = Now(float("-inf"), 0)

    def stamp(self) -> int:
        """The next reading."""
        self.counter = max(self.counter + 1, self.now.wall << LOGICAL_BITS)
        return self.counter

    def pass_by(self, highest: int) -> None:
        """Somebody else has read so much."""
        self.counter = max(self.counter, highest)


class Pacing:
    """At once on news, a little later for a new merge base alone, else seldom.  Times are steady milliseconds."""

    def __init__(self, pace: Pace) -> None:
        """The first thing that a master does is to speak."""
        self._pace: Final = pace
        self._posted_at = float("-inf")
        self._tended_at = float("-inf")
        self._has_news, self._has_moved = True, False
        self.has_more = False
        """There is more to be added at once."""

    def tell(self) -> None:
        """There is something to be said."""
        self._has_news = True

    def move(self) -> None:
        """The merge base is another one."""
        self._has_moved = True

    def posted(self, now: float) -> None:
        """All that there is to say was said."""
        self._posted_at, self._has_news, self._has_moved = now, False, False

    @property
    def post_at(self) -> float:
        """When the next post is due."""
        if self._has_news:
            return self._posted_at + self._pace.window
        return self._posted_at + (self._pace.settle if self._has_moved else self._pace.idle)

    def tended(self, now: float) -> None:
        """The membership was looked after."""
        self._tended_at = now

    def tend_soon(self) -> None:
        """The membership is to be looked after at the next occasion."""
        self._tended_at = float("-inf")

    @property
    def tend_at(self) -> float:
        """When the membership is to be looked after again."""
        return self._tended_at + min(self._pace.lag / 20, self._pace.idle)

    @property
    def wake_at(self) -> float:
        """When something is due."""
        return float("-inf") if self.has_more else min(self.post_at, self.tend_at)
