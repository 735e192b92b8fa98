"""Connection of `quadlog lab kill`, `start` and `status` to the running lab.

It is a Unix socket that only the user may open; each request and each answer is one line of JSON.  Commands are sent to
the lab because processes that must die with it can only be started by it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadlog import errors
from quadlog.errors import QuadlogError, SetupError
from quadlog.lab.directory import read_record

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

TIMEOUT = 200.0
"""Seconds; longer than any command of the lab takes."""
LONGEST = 65536


@asynccontextmanager
async def serve(command: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> AsyncGenerator[str]:
    """Listen while the context is open; yield the path of the socket; cancel running commands at the end."""
    running: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            reply = {"ok": True, **await command(json.loads(await reader.readline()))}
        except QuadlogError as error:
            reply = {"ok": False, "error": type(error).__name__, "message": str(error)}
        except ValueError as error:
            reply = {"ok": False, "error": "UserError", "message": f"not a line of JSON: {error}"}
        with suppress(ConnectionError):
            writer.write(json.dumps(reply).encode() + b"\n")
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
        message = f"the lab in {directory} stopped before it answered"
        raise SetupError(message)
    reply: dict[str, Any] = json.loads(line)
    if not reply["ok"]:
        kind = getattr(errors, reply["error"], QuadlogError)
        raise kind(reply["message"])
    return reply
