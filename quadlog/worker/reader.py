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
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quadlog.clock import now
from quadlog.kafka.leash import leashed
from quadlog.worker.reading.frames import HEAD, Kind, framed

if TYPE_CHECKING:
    from quadlog.quadstore import QuadStore
    from quadlog.worker.feed import Feed
    from quadlog.worker.reading.frames import Question

WORN_BYTES: Final = 64 * 1024 * 1024
"""Effects after which a copy is replaced by a new one: of the worker's files it shares fewer and fewer."""

WORN_MS: Final = 600_000.0
"""The same for slow changes: files that the worker has let go of stay on disk as long as a copy has them."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Died(Exception):
    """The process ended while something was expected of it."""


class Reader:
    """A process with a copy of the store; one question at a time."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        """Use `start`."""
        self._process, self._directory = process, directory
        self._incoming: asyncio.StreamReader
        self._outgoing: asyncio.StreamWriter
        self.born = self.used_at = now().steady
        self._eaten = 0
        self.index = 0
        """Up to where it was told of effects."""

    @classmethod
    async def start(cls, store: QuadStore, directory: Path) -> Reader:
        """Copy the store, start a process on the copy; returns when it can be asked.

        Raises:
            Died: it did not get as far.
            OSError: no copy could be made, or no process.

        """
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(store.copy_to, directory)
            ours, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, "-m", "quadlog.worker.reading.process", str(directory)]
                # In this thread, whose end is the process's own end, too.
                process = subprocess.Popen(leashed(command), stdin=theirs.fileno())  # noqa: S603, ASYNC220
        except OSError:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
            raise
        reader = cls(process, directory)
        try:
            reader._incoming, reader._outgoing = await asyncio.open_unix_connection(sock=ours)
            _, body = await reader.next()
        except BaseException:
            await reader.end()
            raise
        reader.index = json.loads(body)["index"]
        return reader

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def is_worn(self) -> bool:
        """Whether its copy should be replaced."""
        return self._eaten > WORN_BYTES or (self._eaten > 0 and now().steady - self.born > WORN_MS)

    def follow(self, feed: Feed, committed: int) -> bool:
        """Tell it of all effects that it lacks; whether it then shows what is `committed`.

        It does not where it lacks more than is kept, or is dead.
        """
        for batch in feed.behind(self.index) or ():
            self._outgoing.write(batch.frame)
            self._eaten += len(batch.frame)
            self.index = batch.last
        return self.index >= committed and self._process.poll() is None

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
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE
        return 0

    def kill(self) -> None:
        """End it now, whatever it does."""
        self._process.kill()

    async def end(self) -> int:
        """Kill it, and let go of its copy; returns its exit status."""
        self.kill()
        with suppress(AttributeError):  # it never was connected
            self._outgoing.close()
        status = await asyncio.to_thread(self._process.wait)
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
        return status
