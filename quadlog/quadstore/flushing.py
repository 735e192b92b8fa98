"""Flushing: what pyoxigraph keeps in memory is written out beside what goes on, and the memory given back.

RocksDB fills tables of 128 MB, six of them for the quads, before it writes them out by itself.  A lookup and an
insertion in a full one take twice as long as in a small one, and glibc keeps what they took: 1.3 GB in a worker of
100,000 quads.  Written out after each tenth of the quads that there are, they stay small, and no more is merged on disk
than pays (``docs/performance.md``).
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
"""Lines, however few quads there are."""
SHARE: Final = 10
"""Of the quads that there are: what is written out is merged with them."""


class Flushing:
    """Of one store; by a thread of its own, one at a time."""

    def __init__(
        self, flush: Callable[[], None], note: Callable[[BaseException], object] = lambda _: None
    ) -> None:
        """Nothing is in memory.

        Args:
            flush: writes out all that is; raises what keeps it from that.
            note: is told of that.

        """
        self._flush, self._note = flush, note
        self._lines = 0
        self._thread: threading.Thread | None = None

    def changed(self, lines: int, quads: int) -> None:
        """So many lines came or went by a commit, and so many quads are there: begin, if it is time."""
        self._lines += lines
        if self._lines < max(LEAST, quads // SHARE) or (self._thread and self._thread.is_alive()):
            return
        self._lines = 0
        self._thread = threading.Thread(target=self._run, name="flushing", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._flush()
        except (OSError, RuntimeError) as error:  # who commits next is told the same, and ends the process
            logger().warning("flush_failed", reason=str(error))
            self._note(error)
            return
        give_back()

    def close(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None:
            self._thread.join()


def give_back() -> None:
    """Memory that was let go of goes back to the system, where glibc keeps it."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
