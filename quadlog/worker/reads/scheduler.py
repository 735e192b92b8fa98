"""The assignment of questions to reading processes.

Short questions share a few processes: each has the next questions in its pipe while it works on the one before.
A question in a pipe is given to another process if that one is idle.
A question that turns out to be long keeps its process for itself, and another process replaces it among those
of the short ones.  Long ones hold a limited number of processes; a text that ran long is remembered as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.worker.reads.lanes import HELD_MS, LONG_MS

if TYPE_CHECKING:
    from collections import deque

    from quadlog.worker.reads.call import ReadCall
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.reads.process_pool import ReadingProcessPool
    from quadlog.worker.reads.reading_process import ReadingProcess

TURN_S: Final = 1.0
"""Seconds that a question waits for a process; another worker may be less busy then."""

START_S: Final = 25.0
"""Seconds that a question waits while a process is being started, which takes 0.3 s on a machine that is not busy: a
start at the next worker would take no less time."""

DEPTH: Final = 8
"""Short questions in the pipe of a process: it then reads and answers several of them each time it is woken up."""

SHARED_MS: Final = 2.0
"""Milliseconds after which no other question waits after a running one if a process is idle."""

SLOW_MS: Final = 100.0
"""Milliseconds after which no other question waits after a running one."""

FRESH_MS: Final = 10_000.0
"""Maximum age of a copy from which all quads are read: a new copy shows earlier changes of the files that bypassed the
store.  It need not be made for the request, so that two workers can be asked for the same index."""


class Scheduler:
    """Sends waiting questions to processes as these become free."""

    def __init__(
        self, readers: ReadingProcessPool, feed: Feed, *, turn_s: float = TURN_S, start_s: float = START_S
    ) -> None:
        """`turn_s`: seconds that a question waits for a process, `start_s` while one is being started."""
        self._readers, self._feed, self.turn_s, self._start_s = readers, feed, turn_s, start_s
        self._lanes: Final = readers.lanes
        readers.on_free = self._serve

    def ask(self, call: ReadCall) -> None:
        """Have a call answered by a process that shows what the worker has.

        The call fails with Unavailable if no process is free in time, or none can be started.  All quads are read from
        a copy that is at most `FRESH_MS` old, so that they are those that are stored, and not those that should be.
        """
        self._readers.note_use(call.asked_at)
        self._lanes.add(call)
        self._serve(call.asked_at)

    def give_up(self, call: ReadCall) -> None:
        """End the work on a call whose answer nobody waits for any more."""
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
            # The answer before it was written completely, and is about to arrive: the process ends after that.
            call.is_given_up = True
            self._lanes.put_back(back)
        elif is_begun or (is_first and reader.is_slow):  # the process does not even begin
            call.is_given_up = True
            self._lanes.put_back(back)
            self._readers.discard(reader)
        else:
            self._put_back(reader, back, moment)
        self._serve(moment)

    def doubt(self) -> None:
        """Request a count of the stored quads after a read was too slow: pyoxigraph may loop on a damaged block."""
        self._readers.store.damage.doubt()

    # --- questions in progress --------------------------------------------------------------------------

    def check(self) -> None:
        """Find what is slow, long or worn, and what has waited too long.  Must be called several times a second."""
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
        """Return whether a short question waits while all processes are slow: they may turn out long much later."""
        short = self._lanes.short
        has_waited = bool(short) and moment - short[0].asked_at > self.turn_s * 1000 / 2
        return has_waited and all(reader.is_slow for reader in self._readers.busy)

    def _look_at(self, reader: ReadingProcess, moment: float) -> None:
        first = reader.calls[0]
        ran = moment - first.began
        cpu_ms = reader.cpu_ms_for(first)
        if ran > SLOW_MS and not reader.is_slow:
            reader.is_slow = True
            self._put_back(reader, reader.take_back(), moment)
        if reader.is_long:
            return
        if ran > HELD_MS and first in (back := reader.take_back()):  # the process does not even begin
            self._lanes.put_back(back)
            self._readers.discard(reader)
        elif cpu_ms > LONG_MS:
            self._turn_long(reader, first, moment)
        elif ran > HELD_MS and (self._has_place_for_long or first.is_answered):
            reader.is_long = True  # not remembered: on a busy machine all take long

    @property
    def _has_place_for_long(self) -> bool:
        return self._readers.longs < self._readers.most_long

    def _turn_long(self, reader: ReadingProcess, call: ReadCall, moment: float) -> None:
        """Make a call long: it keeps its process if the limit permits or its answer has begun, and waits otherwise."""
        self._lanes.learn(call.question.text, is_long=True)
        if self._has_place_for_long or call.is_answered:
            reader.is_long = True
            return
        reader.calls.remove(call)
        call.take_back()
        call.is_long, call.asked_at = True, moment
        self._lanes.long.append(call)
        self._readers.discard(reader)

    def _put_back(self, reader: ReadingProcess, calls: list[ReadCall], moment: float) -> None:
        """Queue calls that were taken back from a process again, except for one if the process would be idle."""
        if calls and not reader.calls:
            reader.ask(calls.pop(0), moment)
        self._lanes.put_back(calls)
        if not reader.calls:
            self._readers.rest(reader)

    def _end_waiting(self, moment: float) -> None:
        readers = self._readers
        for call in list(self._lanes):
            waits_for_start = readers.starting and not (call.is_long and not self._has_place_for_long)
            patience_s = self._start_s if waits_for_start else self.turn_s
            if moment - call.asked_at <= patience_s * 1000:
                continue
            self._lanes.remove(call)
            why = f"no reading process was free for {patience_s:g} s: {readers.described()}"
            if self._feed.is_going_back:
                why = "this worker goes back to another history: ask another one"
            call.fail(Unavailable(why, retry_after=2))

    # --- waiting questions ------------------------------------------------------------------------------

    def _serve(self, moment: float) -> None:
        """Send waiting questions, as far as there are processes for them."""
        lanes = self._lanes
        if not self._feed.is_going_back:
            if self._readers.idle and not lanes:
                self._share(moment)
            while lanes.long and (reader := self._next_for_long()):
                self._give(reader, lanes.long, moment)
            while lanes.short and (reader := self._next_for_short()):
                self._give(reader, lanes.short, moment)
        if lanes or not self._readers.idle:
            self._readers.fill(moment)

    def _next_for_long(self) -> ReadingProcess | None:
        readers = self._readers
        if not self._has_place_for_long:
            return None
        call = self._lanes.long[0]
        if call.question.text is None:
            fresh = [reader for reader in readers.idle if call.asked_at - reader.born <= FRESH_MS]
            if not fresh and readers.idle and not readers.starting:
                readers.discard(readers.idle[0])  # its replacement is fresh
            return fresh[-1] if fresh else None
        return readers.idle[-1] if readers.idle else None

    def _next_for_short(self) -> ReadingProcess | None:
        readers = self._readers
        if readers.idle:
            return readers.idle[-1]
        # A long question that may begin needs a process without other questions.
        depth = 1 if self._lanes.long and self._has_place_for_long else DEPTH
        free = (
            reader
            for reader in readers.busy
            if len(reader.calls) < depth and not (reader.is_slow or reader.is_long or reader.is_retiring)
        )
        return min(free, key=lambda reader: len(reader.calls), default=None)

    def _share(self, moment: float) -> None:
        """Queue questions again that wait in the pipe of a process while another process is idle."""
        for reader in [*self._readers.busy]:
            first = reader.calls[0]
            began = first.began
            if len(reader.calls) > 1 and moment - began > SHARED_MS:
                self._put_back(reader, reader.take_back(), moment)
                # Also if it was sent again: a process that does not begin it must be noticed.
                first.began = began

    def _give(self, reader: ReadingProcess, lane: deque[ReadCall], moment: float) -> None:
        if not self._readers.is_up_to_date(reader):  # it lacks too much, or has seen effects that were undone
            self._readers.retire(reader)
            return
        call = lane.popleft()
        self._readers.work(reader)
        reader.is_long = call.is_long
        reader.ask(call, moment)
