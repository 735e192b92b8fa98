"""One stream to several doors: who is not there, or goes away, keeps nobody else from it."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import TYPE_CHECKING

from quadlog.master.seeds.fan_out import deliver
from quadlog.snapshots.store_archive import ArchiveManifest
from quadlog.web.http_client import new_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

BODY = b"x" * 20_000_000
"""More than the sockets of one connection hold."""
LABEL = ArchiveManifest(
    signature="a" * 64, quads=1, digest=blake2b(BODY, digest_size=32).hexdigest(), size=len(BODY)
)


async def pieces() -> AsyncGenerator[bytes]:
    for at in range(0, len(BODY), 100_000):
        yield BODY[at : at + 100_000]
        await asyncio.sleep(0)


async def delivered() -> tuple[list[int], dict[str, str]]:
    """How much the door that takes all has got; why each of the five failed."""
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

    async def leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)  # until no more fits in
        writer.close()

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(BODY))
        writer.write(b'HTTP/1.1 409 No\r\nContent-Length: 19\r\n\r\n{"message": "full"}')
        await writer.drain()
        writer.close()

    handlers = (takes, closes, leaves, refuses)
    servers = [await asyncio.start_server(handler, "127.0.0.1", 0) for handler in handlers]
    ports = [server.sockets[0].getsockname()[1] for server in servers]
    doors = {
        handler.__name__: f"http://127.0.0.1:{port}/" for handler, port in zip(handlers, ports, strict=True)
    }
    async with new_client(30) as client:
        done = await deliver(client, pieces(), LABEL, {**doors, "nobody": "http://127.0.0.1:9/"})
    for server in servers:
        server.close()
        await server.wait_closed()
    await asyncio.sleep(0.1)
    return got, {name: one.failure for name, one in done.items()}


def test_one_of_five_doors_takes_it() -> None:
    got, failures = asyncio.run(asyncio.wait_for(delivered(), 30))
    assert (got, failures["takes"], failures["refuses"]) == ([len(BODY)], "", "full")
    assert all(failures[name] for name in ("closes", "leaves", "nobody"))
