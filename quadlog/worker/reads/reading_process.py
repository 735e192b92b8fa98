"""One reading process, as an object of its worker."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.errors import QueryStopped, StoreDamaged, Unavailable, error_named
from quadlog.leash import leashed
from quadlog.quadstore.quaddir import FILES
from quadlog.worker.reads.channel import Channel
from quadlog.worker.reads.frames import FrameKind, question_frame
from quadlog.worker.reads.tickets import Tickets
from quadlog.worker.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from quadlog.errors import QuadlogError
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.reads.call import ReadCall
    from quadlog.worker.reads.feed import Feed
    from quadlog.worker.reads.process_pool import ReadingProcessPool

WORN_BYTES: Final = 64 * 1024 * 1024
"""Bytes of effects after which a copy is replaced by a new one: it shares fewer and fewer of the worker's files."""

WORN_MS: Final = 600_000.0
"""Age after which a copy with effects is replaced: files deleted by the worker stay on disk while a copy has them."""

WORN_MEMORY: Final = 128 * 1024 * 1024
"""Resident bytes in addition to those at the start after which a process is replaced: each MiB of effects leaves some
7 MiB in use (RocksDB's tables in memory), and a large query leaves what the allocator keeps."""

WORN_AFTER_MS: Final = 10_000.0
"""Minimum age for that: if queries need so much memory each time, not each of them must wait for a new process."""

READY_S: Final = 60.0
"""Maximum seconds of a start, which takes 0.3 s on a machine that is not busy."""

DYING_S: Final = 2.0
"""Maximum seconds from the end of a process's channel until its exit status is known."""


class ReadingProcessDied(Exception):
    """The process ended before it was ready."""


class ReadingProcess:
    """A process with a copy of the store.  It answers questions in the order in which they are sent."""

    def __init__(
        self, process: subprocess.Popen[bytes], directory: Path, pool: ReadingProcessPool, tickets: Tickets
    ) -> None:
        """Use `start` instead."""
        self._process, self._directory, self._pool = process, directory, pool
        self._vitals = Vitals(process.pid)
        self.tickets = tickets
        self._number = 0
        self._channel = Channel(self._hear, self._lose)
        self._ready: asyncio.Future[tuple[FrameKind, bytes]] = asyncio.get_running_loop().create_future()
        self.calls: deque[ReadCall] = deque()
        """Questions that were sent and not answered; the process works on the first one."""
        self.is_long = False
        """True if the process works on a long question."""
        self.is_slow = False
        """True if no question should wait for this process."""
        self.is_retiring = False
        """True if the process receives no more questions."""
        self.is_lost = False
        """True once the process has ended."""
        self._is_paused = False
        self.born = self.used_at = now().steady
        self._eaten = 0
        self.index = 0
        """Index up to which effects were sent."""
        self.history = 0
        """History of these effects; see `Feed`."""
        self.resident = self._light = 0
        """Resident bytes at the last call of `weigh`, and at the start."""
        self._counted: tuple[ReadCall | None, float] = None, 0.0
        """The call whose CPU time is counted, and the CPU time of the process before it."""

    @classmethod
    async def start(
        cls, store: QuadStore, directory: Path, pool: ReadingProcessPool, unready: set[ReadingProcess]
    ) -> ReadingProcess:
        """Copy the store, and start a process on the copy; return when the process is ready for questions.

        Until then it is in `unready`, and may be killed.

        Raises:
            ReadingProcessDied: the process ended before it was ready, or was not ready in time.
            OSError: the copy or the process cannot be created.
            RuntimeError: the stored data cannot be copied.

        """
        tickets = Tickets()
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(store.copy_to, directory)
            ours, theirs = socket.socketpair()
            with theirs:
                inlet = tickets.inlet
                command = [
                    sys.executable,
                    "-m",
                    "quadlog.worker.reads.reader_process",
                    str(directory),
                    str(inlet),
                ]
                # Started from this thread, because the process ends when the thread that started it ends.
                process = subprocess.Popen(leashed(command), stdin=theirs.fileno(), pass_fds=[inlet])  # noqa: S603, ASYNC220
        except (OSError, RuntimeError):
            tickets.close()
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            raise
        reader = cls(process, directory, pool, tickets)
        unready.add(reader)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: reader._channel, sock=ours)
            reader.index = await reader._get_ready(store)
        except BaseException:
            await reader.end()
            raise
        finally:
            unready.discard(reader)
        reader.weigh()
        reader._light = reader.resident
        return reader

    async def _get_ready(self, store: QuadStore) -> int:
        """Wait until the process is ready; return the index up to which its copy is applied."""
        try:
            async with asyncio.timeout(READY_S):
                kind, body = await self._ready
        except TimeoutError as error:
            raise ReadingProcessDied(f"it was not ready after {READY_S:g} s") from error
        said = json.loads(body)
        if kind is FrameKind.ERROR:
            self.note_damage(store, said["message"])
            raise ReadingProcessDied(said["message"])
        index: int = said["index"]
        return index

    def note_damage(self, store: QuadStore, message: str) -> None:
        """Note reported damage of the copy: the store may be damaged, too."""
        store.damage.note(message, self._directory / FILES)

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def is_worn(self) -> bool:
        """True if the process and its copy should be replaced."""
        age = now().steady - self.born
        return (
            self._eaten > WORN_BYTES
            or (self._eaten > 0 and age > WORN_MS)
            or (self.resident - self._light > WORN_MEMORY and age > WORN_AFTER_MS)
        )

    # --- frames to the process --------------------------------------------------------------------------

    def follow(self, feed: Feed, committed: int) -> bool:
        """Send all effects that the process lacks; return whether it then shows what is `committed`.

        It does not if it lacks more than is kept, has seen what was undone since, or has ended.
        """
        if self.index < feed.index:
            for batch in feed.behind(self.index, self.history) or ():
                self._channel.transport.write(batch.frame)
                self._eaten += len(batch.frame)
                self.index = batch.last
        return self.index >= committed and feed.is_of(self.history) and not self.is_lost

    @property
    def is_taking(self) -> bool:
        """True if the process, or the socket to it, has accepted all frames."""
        return self._channel.transport.get_write_buffer_size() == 0

    def ask(self, call: ReadCall, moment: float) -> None:
        """Send a question, whose answer goes to `call`.  Earlier questions are answered first."""
        self._number += 1
        call.reader, call.number = self, self._number
        if not self.calls:
            call.began = moment
        if call.is_long:
            self.cpu_ms_for(call)
        self.calls.append(call)
        self.tickets.issue(self._number)
        self._channel.transport.write(question_frame(self._number, call.question))

    def take_back(self) -> list[ReadCall]:
        """Take back, in order, the questions that the process has not begun; it never will begin them."""
        numbers = self.tickets.withdraw()
        taken = [call for call in self.calls if call.number in numbers]
        for call in taken:
            self.calls.remove(call)
            call.take_back()
        return taken

    def pause(self) -> None:
        """Make the process wait with its answer, because the client does not accept it.

        Not if it has begun the next question: then it wrote all of this answer, and the socket holds the rest.
        """
        if not self._is_paused:
            self.is_slow = True
            self._pool.on_slow_client(self.take_back())
            if len(self.calls) == 1:
                self._channel.transport.pause_reading()
                self._is_paused = True

    def resume(self) -> None:
        """Let the process continue."""
        if self._is_paused:
            self._channel.transport.resume_reading()
            self._is_paused = False

    # --- frames from the process ------------------------------------------------------------------------

    def _hear(self, kind: FrameKind, body: bytes) -> None:
        if not self._ready.done():
            self._ready.set_result((kind, body))
            return
        if not self.calls:  # the process is being ended
            return
        call = self.calls[0]
        if kind is FrameKind.HEADERS or kind is FrameKind.PIECE:
            call.on_frame(kind, body)
            return
        error = _error_of(body) if kind is FrameKind.ERROR else None
        if isinstance(error, StoreDamaged):
            self._pool.on_damaged(self, str(error))
            return
        self.calls.popleft()
        if error is None:
            call.on_frame(kind, body)
        else:
            call.fail(error)
        call.reader = None
        self.resume()  # data that wait for that client must not delay the next one
        self.used_at = now().steady
        self.is_long = self.is_slow = False
        self.weigh()
        if self.calls:
            self.calls[0].began = self.used_at
        self._pool.on_answered(self, call)

    def _lose(self) -> None:
        self.is_lost = True
        if not self._ready.done():
            self._ready.set_exception(ReadingProcessDied())
        self._pool.on_lost(self)

    def memory(self) -> int:
        """Return the resident bytes; 0 if unknown."""
        return self._vitals.memory()

    def weigh(self) -> None:
        """Measure the memory between two questions, as the base for that of the next one."""
        self.resident = self.memory()

    def cpu_ms_for(self, call: ReadCall) -> float:
        """Return the CPU milliseconds since the first call of this method for `call`; 0 if unknown.

        For a call that is known to run long, the first call is made when the question is sent.
        """
        cpu_ms = self._vitals.cpu_ms()
        if self._counted[0] is not call:
            self._counted = call, cpu_ms
        return cpu_ms - self._counted[1]

    # --- end of the process -----------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process at once."""
        self._process.kill()

    async def fate(self) -> int | None:
        """Return the exit status of a process whose channel has ended, negative for a signal; None: it still runs."""
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self._process.wait, DYING_S)
        return None

    async def bury(self, calls: Iterable[ReadCall]) -> None:
        """Clean up after a process that ended on its own, and fail `calls`, those that it had begun."""
        fate = await self.fate()
        for call in calls:
            call.fail(_died(fate))
        await self.end()

    async def end(self) -> None:
        """Kill the process, and delete its copy."""
        self.kill()
        with suppress(AttributeError):  # the channel was never connected
            self._channel.transport.abort()
        self._vitals.close()
        self.tickets.close()
        await asyncio.to_thread(self._process.wait)
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)


def _died(fate: int | None) -> QuadlogError:
    """Return the error for a query whose process was not ended by this worker.

    A signal was caused by the query: memory was exhausted, or native code failed.  An exit status means that the
    process itself failed, for instance at its copy, and that another worker may answer.
    """
    if fate is not None and fate < 0:
        return QueryStopped(
            f"the query killed the process that ran it (signal {-fate}): it may need more memory than there is"
        )
    how = "stopped answering" if fate is None else f"ended with status {fate}"
    return Unavailable(f"the process that read {how}, see this worker's log: ask another one", retry_after=2)


def _error_of(body: bytes) -> QuadlogError:
    said = json.loads(body)
    return error_named(said["error"])(said["message"], retry_after=said["retry_after"])
