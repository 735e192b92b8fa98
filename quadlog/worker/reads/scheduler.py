"""Which reading process is asked what.

Short questions share a few processes: each has the next question in its pipe while it works on the one before.
A question that turns out long keeps its process for itself, and another process takes its place among those of
the short ones.  Long ones hold so many processes at the most; a text that ran long is known from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.worker.reads.lanes import HELD_MS, LONG_MS

if TYPE_CHECKING:
    from collections import deque

    from quadlog.worker.reads.call import Call
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.reads.reader import Reader
    from quadlog.worker.reads.readers import Readers

TURN_S: Final = 1.0
"""How long a question waits for a process; then another worker may be less busy."""

START_S: Final = 25.0
"""How long it waits while one is being started, 0.3 s on a machine that is not busy: the next worker's would take
no less time."""

DEPTH: Final = 2
"""Short questions in the pipe of a process: it never waits for this worker between two of them."""

SLOW_MS: Final = 100.0
"""A question that runs for so long has none behind it any more."""

FRESH_MS: Final = 10_000.0
"""A copy that was just made: it shows what was changed behind the store's back before.  Not of this very moment,
so that two workers can be asked for the same one."""


class Scheduler:
    """Asks what waits as processes get free."""

    def __init__(self, readers: Readers, feed: Feed, *, turn_s: float = TURN_S) -> None:
        """`turn_s`: how long a question waits for a process."""
        self._readers, self._feed, self.turn_s = readers, feed, turn_s
        self._lanes: Final = readers.lanes
        readers.on_free = self._serve

    def ask(self, call: Call) -> None:
        """Have it answered by a process that shows what the worker has.

        The call fails with Unavailable where no process is free in time, or none could be started.  All quads are
        read from a copy that was just made, so that they are what is stored, and not what should be.
        """
        self._readers.note_use(call.asked_at)
        self._lanes.add(call)
        self._serve(call.asked_at)

    def give_up(self, call: Call) -> None:
        """Nobody waits for its answer any more: what works on it ends."""
        reader, moment = call.reader, now().steady
        if reader is None:
            self._lanes.remove(call)
            return
        back = reader.take_back()
        is_begun = call not in back
        if not is_begun:
            back.remove(call)
        is_first = not is_begun and not reader.calls
        if is_begun and reader.calls[0] is not call:
            # All of the answer before it was written, and is about to come: the process ends behind that.
            call.is_given_up = True
            self._lanes.put_back(back)
        elif is_begun or (is_first and reader.is_slow):  # it does not even begin
            call.is_given_up = True
            self._lanes.put_back(back)
            self._readers.discard(reader)
        else:
            self._put_back(reader, back, moment)
        self._serve(moment)

    def doubt(self) -> None:
        """A question did not come to its end in time: pyoxigraph meets a damaged block for ever."""
        self._readers.doubt()

    # --- what is under way ------------------------------------------------------------------------------

    def look(self) -> None:
        """To be called some times a second: see what is slow, long or worn, and what has waited too long."""
        moment = now().steady
        for reader in list(self._readers.busy):
            self._look_at(reader, moment)
        for reader in (*self._readers.idle, *self._readers.busy):
            if reader.is_worn:
                self._readers.retire(reader)
        self._serve(moment)
        if self._lanes:
            if self._is_starved(moment):
                self._readers.fill(moment, more=1)
            self._end_waiting(moment)

    def _is_starved(self, moment: float) -> bool:
        """Whether a short question waits for processes none of which gets on, and that may take long to turn out."""
        short = self._lanes.short
        has_waited = bool(short) and moment - short[0].asked_at > self.turn_s * 1000 / 2
        return has_waited and all(reader.is_slow for reader in self._readers.busy)

    def _look_at(self, reader: Reader, moment: float) -> None:
        first = reader.calls[0]
        ran = moment - first.began
        cpu_ms = reader.cpu_ms_for(first)
        if ran > SLOW_MS and not reader.is_slow:
            reader.is_slow = True
            self._put_back(reader, reader.take_back(), moment)
        if reader.is_long:
            return
        if ran > HELD_MS and first in (back := reader.take_back()):  # it does not even begin
            self._lanes.put_back(back)
            self._readers.discard(reader)
        elif cpu_ms > LONG_MS or ran > HELD_MS:
            self._turn_long(reader, first, moment)

    def _turn_long(self, reader: Reader, call: Call, moment: float) -> None:
        """It keeps its process if there may be one more long one, or its answer has begun; else it waits for that."""
        self._lanes.learn(call.question.text, is_long=True)
        if self._readers.longs < self._readers.most_long or call.is_answered:
            reader.is_long = True
            return
        reader.calls.remove(call)
        call.take_back()
        call.is_long, call.asked_at = True, moment
        self._lanes.long.append(call)
        self._readers.discard(reader)

    def _put_back(self, reader: Reader, calls: list[Call], moment: float) -> None:
        """They were taken back from a process that goes on; it is to have something to do, if there is anything."""
        if calls and not reader.calls:
            reader.ask(calls.pop(0), moment)
        self._lanes.put_back(calls)
        if not reader.calls:
            self._readers.rest(reader)

    def _end_waiting(self, moment: float) -> None:
        readers = self._readers
        for call in list(self._lanes):
            waits_for_start = readers.starting and not (call.is_long and readers.longs >= readers.most_long)
            patience_s = START_S if waits_for_start else self.turn_s
            if moment - call.asked_at <= patience_s * 1000:
                continue
            self._lanes.remove(call)
            why = f"no reading process was free for {patience_s:g} s: {readers.described()}"
            if self._feed.is_going_back:
                why = "this worker goes back to another history: ask another one"
            call.fail(Unavailable(why, retry_after=2))

    # --- what waits -------------------------------------------------------------------------------------

    def _serve(self, moment: float) -> None:
        """Ask what waits, as far as there are processes for it."""
        lanes = self._lanes
        if not self._feed.is_going_back:
            while lanes.long and (reader := self._next_for_long()):
                self._give(reader, lanes.long, moment)
            while lanes.short and (reader := self._next_for_short()):
                self._give(reader, lanes.short, moment)
        if lanes or not self._readers.idle:
            self._readers.fill(moment)

    def _next_for_long(self) -> Reader | None:
        readers = self._readers
        if readers.longs >= readers.most_long:
            return None
        call = self._lanes.long[0]
        if call.question.text is None:
            fresh = [reader for reader in readers.idle if call.asked_at - reader.born <= FRESH_MS]
            if not fresh and readers.idle and not readers.starting:
                readers.discard(readers.idle[0])  # one that replaces it is fresh
            return fresh[-1] if fresh else None
        return readers.idle[-1] if readers.idle else None

    def _next_for_short(self) -> Reader | None:
        readers = self._readers
        if readers.idle:
            return readers.idle[-1]
        # A long one that may begin needs a process that has nothing to do.
        depth = 1 if self._lanes.long and readers.longs < readers.most_long else DEPTH
        for reader in readers.busy:
            if len(reader.calls) < depth and not (reader.is_slow or reader.is_long or reader.is_retiring):
                return reader
        return None

    def _give(self, reader: Reader, lane: deque[Call], moment: float) -> None:
        if not self._readers.is_up_to_date(reader):  # it lacks too much, or has seen what was undone since
            self._readers.retire(reader)
            return
        call = lane.popleft()
        self._readers.work(reader)
        reader.is_long = call.is_long
        reader.ask(call, moment)
