"""Room for the bodies of open requests: a request that does not fit is refused before anything is logged."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from quadlog.errors import Unavailable
from quadlog.settings.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

REQUEST: Final = 16 * 1024
"""Bytes that an open request needs in addition to its body: connection, task, waiter."""

RETRY_AFTER: Final = 2
"""Seconds after which a client may try again: in a healthy cluster, requests end much sooner."""


class BodyBudget:
    """Bytes for all open requests of one master.  Used by its HTTP loop only."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes for all requests together."""
        self._limit, self._taken = limit, 0

    @contextmanager
    def lease(self) -> Generator[Callable[[int], None]]:
        """Provide room for one request until it ends, however it ends; yield a function that occupies more bytes.

        Raises:
            Unavailable: there is no room, also for more bytes; nothing of this request was logged.

        """
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            if self._taken + size > self._limit:
                raise Unavailable(
                    f"open requests hold {self._taken / MIB:.0f} MiB of max-open-requests-size"
                    f" ({self._limit / MIB:.0f} MiB); nothing of this one was logged. Send fewer at once, or try again",
                    retry_after=RETRY_AFTER,
                )
            self._taken += size
            held += size

        try:
            grow(REQUEST)
            yield grow
        finally:
            self._taken -= held
