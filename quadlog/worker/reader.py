"""One reading process, as its worker sees it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.kafka.leash import leashed
from quadlog.quaddir import FILES
from quadlog.worker.reading.frames import HEAD, Kind, framed

if TYPE_CHECKING:
    from pathlib import Path

    from quadlog.quadstore import QuadStore
    from quadlog.worker.feed import Feed
    from quadlog.worker.reading.frames import Question

WORN_BYTES: Final = 64 * 1024 * 1024
"""Effects after which a copy is replaced by a new one: of the worker's files it shares fewer and fewer."""

WORN_MS: Final = 600_000.0
"""The same for slow changes: files that the worker has let go of stay on disk as long as a copy has them."""

WORN_MEMORY: Final = 128 * 1024 * 1024
"""Resident bytes beyond those of its beginning after which a process is replaced: each MiB of effects leaves some 7
behind (RocksDB's tables in memory), and a large query what the allocator keeps."""

WORN_AFTER_MS: Final = 10_000.0
"""But not a younger one: where queries need so much each time, not every one is to wait for a process."""

DYING_S: Final = 2.0
"""From when a process has nothing more to say until it has ended, and with what."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Died(Exception):
    """The process ended while something was expected of it."""


class Reader:
    """A process with a copy of the store; one question at a time."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        """Use `start`."""
        self._process, self._directory = process, directory
        # Kept open: 1.4 µs a look instead of 30, and there are two looks a question.
        self._statm: int | None = None
        with suppress(OSError):  # no /proc here
            self._statm = os.open(f"/proc/{process.pid}/statm", os.O_RDONLY)
        self._incoming: asyncio.StreamReader
        self._outgoing: asyncio.StreamWriter
        self.born = self.used_at = now().steady
        self._eaten = 0
        self.index = 0
        """Up to where it was told of effects."""
        self.history = 0
        """Of which history these are; see `Feed`."""
        self.resident = self._light = 0
        """Resident bytes, when it was last weighed; and at its beginning."""

    @classmethod
    async def start(cls, store: QuadStore, directory: Path) -> Reader:
        """Copy the store, start a process on the copy; returns when it can be asked.

        Raises:
            Died: it did not get as far.
            OSError: no copy could be made, or no process.
            RuntimeError: what is stored cannot be copied.

        """
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(store.copy_to, directory)
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", "quadlog.worker.reading.process", str(directory)]
                # In this thread, whose end is the process's own end, too.
                process = subprocess.Popen(leashed(command), stdin=theirs.fileno())  # noqa: S603, ASYNC220
        except (OSError, RuntimeError):
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            raise
        reader = cls(process, directory)
        try:
            reader._incoming, reader._outgoing = await asyncio.open_unix_connection(sock=ours)
            reader.index = await reader._ready(store)
        except BaseException:
            await reader.end()
            raise
        reader.weigh()
        reader._light = reader.resident
        return reader

    async def _ready(self, store: QuadStore) -> int:
        """Up to where its copy is applied."""
        kind, body = await self.next()
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

    def follow(self, feed: Feed, committed: int) -> bool:
        """Tell it of all effects that it lacks; whether it then shows what is `committed`.

        It does not where it lacks more than is kept, has seen what was undone since, or is dead.
        """
        for batch in feed.behind(self.index, self.history) or ():
            self._outgoing.write(batch.frame)
            self._eaten += len(batch.frame)
            self.index = batch.last
        return self.index >= committed and feed.is_of(self.history) and self._process.poll() is None

    @property
    def is_taking(self) -> bool:
        """Whether it took all that it was told."""
        return self._outgoing.transport.get_write_buffer_size() == 0

    def ask(self, question: Question) -> None:
        """It answers with what `next` gives."""
        self._outgoing.write(framed(Kind.QUESTION, json.dumps(asdict(question)).encode()))

    async def next(self) -> tuple[Kind, bytes]:
        """What it says next.

        Raises:
            Died: nothing more.

        """
        try:
            kind, length = HEAD.unpack(await self._incoming.readexactly(HEAD.size))
            return Kind(kind), await self._incoming.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Died from error

    def memory(self) -> int:
        """Resident bytes; 0 where nobody can tell."""
        with suppress(OSError, ValueError, IndexError):
            return int(os.pread(self._statm, 100, 0).split()[1]) * _PAGE if self._statm is not None else 0
        return 0

    def weigh(self) -> None:
        """Between two questions: what the next one takes is beyond that."""
        self.resident = self.memory()

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
            self._outgoing.close()
        if self._statm is not None:
            os.close(self._statm)
            self._statm = None
        await asyncio.to_thread(self._process.wait)
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
