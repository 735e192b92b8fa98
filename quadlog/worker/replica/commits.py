"""Commits of a worker's store: while one is under way, what follows it may be heard and made ready.

Half of the time that a batch takes is the store's, without Python's lock.  A worker that is behind, and has no duty,
uses it: the next batch is put together meanwhile.  There is one commit at a time, in the order of the log.
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
    from quadlog.quadstore.commit import Updates
    from quadlog.quadstore.quadstore import QuadStore


class Commits:
    """Owned by the replica's thread.  Whoever does anything else with the store has what is under way end first."""

    def __init__(self, store: QuadStore) -> None:
        """Each ends before the next thing is done, until `begin`."""
        self._store = store
        self._aside: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None
        self._last = store.applied

    def begin(self) -> None:
        """From now on one may be under way while something else is done."""
        self._aside = ThreadPoolExecutor(1, "commits")

    def close(self) -> None:
        """End what is under way."""
        self.settle()
        if self._aside is not None:
            self._aside.shutdown()

    @property
    def last(self) -> Applied:
        """What the store has, or will have when what is under way has ended."""
        return self._store.applied if self._under_way is None else self._last

    def settle(self) -> None:
        """Wait for what is under way.

        Raises:
            Exception: what the store raised there.

        """
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()
            visit(Failpoint.AFTER_APPLY)

    def commit(
        self,
        updates: Updates,
        applied: Applied,
        *,
        anticipated: Sequence[Quad],
        controls: Sequence[ControlChange],
        aside: bool,
    ) -> None:
        """Apply the next batch, behind the one that is under way.

        Args:
            updates: what its changes are.
            applied: what is applied with it.
            anticipated: see `QuadStore.apply`.
            controls: see there.
            aside: whether it may be under way when this returns.

        """
        self.settle()
        if aside and self._aside is not None and updates.pieces is None and not self._store.is_ahead:
            self._last = applied
            self._under_way = self._aside.submit(
                self._store.apply_updates, updates, applied, anticipated=anticipated, controls=controls
            )
            return
        self._store.apply_updates(updates, applied, anticipated=anticipated, controls=controls)
        visit(Failpoint.AFTER_APPLY)
