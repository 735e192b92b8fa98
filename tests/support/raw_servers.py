"""Servers that follow a script, byte by byte, whatever HTTP says."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

Script: TypeAlias = "Sequence[bytes | float | AsyncIterator[bytes] | None]"
"""What is done on one connection, in turn: None reads a request, a number of seconds passes, the rest is sent.  Then
it is closed."""


@asynccontextmanager
async def serving(*scripts: Script) -> AsyncIterator[tuple[int, list[list[bytes]]]]:
    """A port, and the requests of each connection; the last script serves all further connections."""
    heard: list[list[bytes]] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = scripts[min(len(heard), len(scripts) - 1)]
        requests: list[bytes] = []
        heard.append(requests)
        writers.append(writer)
        try:
            for step in script:
                if step is None:
                    requests.append(await _request(reader))
                elif isinstance(step, bytes):
                    writer.write(step)
                elif isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    async for piece in step:
                        writer.write(piece)
                        await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client hung up
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**20)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        for writer in writers:
            with suppress(AttributeError):  # of Python 3.11, where it has sent its rest and closed meanwhile
                writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> bytes:
    """The head of a request, and its body without the marks of its chunks."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    body = bytearray(await reader.readexactly(int(fields.get(b"content-length", b"0"))))
    while b"transfer-encoding" in fields:
        size = int(await reader.readline(), 16)
        body += (await reader.readexactly(size + 2))[:size]
        if not size:
            break
    return head + body
