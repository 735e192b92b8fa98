"""Patience: how long something may wait while another thing comes that takes the same way."""

from __future__ import annotations

from typing import Final

AFTER_MS: Final = 300.0
"""So long after something began to wait the other thing has to come, and so long before it is too late.

A broker that is away, and back, takes what waits for it within that.
"""


class Patience:
    """Times are milliseconds of one clock.

    >>> patience = Patience(1000.0)
    >>> [patience.is_over(moment, since=0.0, proof_at=500.0) for moment in (900.0, 1000.0)]
    [False, True]
    >>> patience.is_over(3000.0, since=1000.0, proof_at=1200.0)  # maybe nothing comes through
    False
    >>> [patience.is_over(moment, since=1000.0, proof_at=9000.0) for moment in (9000.0, 9300.0)]  # it does again
    [False, True]
    >>> patience.is_over(9300.0, since=None, proof_at=9000.0)
    False
    """

    def __init__(self, patience: float) -> None:
        """`patience`: how long it may wait."""
        self._patience: Final = patience
        self._since: float | None = None
        self._proved_at: float | None = None

    def is_over(self, moment: float, *, since: float | None, proof_at: float) -> bool:
        """Whether it waits for too long.

        Args:
            moment: now.
            since: since when it waits; None: it does not.
            proof_at: when the other thing came last.

        """
        if since != self._since:
            self._since, self._proved_at = since, None
        if since is None:
            return False
        if self._proved_at is None and proof_at >= since + AFTER_MS:
            self._proved_at = proof_at
        proved_at = self._proved_at
        return proved_at is not None and moment - since >= self._patience and moment - proved_at >= AFTER_MS
