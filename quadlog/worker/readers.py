"""The reading processes of a worker: one answers one query at a time, and is killed where that has to end.

pyoxigraph knows no way to stop a query, and two processes cannot share a store that is written.  So each
process has a copy, made of hard links, and is told of every effect that the worker commits.  Before it is
asked anything it is told of the last one: its answers show what the worker has.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Final

import structlog

from quadlog.clock import now
from quadlog.errors import Unavailable
from quadlog.worker.reader import Died, Reader

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from quadlog.quadstore import QuadStore
    from quadlog.worker.feed import Feed

log = structlog.get_logger()

TURN_S: Final = 5.0
"""How long a read waits for a process that is busy; then another worker may be less so."""

START_S: Final = 25.0
"""How long it waits while one is being started, 0.3 s on a machine that is not busy: the next worker's would take
no less time."""

TELL_S: Final = 0.2
"""Between two looks at the idle ones: told of effects so often, they have next to nothing to do when asked."""

IDLE_MS: Final = 30_000.0
"""A process that nobody asked for so long ends, but for one that is ready for the next read.  That one is not
told of effects any more: where there are writes and no reads it ends too, because to follow takes a twentieth
of the CPU of all that a cluster does for an update, in each worker."""

FRESH_MS: Final = 10_000.0
"""A copy that was just made: it shows what was changed behind the store's back before.  Not of this very moment,
so that two workers can be asked for the same one."""

AGAIN_S: Final = 2.0
"""After a process that could not be started (a full disk, say) the next one is tried."""

HURRY: Final = 500
"""Effects between two looks (2,500 a second) from which on a worker is catching up.  Until the first read no process
follows it then: to apply all once more would take a third of the time that the worker has for it."""

LOOK_S: Final = 0.02
"""Between two looks whether the worker has gone back."""

STOPPING: Final = "this worker stops: ask another one"


class Readers:
    """At most so many processes, one of them idle as long as there may be one more."""

    def __init__(
        self, store: QuadStore, feed: Feed, directory: Path, *, most: int, turn_s: float = TURN_S
    ) -> None:
        """Copies lie in `directory`; what an earlier run left there goes."""
        shutil.rmtree(directory, ignore_errors=True)
        self._store, self._feed, self._directory = store, feed, directory
        self._most, self._turn_s = most, turn_s
        self._idle: list[Reader] = []
        self._busy: set[Reader] = set()
        self._starting = 0
        self.is_ending = False
        """Whether all processes are ended because the worker stops, not because of what they were asked."""
        self._waiting: deque[asyncio.Future[Reader]] = deque()
        self._tasks: set[asyncio.Task[object]] = set()
        self._numbers = count(1)
        self._failed, self._again_at = "", float("-inf")
        self._asked_at = now().steady
        self._are_used = self._is_behind = False
        """Whether anybody has ever asked; else, whether the worker is catching up."""
        self._seen = feed.index

    async def run(self) -> None:
        """Keep the processes in order until this is cancelled; then none is left."""
        try:
            while True:
                self._tend()
                await asyncio.sleep(TELL_S)
        finally:
            await self._end_all()

    def _tend(self) -> None:
        moment = now().steady
        self._look_whether_behind(moment)
        for reader in list(self._idle):
            reader.weigh()
            is_last = len(self._idle) == 1
            if self._are_asked:
                followed = not reader.is_taking or self._is_up_to_date(reader)
            else:
                followed = reader.history == self._feed.history and reader.index >= self._feed.index
            if not followed or reader.is_worn or (not is_last and moment - reader.used_at > IDLE_MS):
                self._idle.remove(reader)
                self._discard(reader)
        self._fill()
        if not (self._idle or self._busy or self._starting):
            self._feed.follow(anybody=False)

    def _look_whether_behind(self, moment: float) -> None:
        index = self._feed.index
        self._is_behind = not self._are_used and index - self._seen > HURRY
        self._seen = index
        if self._is_behind:
            self._asked_at = moment  # one is to be ready when the worker has caught up

    @property
    def _are_asked(self) -> bool:
        return now().steady - self._asked_at <= IDLE_MS and not self._is_behind

    def _is_up_to_date(self, reader: Reader) -> bool:
        return reader.follow(self._feed, self._store.applied.index)

    async def _end_all(self) -> None:
        self.is_ending, self._failed = True, STOPPING
        for reader in (*self._idle, *self._busy):
            self._discard(reader)
        self._idle, self._busy = [], set()
        self._fail_hopeless()
        while self._tasks:  # a start that is under way is ended when it is done
            await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- for one read ---------------------------------------------------------------------------------

    async def take(self, *, anew: bool = False) -> Reader:
        """A process that shows what the worker has.  Give it back with `put`, or `discard` it.

        `anew`: on a copy that was just made, so that it shows what is stored, and not what should be.

        Raises:
            Unavailable: all are busy, or none could be started.

        """
        asked_at = self._asked_at = now().steady
        self._are_used = True
        if anew:
            self._drop_older_than(FRESH_MS)
        while True:
            await self._while_going_back(asked_at + self._turn_s * 1000)
            reader = self._idle.pop() if self._idle else await self._next_free(asked_at)
            self._busy.add(reader)
            self._fill()
            if self._is_up_to_date(reader):
                return reader
            self.discard(reader)  # it lacks too much, or has seen what was undone since

    async def _while_going_back(self, deadline: float) -> None:
        while self._feed.is_going_back:
            if now().steady > deadline:
                raise Unavailable("this worker goes back to another history: ask another one", retry_after=2)
            await asyncio.sleep(LOOK_S)

    def _drop_older_than(self, age_ms: float) -> None:
        moment = now().steady
        for reader in [reader for reader in self._idle if moment - reader.born > age_ms]:
            self._idle.remove(reader)
            self._discard(reader)

    async def _next_free(self, asked_at: float) -> Reader:
        free: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        self._waiting.append(free)
        self._fill()
        self._fail_hopeless()
        try:
            for patience_s in (self._turn_s, START_S):
                await asyncio.wait({free}, timeout=patience_s - (now().steady - asked_at) / 1000)
                if free.done():
                    return free.result()
                if not self._starting:
                    break
        except asyncio.CancelledError:
            # Given in the very moment when the wait ended: it is for somebody else.
            if free.done() and not free.exception():
                self.put(free.result())
            free.cancel()
            raise
        free.cancel()
        busy = f"{len(self._busy)} of {self._most} are busy, {self._starting} being started"
        raise Unavailable(f"no reading process was free for {patience_s:g} s: {busy}", retry_after=2)

    def put(self, reader: Reader) -> None:
        """It has answered, and may be asked again."""
        if reader in self._busy:
            reader.used_at = now().steady
            reader.weigh()
            if reader.is_worn and not self.is_ending:
                self.discard(reader)  # under load it is never idle
                return
            self._busy.remove(reader)
            self._offer(reader)

    def doubt(self) -> None:
        """A read did not come to its end in time: pyoxigraph meets a damaged block for ever."""
        self._store.damage.doubt()

    def note_damage(self, reader: Reader, message: str) -> None:
        """It says that its copy is damaged."""
        reader.note_damage(self._store, message)

    def discard(self, reader: Reader) -> None:
        """End it, whatever it does."""
        if reader in self._busy:
            self._busy.remove(reader)
            self._discard(reader)
            self._fill()

    # --- in the background ------------------------------------------------------------------------------

    def _offer(self, reader: Reader) -> None:
        if self.is_ending:
            self._discard(reader)
            return
        while self._waiting:
            free = self._waiting.popleft()
            if not free.done():
                self._busy.add(reader)
                free.set_result(reader)
                return
        self._idle.append(reader)

    def _discard(self, reader: Reader) -> None:
        reader.kill()
        self._begin(reader.end())

    def _fill(self) -> None:
        """One is ready for whoever waits, and where anybody asks one for who comes next."""
        if self.is_ending or self._feed.is_going_back or now().steady < self._again_at:
            return
        wanted = len(self._waiting) + self._are_asked - len(self._idle) - self._starting
        room = self._most - len(self._idle) - len(self._busy) - self._starting
        for _ in range(min(wanted, room)):
            self._feed.follow(anybody=True)
            self._starting += 1
            self._begin(self._start())

    async def _start(self) -> None:
        history = self._feed.history  # as of before the copy: it may be undone while that is made
        try:
            reader = await Reader.start(self._store, self._directory / f"{next(self._numbers)}")
        except (Died, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError):
                self._store.damage.note(error)
            self._failed = f"no reading process could be started: {error or 'it ended at once, see the log'}"
            self._again_at = now().steady + AGAIN_S * 1000
            log.warning("reading_process_failed", reason=self._failed)
            reader = None
        finally:
            self._starting -= 1
        if reader is None:
            self._fail_hopeless()
            return
        reader.history = history
        self._offer(reader)

    def _fail_hopeless(self) -> None:
        """Whoever waits for a process, with none that could get free, is told at once."""
        if not self.is_ending and (self._busy or self._starting):
            return
        for free in self._waiting:
            if not free.done():
                free.set_exception(Unavailable(self._failed, retry_after=2))
        self._waiting.clear()

    def _begin(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
