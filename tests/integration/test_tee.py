"""One stream to several doors: who is not there, or goes away, keeps nobody else from it."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import TYPE_CHECKING

from quadlog.http_client import new_client
from quadlog.master.tee import deliver
from quadlog.parcel import Label

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

BODY = b"x" * 3_000_000
LABEL = Label(signature="a" * 64, quads=1, digest=blake2b(BODY, digest_size=32).hexdigest(), size=len(BODY))


async def pieces() -> AsyncGenerator[bytes]:
    for at in range(0, len(BODY), 100_000):
        yield BODY[at : at + 100_000]
        await asyncio.sleep(0)


async def scenario() -> None:
    got: list[int] = []

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert LABEL.digest.encode() in head
        got.append(len(await reader.readexactly(len(BODY))))
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 409 No\r\nContent-Length: 18\r\n\r\n{"message": "full"}'[:-1])
        writer.close()

    servers = [await asyncio.start_server(one, "127.0.0.1", 0) for one in (takes, closes, refuses)]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    doors = dict(
        zip(("takes", "closes", "refuses"), (f"http://127.0.0.1:{port}/" for port in ports), strict=True)
    )
    async with new_client(30) as client:
        done = await deliver(client, pieces(), LABEL, {**doors, "nobody": "http://127.0.0.1:9/"})
    for server in servers:
        server.close()
        await server.wait_closed()
    await asyncio.sleep(0.1)
    assert got == [len(BODY)]
    assert {name for name, one in done.items() if not one.failure} == {"takes"}


def test_one_of_four_doors_takes_it() -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))
