"""Returning: what a worker does at a rewind, and what it takes up again behind it.

`back.py` undoes what was applied; here is when, what becomes of all that was heard, and what if it cannot be undone.
"""

from __future__ import annotations

from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING

import structlog

from quadlog.core.effects.signature import as_bytes
from quadlog.errors import StateError
from quadlog.worker.replica.back import Past, go_back

if TYPE_CHECKING:
    from quadlog.core.records import Rewind
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.topics import Topics
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.replica.backlog import Hearing
    from quadlog.worker.replica.host import Host
    from quadlog.worker.replica.tenure import Tenure

log = structlog.get_logger()


class Returning:
    """Owned by the replica's thread."""

    def __init__(
        self,
        *,
        topics: Topics,
        store: QuadStore,
        feed: Feed,
        hearing: Hearing,
        tenure: Tenure,
        host: Host,
    ) -> None:
        """Go on.

        Args:
            topics: of the worker's data centre.
            store: that goes back.
            feed: its reading processes have to be of what it goes back to.
            hearing: what was heard and not applied.
            tenure: ends with a rewind.
            host: reads the topics backwards, and makes a store anew.

        """
        self._store, self._feed, self._hearing, self._tenure = store, feed, hearing, tenure
        self._past, self._host = Past(topics, host.backwards), host
        self.owes = store.applied.heard is not None
        """Whether entries that were undone may have to wait again, behind what is in the store then."""
        self.is_lost = False
        """Whether the store cannot go back where it has to: it is given up."""

    def go_back(self, rewind: Rewind, behind: int) -> None:
        """1. Nothing is anticipated.  2. What was not applied is forgotten, what was applied undone.  3. Hear on."""
        store, backlog = self._store, self._hearing.backlog
        applied, half_made = store.applied, store.half_made
        log.info("rewind_started", to=rewind.index, applied=applied.index, epoch=rewind.epoch)
        self._tenure.retire()
        half = [effect for effect in backlog.effects() if effect.index <= half_made]
        backlog.rewind(rewind.index)
        if rewind.index < max(applied.index, half_made):
            self._feed.begin_back()
            try:
                go_back(store, self._past, rewind, behind=behind, half=half)
            except StateError as error:
                self._give_up(error)
                return
            self.owes = True
            self._feed.end_back(store.applied.index)
        self._hearing.effects.stand(backlog.signature or as_bytes(store.applied.signature))

    def take_up(self) -> None:
        """Entries that were undone wait again, if they are of the log that there is now.

        They are read from the topic when something waits for them, and not before the cut: it drops nearly all of them.
        """
        hearing = self._hearing
        if not (self.owes and hearing.is_cut and (hearing.backlog.has_effects or self._tenure.has_duty)):
            return
        self.owes = False
        applied, first = self._store.applied, hearing.backlog.first_entry
        last = first.index - 1 if first else hearing.agreed.last.index
        if last <= applied.index:
            return
        try:
            entries = dropwhile(lambda entry: entry.index > last, self._past.entries(applied.in_agreed))
            undone = takewhile(lambda entry: entry.index > applied.index, entries)
            hearing.backlog.put_before(undone, applied.in_agreed)
        except StateError as error:
            self._give_up(error)

    def _give_up(self, error: StateError) -> None:
        log.error("rewind_failed", reason=str(error))
        self.is_lost = True
        self._host.rebuild(f"the store cannot go back: {error}")
