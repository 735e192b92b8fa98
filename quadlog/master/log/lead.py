"""The lead: which master of a data centre writes what one of them has to write.

The agreed topic, the copies of the peers' payloads and of the effects, and the appointment of the
evaluating worker: one master does it, the others of the same data centre stand by.  It is the one with
the lowest id among those that are heard; whoever is silent for longer than `patience` is passed over.

Two may think for a moment that it is theirs.  That costs records, never an order: both say the same
entries under the same indexes, and consumers take the first of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Lead:
    """Times are milliseconds of the steady clock.

    >>> lead = Lead("dc1-m2", ["dc1-m1", "dc1-m2"], patience_ms=2000)
    >>> lead.is_mine({}, now=0.0), lead.is_mine({}, now=2500.0)
    (False, True)
    >>> lead.is_mine({"dc1-m1": 2600.0}, now=2700.0)
    False
    """

    def __init__(self, node: str, masters: Sequence[str], *, patience_ms: float) -> None:
        """`masters`: all of this data centre, `node` among them."""
        self._before: Final = sorted(master for master in masters if master < node)
        self._patience: Final = patience_ms
        self._since: float | None = None
        self.has_company: Final = len(masters) > 1
        """Are there other masters in this data centre?"""

    def is_mine(self, heard_at: Mapping[str, float], now: float) -> bool:
        """Is it this master's turn, from when the others were heard last?

        Who was not heard at all yet has been silent since this was asked first.
        """
        if self._since is None:
            self._since = now
        since = self._since
        return all(now - heard_at.get(master, since) > self._patience for master in self._before)
