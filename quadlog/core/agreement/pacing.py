"""The times at which to post, and the clock for the timestamps of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.core.messages import Now

if TYPE_CHECKING:
    from collections.abc import Callable

    from quadlog.core.messages import PostingPace

LOGICAL_BITS: Final = 16


class Clock:
    """A hybrid logical clock: above all its own and all received readings, and never below the wall clock."""

    def __init__(self, counter: int) -> None:
        """Continue after the saved counter."""
        self.counter = counter
        self.now = Now(float("-inf"), 0)

    def stamp(self) -> int:
        """Return the next reading."""
        self.counter = max(self.counter + 1, self.now.wall << LOGICAL_BITS)
        return self.counter

    def pass_by(self, highest: int) -> None:
        """Advance the clock to a reading of another master."""
        self.counter = max(self.counter, highest)


class Pacing:
    """Pace of posts: soon after news, later for a new merge base alone, else rarely.  Times are steady milliseconds."""

    def __init__(self, pace: PostingPace, lag: Callable[[], float]) -> None:
        """Start with a post due; `lag`: returns the silence after which a member of the view is given up."""
        self._pace: Final = pace
        self._lag: Final = lag
        self._posted_at = float("-inf")
        self._tended_at = float("-inf")
        self._has_news, self._has_moved = True, False
        self.has_more = False
        """True if there are more entries to add at once."""

    @property
    def idle(self) -> float:
        """Milliseconds between the posts of a master that has no news."""
        return self._pace.idle

    def note_news(self) -> None:
        """Note that there is news to post."""
        self._has_news = True

    def move(self) -> None:
        """Note that the merge base has changed."""
        self._has_moved = True

    def posted(self, now: float) -> None:
        """Note that all news was posted."""
        self._posted_at, self._has_news, self._has_moved = now, False, False

    @property
    def post_at(self) -> float:
        """Time at which the next post is due."""
        if self._has_news:
            return self._posted_at + self._pace.window
        return self._posted_at + (self._pace.settle if self._has_moved else self._pace.idle)

    def tended(self, now: float) -> None:
        """Note that the membership was updated."""
        self._tended_at = now

    def tend_soon(self) -> None:
        """Make the next update of the membership due at once."""
        self._tended_at = float("-inf")

    @property
    def tend_at(self) -> float:
        """Time at which the next update of the membership is due."""
        return self._tended_at + min(self._lag() / 20, self._pace.idle)

    @property
    def wake_at(self) -> float:
        """Time at which the next action is due."""
        return float("-inf") if self.has_more else min(self.post_at, self.tend_at)
