"""Flushing: a thread writes pyoxigraph's tables in memory to disk, and returns the memory to the system.

RocksDB fills tables of 128 MB, six of them for the quads, before it writes them out on its own.  A lookup and an
insertion in a full table take twice as long as in a small one, and glibc keeps the memory of the tables: 1.3 GB in a
worker of 100,000 quads.  If tables are written out whenever a tenth of the quads has changed, they stay small, and no
more is merged on disk than is worthwhile (``docs/performance.md``).
"""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from quadlog.lean import logger

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST: Final = 100_000
"""Minimum changed lines before a flush, however few quads there are."""
SHARE: Final = 10
"""A flush is due when one in `SHARE` of the quads has changed: what is written out is merged with the quads."""


class Flushing:
    """Flushes of one store in a separate thread, one at a time."""

    def __init__(
        self, flush: Callable[[], None], note: Callable[[BaseException], object] = lambda _: None
    ) -> None:
        """Start with nothing in memory; `note` is called with the OSError or RuntimeError that `flush` raises."""
        self._flush, self._note = flush, note
        self._lines = 0
        self._thread: threading.Thread | None = None

    def changed(self, lines: int, quads: int) -> None:
        """Count the lines that a commit changed, and start a flush if it is due; `quads`: number of all quads."""
        self._lines += lines
        if self._lines < max(LEAST, quads // SHARE) or (self._thread and self._thread.is_alive()):
            return
        self._lines = 0
        self._thread = threading.Thread(target=self._run, name="flushing", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._flush()
        except (OSError, RuntimeError) as error:  # the next commit fails with it, and ends the process
            logger().warning("flush_failed", reason=str(error))
            self._note(error)
            return
        give_back()

    def close(self) -> None:
        """Wait for the flush in progress."""
        if self._thread is not None:
            self._thread.join()


def give_back() -> None:
    """Return freed memory to the system if the C library is glibc, which keeps it otherwise."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
