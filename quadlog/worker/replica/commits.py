"""Commits of a worker's store: while one runs, the records after it may be received and prepared.

Half of the time of a batch is spent in the store, without Python's lock.  A worker that is behind, and has no
duty, prepares the next batch during that time.  Only one commit runs at a time, in the order of the log.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from quadlog.failpoints import Failpoint, visit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from pyoxigraph import Quad

    from quadlog.core.effects.control import ControlChange
    from quadlog.quadstore.applied import Applied
    from quadlog.quadstore.commit import UpdateTexts
    from quadlog.quadstore.quadstore import QuadStore


class Commits:
    """Commits of one store.  Used only by the replica's thread; before any other use of the store, call `wait`."""

    def __init__(self, store: QuadStore) -> None:
        """Commit on the calling thread only, until `begin`."""
        self._store = store
        self._aside: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None
        self._last = store.applied

    def begin(self) -> None:
        """Allow a commit to run on another thread from now on."""
        self._aside = ThreadPoolExecutor(1, "commits")

    def close(self) -> None:
        """Wait for the running commit, and end the thread."""
        self.wait()
        if self._aside is not None:
            self._aside.shutdown()

    @property
    def last(self) -> Applied:
        """State that the store has applied, or will have applied after the running commit."""
        return self._store.applied if self._under_way is None else self._last

    def wait(self) -> None:
        """Wait for the running commit.

        Raises:
            Exception: the error that the store raised in that commit.

        """
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()
            visit(Failpoint.AFTER_APPLY)

    def commit(
        self,
        updates: UpdateTexts,
        applied: Applied,
        *,
        anticipated: Sequence[Quad],
        controls: Sequence[ControlChange],
        aside: bool,
    ) -> None:
        """Apply the next batch, after the running commit; parameters as of `QuadStore.apply`.

        `aside`: the commit may still run on return.
        """
        self.wait()
        if aside and self._aside is not None and updates.pieces is None and not self._store.is_ahead:
            self._last = applied
            self._under_way = self._aside.submit(
                self._store.apply_updates, updates, applied, anticipated=anticipated, controls=controls
            )
            return
        self._store.apply_updates(updates, applied, anticipated=anticipated, controls=controls)
        visit(Failpoint.AFTER_APPLY)
