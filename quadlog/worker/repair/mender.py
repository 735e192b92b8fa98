"""Mending: a worker whose store is wrong empties it, and is fed again: by the log, a copy, or a backup.

A master requests it (`master/workers/worker_watch.py`); the worker does it if it can.  Its process ends in order and
restarts with an empty store: nothing of the old process may survive, and reads keep what they use of the old
store until they end.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.broker import beginning_of
from quadlog.clock import wall
from quadlog.errors import Forbidden, Unavailable
from quadlog.set_aside import set_aside

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quadlog.settings import WorkerSettings
    from quadlog.topics import Topics
    from quadlog.worker.repair.health import Health

log = structlog.get_logger()

QUADS: Final = "quads"
"""Name of the store, in a worker's data-dir."""

GIVEN: Final = "copies-out"
SCRUB: Final = "scrub"
"""Directories in a worker's data-dir, for copies that are given to another worker, and for those that are counted."""
FORKS: Final = "forks"
"""Directory in a worker's data-dir for stores from before splits: the log has to be that from which they were fed."""
_WRONG: Final = "quads.wrong"
_LAST: Final = "last-rebuild"


class Mender:
    """Rebuilds a worker, if that is possible."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: Topics,
        health: Health,
        *,
        store: str,
        leave: Callable[[], None],
        is_copied: Callable[[], bool],
    ) -> None:
        """Start without a request.  `leave` ends the process in order, from any thread.

        `is_copied` returns True if another worker or a backup would provide a store.
        """
        self._settings, self._topics, self._store = settings, topics, store
        self._health, self._leave, self._is_copied = health, leave, is_copied
        self.wanted = False
        """True if the process must restart with an empty store."""

    def ask(self, store: str, reason: str, *, is_wanted: bool = False) -> None:
        """Empty a store, if the worker can get another one.

        `is_wanted`: an operator asks for it, however recently the worker was rebuilt.

        Raises:
            Forbidden: it is not the store served here.
            Unavailable: the worker was rebuilt not long ago; or the log's beginning is gone, and no copy is
                available.

        """
        if store != self._store:
            message = f"this worker serves the store {self._store}; {store} was emptied before"
            raise Forbidden(message)
        self._health.mend = self._obstacle(0 if is_wanted else self._settings.rebuild_pause)
        if self._health.mend:
            raise Unavailable(self._health.mend)
        if not self.wanted:
            log.error("rebuild_started", reason=reason)
            self.wanted = True
            self._leave()

    def _obstacle(self, pause: float) -> str:
        since = (wall() - last_rebuild(self._settings.data_dir)) / 1000
        if since < pause:
            return f"it was rebuilt {since:.0f} s ago, and that happens once in {pause:g} s at most"
        for topic in (self._topics.agreed, self._topics.effects):
            if (first := beginning_of(self._settings.kafka, topic)) and not self._is_copied():
                return (
                    f"{topic} begins at offset {first}: what came before was deleted, and no other worker of this data"
                    " centre is there to be copied, and no backup"
                )
        return ""


def last_rebuild(data_dir: Path) -> int:
    """Return the time of the last rebuild, in milliseconds since 1970; 0: there was none."""
    with suppress(OSError, ValueError):
        return int((data_dir / _LAST).read_text())
    return 0


def tidy(data_dir: Path) -> None:
    """Remove what a rebuild left, at the start."""
    shutil.rmtree(data_dir / _WRONG, ignore_errors=True)


def put_aside(data_dir: Path) -> None:
    """Rename the store, so that there is none; the next start removes the renamed one."""
    tidy(data_dir)
    (data_dir / QUADS).rename(data_dir / _WRONG)


def set_damaged_aside(data_dir: Path, error: BaseException | str) -> None:
    """Set a damaged store aside by `set_aside`, and remove copies of its files: the next start has no store."""
    set_aside(data_dir / QUADS, error)
    for copies in (GIVEN, SCRUB):
        shutil.rmtree(data_dir / copies, ignore_errors=True)


def empty(data_dir: Path) -> None:
    """Have the next start begin with an empty store.  A crash between any two steps is harmless."""
    put_aside(data_dir)
    (data_dir / _LAST).write_text(str(wall()))
