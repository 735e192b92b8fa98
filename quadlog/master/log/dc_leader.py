"""The lead: which master of a data centre performs the tasks that only one of them must perform.

These are writing the agreed topic, copying the peers' payloads and the effects, and appointing the evaluating
worker.  One master does this; the others of the same data centre stand by.  It is the one with the lowest id
among those that are heard; a master that is silent for longer than `patience` is skipped.

Two masters may both lead for a moment.  That costs records, but does not affect the order: both write the
same entries under the same indexes, and consumers use the first of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class DcLeader:
    """Determines whether this master leads.  Times are milliseconds of the steady clock.

    >>> lead = DcLeader("dc1-m2", ["dc1-m1", "dc1-m2"], patience_ms=2000)
    >>> lead.is_mine({}, now=0.0), lead.is_mine({}, now=2500.0)
    (False, True)
    >>> lead.is_mine({"dc1-m1": 2600.0}, now=2700.0)
    False
    """

    def __init__(self, node: str, masters: Sequence[str], *, patience_ms: float) -> None:
        """`masters`: all masters of this data centre, including `node`."""
        self._before: Final = sorted(master for master in masters if master < node)
        self._patience: Final = patience_ms
        self._since: float | None = None
        self.has_company: Final = len(masters) > 1
        """True if there are other masters in this data centre."""

    def is_mine(self, heard_at: Mapping[str, float], now: float) -> bool:
        """Return whether this master leads, from the times at which the others were last heard.

        A master that was never heard counts as silent since the first call.
        """
        if self._since is None:
            self._since = now
        since = self._since
        return all(now - heard_at.get(master, since) > self._patience for master in self._before)
