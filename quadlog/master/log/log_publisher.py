"""Publisher of the log: writes the synchronised queue into the agreed topic, or stands by to do so."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from quadlog.clock import wall
from quadlog.core.agreement.pacing import LOGICAL_BITS
from quadlog.core.model import GENESIS, START, Entry, LogPosition
from quadlog.core.records import Cut, LoggedEntry, Place, Reached
from quadlog.failpoints import Failpoint, visit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from quadlog.core.model import Pair, Payload, View
    from quadlog.ports import Acked

log = structlog.get_logger()

Key = tuple[bytes, bytes]
"""Key of a payload: id and digest."""

FLYING: Final = 300
"""Maximum number of entries that are written and not known to be in the topic.

This is most of a second at a busy master.  All of them may be acknowledged at once, and the master publishes
nothing else until it has noted that, for some 30 ms.
"""

FLYING_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of the bodies of these entries.

An adopted log may have any size: it passes through memory in parts.
"""


class SavedLog(Protocol):
    """The saved log."""

    def entry(self, index: int, /) -> tuple[bytes, Pair] | None:
        """Return the chain hash and the pair of the entry at an index."""
        ...


class LogSink(Protocol):
    """The producer for the agreed topic."""

    def publish(self, entry: LoggedEntry, acked: Acked, /) -> None:
        """Send an entry."""
        ...

    def publish_cut(self, cut: Cut, acked: Acked, /, *, at: int) -> None:
        """Send a cut; `at`: milliseconds since 1970."""
        ...


class LogPublisher:
    """Writes the agreed topic.  Owned by the node's thread.

    The payload of every entry is in the store until the topic is known to hold it: its record was
    acknowledged, or was read there because another master of this data centre wrote it.  A master that takes
    over the lead therefore writes the missing entries, and none that it could know to be in the topic.  A
    master that lags may cut further back than that, and die: the missing entries then precede its cut.

    The consumers' rules decide which records count: `_end` and `_epoch` follow the topic by the same rules.
    If that end is in the own log, by its chain hash, the topic holds the own log up to there.
    """

    def __init__(
        self,
        *,
        log_sink: LogSink,
        saved: SavedLog,
        payload: Callable[[Key], Payload],
        view: Callable[[], View],
        written: Callable[[Place | Cut, int], None],
        regain: Callable[[int], None],
        settle: Callable[[], None] | None = None,
        last: int = 0,
    ) -> None:
        """Start with everything written, and another master leading.

        Args:
            log_sink: the producer for the topic.
            saved: the log.
            payload: function that returns the payload of a saved entry; KeyError if it is no longer kept.
            view: function that returns the installed view.
            written: function that is called with an acknowledged place and its offset, on any thread.  If
                another master writes, too, `holds` must be called with the records read instead.
            regain: function that searches the topic before a cut for an entry of the log and those after it;
                `regained` is called with them.
            settle: function that waits until all records are acknowledged; for failpoints.
            last: index of the last entry.

        """
        self._log_sink, self._saved, self._payload = log_sink, saved, payload
        self._view, self._written, self._settle = view, written, settle
        self._regain = regain
        self._regained: dict[int, LoggedEntry] = {}
        """Entries that were in the topic before another master cut too far back, and must be written again."""
        self._asked: int | None = None
        """Index of the entry that is being searched for."""
        self._fresh: deque[Entry] = deque()
        """The newest entries; earlier ones are read from the log."""
        self._last = last
        self.held = last
        """Index up to which the topic is known to hold the log."""
        self._cut: Cut | None = None
        """Cut of the newest adoption, which must be written after `held`; None if the topic is known to hold it."""
        self._is_cut_said = False
        self._cut_in = 0
        """Epoch of the newest adoption."""
        self._next = last + 1
        """Index of the entry that is written next."""
        self._flying: deque[tuple[int, int]] = deque()
        """Index and size of each entry that was written and is not known to be in the topic."""
        self._size = 0
        self._sent = self._met = self._again_at = 0
        """Numbers of own records: written, found in the topic, and written when writing last began again."""
        self._offset = 0
        """Offset after the last record of the topic that was processed."""
        self._end = LogPosition(last, self._chain_at(last) or b"")
        self._epoch = 0
        """Epoch of the newest cut in the topic."""
        self.leads = False

    def __len__(self) -> int:
        """Return the number of entries that the topic is not known to hold."""
        return self._last - self.held

    @property
    def newest_cut(self) -> int:
        """Epoch of the newest cut that the topic contains or will contain; 0 if none is known."""
        return max(self._epoch, 0 if self._cut is None else self._cut.epoch)

    # --- what must be written -----------------------------------------------------------------------

    @property
    def reached(self) -> Reached:
        """How far the topic was followed."""
        return Reached(self._offset, self._end, self._epoch, self.held)

    def resume(
        self, reached: Reached | None, said: Iterable[tuple[Place | Cut, int]], cut: Cut | None
    ) -> None:
        """Continue after a start.

        Args:
            reached: how far the topic was followed when that was last saved; None if it was not, or the topic
                is another one.
            said: the records after that, in order, each with its offset.
            cut: the newest cut of the own log.

        """
        known = reached if reached is not None else Reached()
        self._offset, self._end, self._epoch = known.offset, known.end, known.epoch
        self.held = min(known.held, self._last)
        for place, offset in said:
            if not self._offset and isinstance(place, Place) and place.index > 1:
                self._end = place.point  # the entries before it are no longer in the topic
            elif not self._read(place):
                continue
            self._offset, end = offset + 1, self._end
            self.held = end.index if self._chain_at(end.index) == end.chain else min(self.held, end.index)
        if self._chain_at(self._end.index) == self._end.chain:
            self.held = self._end.index  # the own log has caught up with the topic since that was saved
        self._cut = cut if cut is not None and cut.epoch > self._epoch else None
        self._cut_in = cut.epoch if cut is not None else 0
        self._again()

    def write(self, entry: Entry) -> list[tuple[int, Key]]:
        """Accept a saved entry, in the order of the indexes, and write it if this master leads.

        Returns indexes and keys of entries that the topic holds already: another master may have written them before
        this one had saved them, and no further record of theirs will come.
        """
        self._fresh.append(entry)
        self._last = entry.index
        is_at_its_end = (entry.index, entry.chain) == (self._end.index, self._end.chain)
        keys = self._compare() if is_at_its_end and not (self._cut and self._is_cut_said) else []
        self._pump()
        return keys

    def lead(self, *, mine: bool) -> None:
        """Start or stop leading.  A master that starts to lead writes what the topic is not known to hold."""
        if mine == self.leads:
            return
        self.leads = mine
        self._again()

    def truncate(self, cut: Cut, last: int) -> list[tuple[int, Key]]:
        """Note that the own log was replaced after an entry, and now ends at `last`; both must be saved before.

        Returns indexes and keys of entries that the topic turns out to hold: see `goes_along`.
        """
        self._fresh.clear()
        self._last = last
        keys = self._keys(self.held + 1, cut.index)
        self.held, self._cut = cut.index, cut if cut.epoch > self._epoch else None
        self._cut_in = cut.epoch
        self._again()
        return keys

    def goes_along(self, other: Callable[[int], bytes | None], *, kept: int, last: int) -> int:
        """Return the index up to which the topic holds another log that replaces the own one.

        A master that joins late finds that the other masters of its data centre have published most of it.

        Args:
            other: chain hash of its entry at an index; None: it was not read so far.
            kept: index of the last entry of the own log that is in it.
            last: index of its last entry that the new view starts with.  More may have been read, and published.

        """
        end = self._end
        if end.index > kept and other(end.index) == end.chain:
            return min(end.index, last)
        return min(self.held, kept)

    # --- what the topic holds -----------------------------------------------------------------------

    def holds(self, place: Place | Cut, offset: int, *, mine: bool = True) -> list[tuple[int, Key]]:
        """Process a record of the topic; return the indexes and keys of entries that it is newly known to hold.

        Must be called with all records in order or, if no other master writes, with the acknowledged ones.

        `mine`: True if this master wrote it.
        """
        self._met += mine
        self._offset = offset + 1
        if not self._read(place):
            if mine and self._is_lost(place):
                keys = self._compare()
                self._again()
                return keys
            return []
        if self._cut is not None and self._cut.epoch <= self._epoch:
            self._cut = None
        if self._cut is not None and self._is_cut_said:
            return []  # the cut that was written will void it
        before = self.held
        keys = self._compare()
        if self.held < before and not (mine and isinstance(place, Cut)):
            self._again()  # after an own cut, the entries that follow it are in flight
        self._pump()
        return keys

    def _compare(self) -> list[tuple[int, Key]]:
        """Determine up to where the topic holds the own log."""
        end = self._end
        if self._chain_at(end.index) != end.chain:
            return []  # of a log that this master must adopt, or beyond its own
        keys = self._keys(self.held + 1, end.index)
        self.held = end.index
        while self._fresh and self._fresh[0].index <= end.index:
            self._fresh.popleft()
        while self._flying and self._flying[0][0] <= end.index:
            self._size -= self._flying.popleft()[1]
        self._next = max(self._next, end.index + 1)
        return keys

    def _read(self, place: Place | Cut) -> bool:
        """Return whether a record counts.

        Two masters that lead for a moment write records that do not fit each other; all consumers ignore
        those.
        """
        if isinstance(place, Cut):
            fits = place.index < self._end.index or (place.index, place.chain) == (
                self._end.index,
                self._end.chain,
            )
            if place.epoch <= self._epoch or not fits:
                return False
            self._epoch, self._end = place.epoch, LogPosition(place.index, place.chain)
            return True
        follows = place.index == self._end.index + 1 and place.previous == self._end.chain
        if place.epoch < self._epoch or not follows:
            return False
        self._end = place.point
        return True

    def _is_lost(self, place: Place | Cut) -> bool:
        """Return whether a record should have counted, but another one preceded it."""
        if self._met <= self._again_at:
            return False  # written before writing last began again
        if isinstance(place, Cut):
            return place.epoch > self._epoch
        return place.epoch >= self._epoch and place.index > self._end.index

    def _chain_at(self, index: int) -> bytes | None:
        if index == START.index:
            return START.chain
        if self._fresh and index >= self._fresh[0].index:
            return self._fresh[index - self._fresh[0].index].chain if index <= self._last else None
        entry = self._saved.entry(index)
        return None if entry is None else entry[0]

    def _keys(self, first: int, last: int) -> list[tuple[int, Key]]:
        return [(index, self._entry(index)[1].key) for index in range(first, last + 1)]

    # --- writing ------------------------------------------------------------------------------------

    def _again(self) -> None:
        """Write again all that the topic is not known to hold; records in flight may be duplicated."""
        self._flying.clear()
        self._size, self._next, self._is_cut_said = 0, self.held + 1, False
        self._again_at = self._sent
        self._pump()

    def _pump(self) -> None:
        if not self.leads:
            return
        if self._cut is not None and not self._is_cut_said:
            self._is_cut_said = True
            chain = self._chain_at(self.held)
            assert chain is not None, "the topic holds no more than the own log"
            cut = replace(self._cut, index=self.held, chain=chain)
            self._sent += 1
            self._log_sink.publish_cut(cut, lambda offset: self._written(cut, offset), at=wall())
            visit(Failpoint.CUT_SAID, self._settle)
        while self._next <= self._last and self._has_room and self._send(self._next):
            self._next += 1

    @property
    def _has_room(self) -> bool:
        return not self._flying or (len(self._flying) < FLYING and self._size < FLYING_BYTES)

    def _send(self, index: int) -> bool:
        """Write an entry; return False if its payload is not available yet.

        A payload that every master and the topic had may no longer be kept here: it is then searched for in
        the topic.
        """
        chain, pair, previous = self._entry(index)
        view = self._view()
        try:
            payload = self._payload(pair.key)
        except KeyError:
            found = self._regained.pop(index, None)
            if found is None or found.chain != chain:
                if self._asked != index:
                    self._asked = index
                    self._regain(index)
                return False
            again = replace(found, epoch=view.epoch, lineage=view.id)
            self._say(again, Place(view.epoch, index, chain, previous))
            return True
        transaction = payload.transaction
        entry = Entry(
            index=index,
            pair=pair,
            kind=transaction.kind,
            options=transaction.options,
            previous=previous,
            chain=chain,
            view=view,
        )
        self._say(logged_entry(entry, payload), Place(view.epoch, index, chain, previous))
        return True

    def _say(self, entry: LoggedEntry, place: Place) -> None:
        self._sent += 1
        self._flying.append((entry.index, len(entry.body)))
        self._size += len(entry.body)
        self._log_sink.publish(entry, lambda offset: self._written(place, offset))
        if place.epoch == self._cut_in:
            visit(Failpoint.HALF_BEHIND_CUT, self._settle)

    def regained(self, entries: Iterable[LoggedEntry]) -> None:
        """Accept the entries found in the topic; if there are none, they must be searched for again."""
        self._regained = {entry.index: entry for entry in entries}
        self._asked = None
        self._pump()

    def _entry(self, index: int) -> tuple[bytes, Pair, bytes]:
        """Return the chain hash and the pair of an entry, and the chain hash before it."""
        if self._fresh and index >= self._fresh[0].index:
            fresh = self._fresh[index - self._fresh[0].index]
            return fresh.chain, fresh.pair, fresh.previous
        entry, before = self._saved.entry(index), self._saved.entry(index - 1)
        assert entry is not None, "only saved entries are published"
        return *entry, before[0] if before is not None else GENESIS


def logged_entry(entry: Entry, payload: Payload) -> LoggedEntry:
    """Return an entry with its payload and its writer's lineage, as the agreed topic holds it."""
    return LoggedEntry(
        index=entry.index,
        kind=entry.kind,
        id=entry.pair.id,
        timestamp=entry.pair.timestamp,
        digest=entry.pair.digest,
        options=entry.options,
        previous=entry.previous,
        chain=entry.chain,
        epoch=entry.view.epoch,
        lineage=entry.view.id,
        origin=payload.origin,
        created=payload.created or entry.pair.timestamp >> LOGICAL_BITS,
        media_type=payload.media_type,
        body=payload.body,
        traceparent=payload.traceparent,
    )
