"""Room for the bodies of open requests: a request that does not fit is refused before anything is logged."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quadlog.errors import Unavailable
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from collections.abc import Generator

REQUEST: Final = 16 * 1024
"""Bytes that an open request needs in addition to its body: connection, task, waiter."""

RETRY_AFTER: Final = 2
"""Seconds after which a client may try again: in a healthy cluster, requests end much sooner."""


@dataclass(slots=True)
class BodyLease:
    """Bytes that one request occupies."""

    body_budget: BodyBudget
    size: int = 0

    def grow(self, size: int) -> None:
        """Occupy `size` more bytes.

        Raises:
            Unavailable: there is no room; nothing of this request was logged.

        """
        self.body_budget.acquire(size)
        self.size += size


class BodyBudget:
    """Bytes for all open requests of one master.  Used by its HTTP loop only."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes for all requests together."""
        self._limit, self._taken = limit, 0

    @contextmanager
    def lease(self) -> Generator[BodyLease]:
        """Provide room for one request, which is released when the request ends, however it ends."""
        lease = BodyLease(self)
        try:
            lease.grow(REQUEST)
            yield lease
        finally:
            self._taken -= lease.size

    def acquire(self, size: int) -> None:
        """Occupy bytes for a lease.

        Raises:
            Unavailable: there is no room.

        """
        if self._taken + size > self._limit:
            message = (
                f"open requests hold {self._taken / MIB:.0f} MiB of max-open-requests-size"
                f" ({self._limit / MIB:.0f} MiB); nothing of this one was logged. Send fewer at once, or try again"
            )
            raise Unavailable(message, retry_after=RETRY_AFTER)
        self._taken += size
