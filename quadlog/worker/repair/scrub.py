"""The scrub: recounts all stored quads at intervals, slowly.

Signatures follow the effects, and do not show changes of the files that bypass the store.  So a copy of the
store is made (hard links: milliseconds), another process counts it (`recount.py`), and the result is compared
with the signature that was applied when the copy was made.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from quadlog.child_process import ChildTask
from quadlog.clock import wall
from quadlog.core.effects.signature import as_bytes
from quadlog.core.records import Scrub
from quadlog.errors import QuadlogError, StoreDamaged
from quadlog.quadstore.quaddir import FILES

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.quadstore.applied import Applied
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.repair.health import Health

log = structlog.get_logger()

FIRST_S: Final = 60.0
"""Seconds from a start to the first scrub, at most; or the period, if that is shorter.

Changes made while the worker was stopped must be found soon, but not while a whole cluster starts.
"""

AGAIN_S: Final = 60.0
"""Seconds from a scrub that failed to the next one, unless the period is shorter."""


class Scrubber:
    """The thread of the scrub, which mostly sleeps, and its process."""

    def __init__(
        self, store: QuadStore, directory: Path, health: Health, *, period: float, share: float
    ) -> None:
        """Prepare; nothing is counted before `start`.

        `directory`, for the copy, is on the store's file system, and its contents are removed.  `period`: seconds
        from one scrub to the next; 0: no scrubs.  `share`: share of a core that counting may take.
        """
        self._store, self._directory, self._health = store, directory, health
        self._period, self._share = period, share
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._ended = float("-inf")
        self._process: ChildTask | None = None
        self._thread = threading.Thread(target=self._run, name="scrub", daemon=True)

    def start(self) -> None:
        """Start the scrubs, and remove a copy that a killed process left."""
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._period:
            self._thread.start()

    def stop(self) -> None:
        """End the thread and its process."""
        self._stopping.set()
        self._woken.set()
        if (process := self._process) is not None:
            process.kill()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def soon(self) -> None:
        """Scrub now, unless a scrub is running or ended not long ago.  May be called on any thread."""
        if time.monotonic() - self._ended > AGAIN_S:
            self._woken.set()

    def _run(self) -> None:
        # Workers that started together must not all count at once.
        pause = min(self._period, FIRST_S) * random.uniform(0.5, 1)  # noqa: S311 - no secret
        while not self._is_stopped_within(pause):
            try:
                self._health.scrub = self.scrub()
                self._health.scrub_failure = ""
                pause = self._period
            except (OSError, RuntimeError, ValueError, QuadlogError) as error:
                if self._store.damage.note(error):
                    return
                pause = min(self._period, AGAIN_S)
                if self._stopping.is_set():
                    return
                self._health.scrub_failure = f"what is stored could not be recounted: {error}"
                log.warning("scrub_failed", reason=str(error), again_in_s=pause)
            self._ended = time.monotonic()
            self._woken.clear()  # this scrub answers doubts that arose meanwhile

    def _is_stopped_within(self, pause: float) -> bool:
        if not self._stopping.is_set():  # the scrub before may have cleared the event that `stop` set
            self._woken.wait(pause)
        self._woken.clear()
        return self._stopping.is_set()

    def scrub(self) -> Scrub:
        """Make a copy, count it, and compare the signatures.

        Raises:
            OSError: no copy could be made; is the disk full?
            RuntimeError: the store cannot be copied.
            Unavailable: there was no moment at which nothing was anticipated in the store.
            StateError: the counting process failed.
            ValueError: the copy could not be read to its end.
            StoreDamaged: files of the store are damaged.

        """
        try:
            applied = self._copy()
            counted = self._count()
            self._refuse_unread(counted["unreadable"])
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)
        found = Scrub(
            index=applied.index,
            at=wall(),
            expected=as_bytes(applied.signature),
            found=bytes.fromhex(counted["signature"]),
            quads=counted["quads"],
            rewound=applied.rewound,
        )
        if found.found == found.expected:
            log.info("scrub_passed", index=found.index, **counted)
        else:
            log.error("scrub_mismatch_found", index=found.index, **counted)
        return found

    def _copy(self) -> Applied:
        """Copy the store; raise StoreDamaged if that shows damage.

        A compaction in the background may have met the damage before; then no copy can be made any more.
        """
        try:
            return self._store.copy(self._directory)
        except RuntimeError as error:
            if self._store.damage.note(error):
                raise StoreDamaged(str(error)) from error
            raise

    def _refuse_unread(self, why: str) -> None:
        if why and self._store.damage.note(why, self._directory / FILES):
            raise StoreDamaged(why)
        if why:
            message = f"the copy could not be read to its end: {why}"
            raise ValueError(message)

    def _count(self) -> dict[str, Any]:
        with ChildTask(
            "quadlog.worker.repair.recount", str(self._directory), str(self._share)
        ) as self._process:
            counted: dict[str, Any] = self._process.result()
        self._process = None
        return counted
