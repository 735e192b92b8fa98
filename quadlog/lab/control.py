"""Connections to the running lab: of `quadlog lab kill`, `start` and `status`, and of the program that started it.

The first is a Unix socket that only the user may open, the second is stdin and stdout (`lab up --attached`); each
request and each answer is one line of JSON.  Commands are sent to the lab because processes that must die with it can
only be started by it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlog.errors import QuadlogError, SetupError, error_named
from quadlog.lab.directory import read_record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

Command = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Executes one command, and returns its answer; raises QuadlogError."""
TIMEOUT = 200.0
"""Seconds; longer than any command of the lab takes."""
LONGEST = 65536
FIRST_TIMEOUT = 60.0
"""Seconds within which the first command has to come on stdin: a client of a container may die before it attaches."""


@asynccontextmanager
async def serve(command: Command) -> AsyncGenerator[str]:
    """Listen while the context is open; yield the path of the socket; cancel running commands at the end."""
    running: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
        except ValueError:  # too long: what has arrived of it is no JSON either
            line = b""
        with suppress(ConnectionError):
            writer.write(await _reply(command, line))
            await writer.drain()
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(answer(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    # Not in the lab's directory: the path of a socket has a limit of about 100 bytes.
    place = Path(tempfile.mkdtemp(prefix="quadlog-lab-"))  # mode 0700
    try:
        server = await asyncio.start_unix_server(accept, place / "control", limit=LONGEST)
        (place / "control").chmod(0o600)
        try:
            yield str(place / "control")
        finally:
            server.close()
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def end_with_stdin() -> None:
    """Let this process get SIGTERM when its stdin ends, also while it prepares, and reads no commands yet."""
    waiting = select.poll()
    waiting.register(sys.stdin.fileno(), 0)  # only its end

    def wait() -> None:
        waiting.poll()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


@asynccontextmanager
async def attached(command: Command, ended: Callable[[], None]) -> AsyncGenerator[None]:
    """Execute the commands on stdin one after the other, and answer on stdout, while the context is open.

    `ended` is called when stdin ends: with its client, however that ends, or when the client closes it; and if no
    command comes within `FIRST_TIMEOUT`.

    Raises:
        SetupError: stdin is neither a pipe nor a socket.

    """
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        message = "--attached reads commands from stdin, which is not a pipe: start it from a program, or leave it out"
        raise SetupError(message)
    reader = asyncio.StreamReader(limit=LONGEST)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    turn = asyncio.Lock()

    async def answer(line: bytes) -> None:
        async with turn:
            reply = await _reply(command, line)
        with suppress(OSError):
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()

    async def read() -> None:
        async with asyncio.TaskGroup() as group:  # the end of stdin is noticed while a command is executed
            try:
                async with asyncio.timeout(FIRST_TIMEOUT) as first:
                    async for line in reader:
                        first.reschedule(None)
                        group.create_task(answer(line))
            finally:  # a line that is too long, and a client that never comes, end it, too
                ended()

    reading = asyncio.create_task(read())
    try:
        yield
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        transport.close()


async def _reply(command: Command, line: bytes) -> bytes:
    try:
        reply = {"ok": True, **await command(json.loads(line))}
    except QuadlogError as error:
        reply = {"ok": False, "error": type(error).__name__, "message": str(error)}
    except ValueError as error:
        reply = {"ok": False, "error": "UserError", "message": f"not a line of JSON: {error}"}
    return json.dumps(reply).encode() + b"\n"


def forget(address: str) -> None:
    """Remove the directory of the socket of a run that was killed."""
    place = Path(address).parent
    if address and place.name.startswith("quadlog-lab-"):
        shutil.rmtree(place, ignore_errors=True)


def ask(directory: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Send a command to the lab that runs in `directory`, and return its answer.

    Raises:
        SetupError: no lab runs there, or it did not answer.
        QuadlogError: the error that the lab answered.

    """
    record = read_record(directory)
    if record is None:
        message = f"{directory} is no lab's directory (no lab.json): give the --dir of `quadlog lab up`"
        raise SetupError(message)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT)
        try:
            connection.connect(record.control)
        except OSError as error:
            message = f"the lab in {directory} is not running: quadlog lab up --dir {directory}"
            raise SetupError(message) from error
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
        except OSError as error:
            message = f"the lab in {directory} did not answer ({error}): quadlog lab status --dir {directory}"
            raise SetupError(message) from error
    if not line:
        raise SetupError(f"the lab in {directory} stopped before it answered")
    reply: dict[str, Any] = json.loads(line)
    if not reply["ok"]:
        raise error_named(reply["error"])(reply["message"])
    return reply
