"""Stall detection: how long records may wait although other records pass through the same broker."""

from __future__ import annotations

from typing import Final

AFTER_MS: Final = 300.0
"""Minimum time from the beginning of the wait to a proof that the broker works, and from the proof to the deadline.

A broker that was unavailable and has returned accepts the waiting records within this time.
"""


class StallDetector:
    """Limit of one wait.  All times are milliseconds of one clock.

    >>> patience = StallDetector(1000.0)
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
        """`patience`: maximum duration of a wait."""
        self._patience: Final = patience
        self._since: float | None = None
        self._proved_at: float | None = None

    def is_over(self, moment: float, *, since: float | None, proof_at: float) -> bool:
        """Return whether the wait has lasted too long.

        `since`: beginning of the wait; None if nothing waits.  `proof_at`: time of the last proof, which is another
        record that passed through the broker.
        """
        if since != self._since:
            self._since, self._proved_at = since, None
        if since is None:
            return False
        if self._proved_at is None and proof_at >= since + AFTER_MS:
            self._proved_at = proof_at
        proved_at = self._proved_at
        return proved_at is not None and moment - since >= self._patience and moment - proved_at >= AFTER_MS
