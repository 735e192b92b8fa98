"""The reading processes of a worker: controls their number, and keeps their copies up to date with its store.

pyoxigraph cannot stop a query, and two processes cannot share a store that is written.  Therefore each process
has a copy, made of hard links, receives every effect that the worker commits, and is killed if a query must
end.  `Scheduler` assigns the questions to them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from itertools import count
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.worker.reads.lanes import HELD_MS, LONG_MS, Lanes
from quadlog.worker.reads.reading_process import ReadingProcess, ReadingProcessDied

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from pathlib import Path

    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.reads.call import ReadCall
    from quadlog.worker.reads.feed import Feed

log = structlog.get_logger()

QUICK: Final = (os.cpu_count() or 1) + 1
"""Processes that short questions share.  One may wait for the disk, or for its client, while the others compute; if
there were more, each would be woken up for fewer questions at once."""

AT_ONCE: Final = max(1, (os.cpu_count() or 1) // 2)
"""Maximum concurrent starts: each takes a core for 0.3 s, and the first process answers most waiting questions."""

TELL_S: Final = 0.2
"""Seconds between two checks of the idle processes, which receive the new effects: little is left to do for a read."""

IDLE_MS: Final = 30_000.0
"""Milliseconds without a question after which a process ends, except for one that stays ready for the next read.
That one receives no more effects: if there are writes and no reads it ends too, because following takes a twentieth
of the CPU that a whole cluster uses for an update, in each worker."""

AGAIN_S: Final = 2.0
"""Seconds from a failed start of a process (because of a full disk, for instance) to the next attempt."""

HURRY: Final = 500
"""Effects between two checks (2,500 a second) from which a worker is catching up.  Until the first read, no process
follows it then: applying all effects again would take a third of the time that the worker has for it."""

STOPPING: Final = "this worker stops: ask another one"
ENDED: Final = "the process that read was replaced: ask another worker"


class ReadingProcessPool:
    """A limited number of processes, one of them idle as long as the limit permits."""

    def __init__(
        self,
        store: QuadStore,
        feed: Feed,
        directory: Path,
        *,
        most: int,
        quick: int = QUICK,
    ) -> None:
        """Delete what an earlier run left in `directory`, which will contain the copies.

        There are at most `most` processes; `quick` of them are shared by short questions.
        """
        shutil.rmtree(directory, ignore_errors=True)
        self.store, self._feed, self._directory = store, feed, directory
        self.most, self._quick = most, quick
        self.most_long = most - min(quick, most // 4)
        """Maximum number of processes that long questions may hold."""
        self.idle: list[ReadingProcess] = []
        self.busy: dict[ReadingProcess, None] = {}
        """Processes with questions, in the order in which they became busy."""
        self.starting = 0
        self.lanes: Final = Lanes()
        """Questions that wait for a process."""
        self.on_free: Callable[[float], object] = float
        """Called with the time when a process has become free, or its questions wait again."""
        self.is_ending = False
        """True while all processes are ended because the worker stops, and not because of their questions."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._unready: set[ReadingProcess] = set()
        """Processes that were started and are not ready for questions yet."""
        self._numbers = count(1)
        self._failed, self._again_at = "", float("-inf")
        self._asked_at = now().steady
        self._are_used = self._is_behind = False
        """`_are_used`: there was a read; `_is_behind`: there was none, and the worker is catching up."""
        self._seen = feed.index

    async def run(self) -> None:
        """Maintain the processes until this is cancelled; then end all of them."""
        try:
            while True:
                self._tend()
                await asyncio.sleep(TELL_S)
        finally:
            await self._end_all()

    def _tend(self) -> None:
        moment = now().steady
        self._look_whether_behind(moment)
        for reader in list(self.idle):
            reader.weigh()
            is_last = len(self.idle) == 1
            if self._are_asked(moment):
                followed = not reader.is_taking or self.is_up_to_date(reader)
            else:
                followed = reader.history == self._feed.history and reader.index >= self._feed.index
            if not followed or (not is_last and moment - reader.used_at > IDLE_MS):
                self.discard(reader)
        self.fill(moment)
        if not (self.idle or self.busy or self.starting):
            self._feed.follow(anybody=False)

    def _look_whether_behind(self, moment: float) -> None:
        index = self._feed.index
        self._is_behind = not self._are_used and index - self._seen > HURRY
        self._seen = index
        if self._is_behind:
            self._asked_at = moment  # one process must be ready when the worker has caught up

    def _are_asked(self, moment: float) -> bool:
        return moment - self._asked_at <= IDLE_MS and not self._is_behind

    def is_up_to_date(self, reader: ReadingProcess) -> bool:
        """Send a process the effects that it lacks; return whether it then shows what the worker has."""
        return reader.follow(self._feed, self.store.applied.index)

    async def _end_all(self) -> None:
        self.is_ending, self._failed = True, STOPPING
        for reader in (*self.idle, *self.busy):
            self.discard(reader)
        self._fail_hopeless()
        while self._tasks:
            for reader in self._unready:
                reader.kill()
            await asyncio.wait(self._tasks, timeout=TELL_S)

    # --- one process ------------------------------------------------------------------------------------

    def work(self, reader: ReadingProcess) -> None:
        """Note that a process receives a question."""
        if reader not in self.busy:
            self.idle.remove(reader)
            self.busy[reader] = None

    def rest(self, reader: ReadingProcess) -> None:
        """Note that a process has answered all of its questions."""
        del self.busy[reader]
        reader.is_long = reader.is_slow = False
        self.idle.append(reader)
        if reader.is_retiring:
            self.discard(reader)

    def on_answered(self, reader: ReadingProcess, call: ReadCall) -> None:
        """Handle the end of an answer: the process is free, continues, or ends if its next question is given up."""
        if call.is_long and reader.used_at - call.began < HELD_MS and reader.cpu_ms_for(call) < LONG_MS:
            self.lanes.learn(call.question.text, is_long=False)
        if not reader.calls:
            self.rest(reader)
        elif reader.calls[0].is_given_up:
            self.discard(reader)
        self.on_free(reader.used_at)

    def on_slow_client(self, calls: Iterable[ReadCall]) -> None:
        """Queue questions again that waited after an answer that its client does not accept."""
        self.lanes.put_back(calls)
        self.on_free(now().steady)

    def on_damaged(self, reader: ReadingProcess, message: str) -> None:
        """End a process whose copy is damaged: its other answers would be as doubtful."""
        reader.note_damage(self.store, message)
        call = reader.calls.popleft()
        call.take_back()
        call.fail(Unavailable(f"{message}: ask another worker", retry_after=2))
        self.discard(reader)
        self.on_free(now().steady)

    def on_lost(self, reader: ReadingProcess) -> None:
        """Handle a process that ended on its own or was ended from outside.

        The questions that it had begun fail; the others are sent to another process.
        """
        if not self._forget(reader):
            return
        self.lanes.put_back(reader.take_back())
        self._begin(reader.bury(list(reader.calls)))
        for call in reader.calls:
            call.take_back()
        reader.calls.clear()
        self.on_free(now().steady)

    def retire(self, reader: ReadingProcess) -> None:
        """End a process as soon as it has answered its questions."""
        reader.is_retiring = True
        if not reader.calls:
            self.discard(reader)

    def discard(self, reader: ReadingProcess) -> None:
        """End a process at once; its questions are sent to another one, unless their answers have begun."""
        if not self._forget(reader):
            return
        reader.kill()
        calls = [*reader.calls]
        reader.take_back()
        reader.calls.clear()
        for call in calls:
            call.take_back()
            if call.is_answered:
                call.fail(Unavailable(STOPPING if self.is_ending else ENDED, retry_after=2))
        self.lanes.put_back(call for call in calls if not (call.is_answered or call.is_given_up))
        self._begin(reader.end())

    def _forget(self, reader: ReadingProcess) -> bool:
        """Remove a process; return False if it was removed before."""
        if reader in self.idle:
            self.idle.remove(reader)
        elif reader in self.busy:
            del self.busy[reader]
        else:
            return False
        return True

    # --- number of processes ----------------------------------------------------------------------------

    def note_use(self, moment: float) -> None:
        """Note the time of a read."""
        self._asked_at, self._are_used = moment, True

    def described(self) -> str:
        """Return a description of what the processes do."""
        long = f"{self.longs} of {self.most_long} with long queries"
        return f"{len(self.busy)} of {self.most} are busy, {long}, {self.starting} are being started"

    @property
    def longs(self) -> int:
        """Number of processes that work on long questions."""
        return sum(reader.is_long for reader in self.busy)

    def fill(self, moment: float, *, more: int = 0) -> None:
        """Start processes for the waiting questions and, while there are reads, one for the next question.

        `more`: processes in addition to those that short questions usually share.
        """
        if self._feed.is_going_back:
            return
        there, longs = len(self.idle) + len(self.busy) + self.starting, self.longs
        more_long = max(min(len(self.lanes.long), self.most_long - longs), 0)
        room = min(self.most, self._quick + longs + more_long + more) - there
        if room > 0 and not self.is_ending and moment >= self._again_at:
            ready = len(self.idle) + self.starting
            wanted = len(self.lanes.short) + more_long + self._are_asked(moment) - ready
            for _ in range(min(wanted, room, AT_ONCE - self.starting)):
                self._feed.follow(anybody=True)
                self.starting += 1
                self._begin(self._start())
        self._fail_hopeless()

    async def _start(self) -> None:
        history = self._feed.history  # read before the copy is made, since effects may be undone meanwhile
        try:
            reader = await ReadingProcess.start(
                self.store, self._directory / f"{next(self._numbers)}", self, self._unready
            )
        except (ReadingProcessDied, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError):
                self.store.damage.note(error)
            if not self.is_ending:
                self._fail_to_start(str(error) or "it ended at once, see the log")
            reader = None
        finally:
            self.starting -= 1
        if reader is None:
            self._fail_hopeless()
            return
        reader.history = history
        self.idle.append(reader)
        if self.is_ending or reader.is_lost:
            self.discard(reader)
        self.on_free(now().steady)

    def _fail_to_start(self, why: str) -> None:
        self._failed = f"no reading process could be started: {why}"
        self._again_at = now().steady + AGAIN_S * 1000
        log.warning("reading_process_failed", reason=self._failed)

    def _fail_hopeless(self) -> None:
        """Fail all waiting questions if there is no process that could become free."""
        if self.is_ending or not (self.idle or self.busy or self.starting):
            for call in self.lanes.take_all():
                call.fail(Unavailable(self._failed, retry_after=2))

    def _begin(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
