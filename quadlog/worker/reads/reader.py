"""One reading process, as its worker sees it."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from quadlog.clock import now
from quadlog.errors import StoreDamaged, error_named
from quadlog.leash import leashed
from quadlog.quadstore.quaddir import FILES
from quadlog.worker.reads.channel import Channel
from quadlog.worker.reads.frames import Kind, question_frame
from quadlog.worker.reads.tickets import Tickets
from quadlog.worker.vitals import Vitals

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from quadlog.errors import QuadlogError
    from quadlog.quadstore.quadstore import QuadStore
    from quadlog.worker.reads.call import Call
    from quadlog.worker.reads.feed import Feed

WORN_BYTES: Final = 64 * 1024 * 1024
"""Effects after which a copy is replaced by a new one: of the worker's files it shares fewer and fewer."""

WORN_MS: Final = 600_000.0
"""The same for slow changes: files that the worker has let go of stay on disk as long as a copy has them."""

WORN_MEMORY: Final = 128 * 1024 * 1024
"""Resident bytes beyond those of its beginning after which a process is replaced: each MiB of effects leaves some 7
behind (RocksDB's tables in memory), and a large query what the allocator keeps."""

WORN_AFTER_MS: Final = 10_000.0
"""But not a younger one: where queries need so much each time, not every one is to wait for a process."""

READY_S: Final = 60.0
"""How long a start may take: 0.3 s on a machine that is not busy."""

DYING_S: Final = 2.0
"""From when a process has nothing more to say until it has ended, and with what."""


class Died(Exception):
    """The process ended before it was ready."""


class Owner(Protocol):
    """Is told what becomes of a process."""

    def on_answered(self, reader: Reader, call: Call) -> None:
        """It is done with a question, and may be asked another one."""
        ...

    def on_slow_client(self, calls: Iterable[Call]) -> None:
        """It waits for a client: what it was asked behind that was not begun, and is to be asked elsewhere."""
        ...

    def on_damaged(self, reader: Reader, message: str) -> None:
        """Its copy is damaged."""
        ...

    def on_lost(self, reader: Reader) -> None:
        """It says nothing more."""
        ...


class Reader:
    """A process with a copy of the store.  It answers questions in the order in which they are asked."""

    def __init__(
        self, process: subprocess.Popen[bytes], directory: Path, owner: Owner, tickets: Tickets
    ) -> None:
        """Use `start`."""
        self._process, self._directory, self._owner = process, directory, owner
        self._vitals = Vitals(process.pid)
        self.tickets = tickets
        self._number = 0
        self._channel = Channel(self._hear, self._lose)
        self._ready: asyncio.Future[tuple[Kind, bytes]] = asyncio.get_running_loop().create_future()
        self.calls: deque[Call] = deque()
        """What it was asked and has not answered; it works on the first one."""
        self.is_long = False
        """Whether it works on what runs long."""
        self.is_slow = False
        """Whether nothing should wait for it."""
        self.is_retiring = False
        """Whether it is asked nothing more."""
        self.is_lost = False
        """Whether it has ended."""
        self._is_paused = False
        self.born = self.used_at = now().steady
        self._eaten = 0
        self.index = 0
        """Up to where it was told of effects."""
        self.history = 0
        """Of which history these are; see `Feed`."""
        self.resident = self._light = 0
        """Resident bytes, when it was last weighed; and at its beginning."""
        self._counted: tuple[Call | None, float] = None, 0.0
        """What its CPU time is counted for, and how much of it there was before."""

    @classmethod
    async def start(cls, store: QuadStore, directory: Path, owner: Owner, unready: set[Reader]) -> Reader:
        """Copy the store, start a process on the copy; returns when it can be asked.

        Meanwhile it is one of `unready`, and may be killed.

        Raises:
            Died: it did not get as far.
            OSError: no copy could be made, or no process.
            RuntimeError: what is stored cannot be copied.

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
                # In this thread, whose end is the process's own end, too.
                process = subprocess.Popen(leashed(command), stdin=theirs.fileno(), pass_fds=[inlet])  # noqa: S603, ASYNC220
        except (OSError, RuntimeError):
            tickets.close()
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            raise
        reader = cls(process, directory, owner, tickets)
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
        """Up to where its copy is applied."""
        try:
            async with asyncio.timeout(READY_S):
                kind, body = await self._ready
        except TimeoutError as error:
            raise Died(f"it was not ready after {READY_S:g} s") from error
        said = json.loads(body)
        if kind is Kind.ERROR:
            self.note_damage(store, said["message"])
            raise Died(said["message"])
        index: int = said["index"]
        return index

    def note_damage(self, store: QuadStore, message: str) -> None:
        """It says that its copy is damaged: then the store may be."""
        store.damage.note(message, self._directory / FILES)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def is_worn(self) -> bool:
        """Whether its copy should be replaced."""
        age = now().steady - self.born
        return (
            self._eaten > WORN_BYTES
            or (self._eaten > 0 and age > WORN_MS)
            or (self.resident - self._light > WORN_MEMORY and age > WORN_AFTER_MS)
        )

    # --- what it is told --------------------------------------------------------------------------------

    def follow(self, feed: Feed, committed: int) -> bool:
        """Tell it of all effects that it lacks; whether it then shows what is `committed`.

        It does not where it lacks more than is kept, has seen what was undone since, or has ended.
        """
        if self.index < feed.index:
            for batch in feed.behind(self.index, self.history) or ():
                self._channel.write(batch.frame)
                self._eaten += len(batch.frame)
                self.index = batch.last
        return self.index >= committed and feed.is_of(self.history) and not self.is_lost

    @property
    def is_taking(self) -> bool:
        """Whether it took all that it was told."""
        return self._channel.is_taken

    def ask(self, call: Call, moment: float) -> None:
        """The call is told of the answer.  What was asked before it is answered first."""
        self._number += 1
        call.reader, call.number = self, self._number
        if not self.calls:
            call.began = moment
        if call.is_long:
            self.cpu_ms_for(call)
        self.calls.append(call)
        self.tickets.issue(self._number)
        self._channel.write(question_frame(self._number, call.question))

    def take_back(self) -> list[Call]:
        """Have back what it did not begin, in order; it never will."""
        numbers = self.tickets.withdraw()
        taken = [call for call in self.calls if call.number in numbers]
        for call in taken:
            self.calls.remove(call)
            call.take_back()
        return taken

    def pause(self) -> None:
        """Have it wait with its answer, as its client does not take it.

        But not where it has begun the next question: then it wrote all of this answer, and the socket holds the rest.
        """
        if not self._is_paused:
            self.is_slow = True
            self._owner.on_slow_client(self.take_back())
            if len(self.calls) == 1:
                self._channel.pause()
                self._is_paused = True

    def resume(self) -> None:
        """Have it go on."""
        if self._is_paused:
            self._channel.resume()
            self._is_paused = False

    # --- what it says -----------------------------------------------------------------------------------

    def _hear(self, kind: Kind, body: bytes) -> None:
        if not self._ready.done():
            self._ready.set_result((kind, body))
            return
        if not self.calls:  # it is being ended
            return
        call = self.calls[0]
        if kind is Kind.HEADERS or kind is Kind.PIECE:
            call.hear(kind, body)
            return
        error = _error_of(body) if kind is Kind.ERROR else None
        if isinstance(error, StoreDamaged):
            self._owner.on_damaged(self, str(error))
            return
        self.calls.popleft()
        if error is None:
            call.hear(kind, body)
        else:
            call.fail(error)
        call.reader = None
        self.resume()  # what waits for that client is not to hold up the next one
        self.used_at = now().steady
        self.is_long = self.is_slow = False
        self.weigh()
        if self.calls:
            self.calls[0].began = self.used_at
        self._owner.on_answered(self, call)

    def _lose(self) -> None:
        self.is_lost = True
        if not self._ready.done():
            self._ready.set_exception(Died())
        self._owner.on_lost(self)

    def memory(self) -> int:
        """Resident bytes; 0 where nobody can tell."""
        return self._vitals.memory()

    def weigh(self) -> None:
        """Between two questions: what the next one takes is beyond that."""
        self.resident = self.memory()

    def cpu_ms_for(self, call: Call) -> float:
        """CPU time that it took since this was first called for that; 0 where nobody can tell.

        For one that is known to run long, that is when it was asked.
        """
        cpu_ms = self._vitals.cpu_ms()
        if self._counted[0] is not call:
            self._counted = call, cpu_ms
        return cpu_ms - self._counted[1]

    # --- its end ----------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._process.kill()

    async def fate(self) -> int | None:
        """The exit status of a process that says no more, below 0 for a signal; None: it does not even end."""
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self._process.wait, DYING_S)
        return None

    async def end(self) -> None:
        """Kill it, and let go of its copy."""
        self.kill()
        with suppress(AttributeError):  # it never was connected
            self._channel.close()
        self._vitals.close()
        self.tickets.close()
        await asyncio.to_thread(self._process.wait)
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)


def _error_of(body: bytes) -> QuadlogError:
    said = json.loads(body)
    return error_named(said["error"])(said["message"], retry_after=said["retry_after"])
