"""Read index: up to where a worker must show the log, so that a strict read shows all that was acknowledged before it.

A strict read has a barrier: an entry that was submitted after the read arrived, and that a view with a majority agreed
on.  All that any majority had agreed on by then precedes the barrier (`Agreement.confirms`): entries that were
acknowledged or shown to anybody, and the decisions on those of them that are synchronous.  Without an undecided entry
before the barrier, the read index is that of the barrier.

If there is one, the read does not wait for its decision.  The first undecided entry was not decided when the read
arrived, so it was not acknowledged.  What follows it was not acknowledged either, because evaluation stops before it,
unless its data centre has the effects all the same: on a side without a majority, which sets undecided entries aside,
or because another evaluation found that the entry is not synchronous.  Therefore the read index is the entry before the
first undecided one, or the last entry with an effect in the data centre of any member, under three conditions:

1. The first undecided entry was submitted after the view was installed here.  So no other view agreed on it, and what
   follows it was acknowledged by members of this view only.
2. All members have posted since they appended the barrier, so these posts report the effects of all that they had
   acknowledged when the read arrived.  None of them reports that its effects topic is full: its clients may have been
   answered by effects that are not in the topic yet.
3. No undecided entry before the barrier continues a suspended one.  The log may have a decision on that, which a side
   with a majority acted on before the split: then its effect, which is acknowledged, is shown with the continuation.

Otherwise the read index is that of the barrier, and the read waits for the decision: until the posts arrive, after
another view was installed, after another log was adopted, and after a restart.  For an entry that only its effect shows
to be synchronous all this applies as soon as that is reported; until then the read waits for it as for any entry that
no worker has applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from quadlog.core.agreement.shared import Shared


class ReadIndex:
    """What strict reads must be shown at one master."""

    def __init__(self, shared: Shared) -> None:
        """Start: what was submitted before may have been agreed on in another view."""
        self._progress: Final = shared.progress
        self._local_state: Final = shared.local_state
        self._clock: Final = shared.clock
        self._begun = shared.clock.counter

    def begin_view(self) -> None:
        """Note that a view is installed: all that earlier views may have agreed on has timestamps up to now."""
        self._begun = self._clock.counter

    def behind(self, barrier: int) -> int:
        """Return the index that a worker must show for a strict read.

        `barrier`: index of its barrier, which this master appended in a view that holds a majority.
        """
        undecided = [one for one in self._local_state.limbo.undecided if one.point.index <= barrier]
        if not undecided or any(one.resumes for one in undecided):
            return barrier
        first = undecided[0].point.index
        pair = self._local_state.log.pair_at(first)
        if pair is None or pair.timestamp <= self._begun:
            return barrier
        posts = [member.said for member in self._progress.in_view() or ()]
        effects = [
            post.effects.index
            for post in posts
            if post is not None and post.base.index >= barrier and not post.full
        ]
        if not effects or len(effects) < len(posts):
            return barrier
        return min(barrier, max(first - 1, *effects))
